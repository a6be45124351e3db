// Device kernels on a GPU: CUDA through nvcc, HIP through clang's own builtins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/gen/target.hpp"
#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

#if defined(__CUDACC__)
#include "strata/simt/gpu_cuda.hpp"
#elif defined(__HIP__)
#include "strata/simt/gpu_hip.hpp"
#else
#error "simt/gpu.hpp is for compilers of CUDA and HIP"
#endif

namespace strata::simt {

static_assert(Simt<Gpu<kGpuWave>>);

// Shared memory that a kernel's launch has to ask for: all of it where it is more than any kernel may have.
template <class Kernel>
inline constexpr std::size_t kDynamicShared =
    sizeof(typename Kernel::Shared) > target::kSharedBytes ? sizeof(typename Kernel::Shared) : 0;

// Blocks of a kernel that a processor should have room for at a time: bounds the registers of its threads. Without
// tiles there are too few for that.
template <class Kernel>
consteval int blocks_at_once() {
  if constexpr (Gpu<kGpuWave>::kHasTiles && requires { Kernel::kBlocksAtOnce; }) {
    return Kernel::kBlocksAtOnce;
  } else {
    return 1;
  }
}

// The entry of a kernel, which may begin with what needs nothing of the kernel before it; launch it with
// Kernel::blocks(args) blocks of Kernel::Launch::threads(kGpuWave) threads and kDynamicShared<Kernel> bytes, after
// Kernel::refusal(args).
template <class Kernel>
STRATA_GPU_KERNEL STRATA_GPU_BOUNDS(Kernel::Launch::threads(kGpuWave),
                                    blocks_at_once<Kernel>()) void entry(const typename Kernel::Args args) {
  const Gpu<kGpuWave> simt;
  if constexpr (requires { Kernel::before_predecessor_ends(simt, args); }) {
    Kernel::before_predecessor_ends(simt, args);
  }
  wait_for_predecessor();
  if constexpr (kDynamicShared<Kernel> > 0) {
    static_assert(kDynamicShared<Kernel> <= target::kSharedOptinBytes);
    Kernel::run(simt, *reinterpret_cast<typename Kernel::Shared*>(dynamic_shared()), args);
  } else {
    STRATA_GPU_SHARED typename Kernel::Shared shared;
    Kernel::run(simt, shared, args);
  }
}

}  // namespace strata::simt
