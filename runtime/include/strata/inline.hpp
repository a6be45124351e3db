// Inlining that does not depend on optimisation.
//
// Code that is compiled once per instruction set must leave no out-of-line copy under a name that another instruction
// set shares: the linker would keep one of them, and an old CPU could meet the instructions of a new one. Helpers
// without the instruction set in their name are therefore always inlined. Compilers for GPUs make them for both sides.
#pragma once

#include <cstddef>
#include <utility>

#if defined(__CUDACC__)
#define STRATA_INLINE __host__ __device__ __forceinline__
#define STRATA_FUNCTION __host__ __device__ inline
#elif defined(__HIP__)
#define STRATA_INLINE inline __attribute__((always_inline, host, device))
#define STRATA_FUNCTION inline __attribute__((host, device))
#else
#define STRATA_INLINE inline __attribute__((always_inline))
#define STRATA_FUNCTION inline  // large, and never compiled for more than one instruction set
#endif

namespace strata {

template <std::size_t Value>
struct Index {
  static constexpr std::size_t value = Value;
  constexpr operator std::size_t() const { return Value; }
};

template <class Body, std::size_t... Indices>
STRATA_INLINE void unroll_over(const Body& body, std::index_sequence<Indices...>) {
  (body(Index<Indices>{}), ...);
}

// Calls body(Index<0>), ..., body(Index<Count - 1>): constant indices, so that arrays of vectors stay in registers.
template <std::size_t Count, class Body>
STRATA_INLINE void unroll(const Body& body) {
  unroll_over(body, std::make_index_sequence<Count>{});
}

}  // namespace strata

#define STRATA_LAMBDA __attribute__((always_inline))
