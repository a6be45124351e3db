// Tiles by instructions of sm_80 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strata/scalar.hpp"
#include "strata/simt/gpu_cuda.hpp"
#include "strata/simt/tile.hpp"

namespace strata::simt {

template <>
struct Tile<Gpu<32>> {
  using S = Gpu<32>;

  template <class Type>
  __device__ __forceinline__ static std::uint32_t pack(float low, float high) {
    std::uint32_t word;
    if constexpr (std::is_same_v<Type, field::F16>) {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    }
    return word;
  }

  template <class Type>
  __device__ __forceinline__ static void multiply_add(const S&, float (&c)[4], const std::uint32_t (&a)[4],
                                                      const std::uint32_t (&b)[2]) {
    if constexpr (std::is_same_v<Type, field::F16>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }

  __device__ __forceinline__ static void load(const S&, const std::byte* row, std::uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared(row))
                 : "memory");
  }
  __device__ __forceinline__ static void load_transposed(const S&, const std::byte* row, std::uint32_t (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared(row))
                 : "memory");
  }

  __device__ __forceinline__ static void copy(std::byte* to, const std::byte* from, bool present) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(shared(to)), "l"(from), "r"(present ? 16 : 0)
                 : "memory");
  }
  __device__ __forceinline__ static void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Groups>
  __device__ __forceinline__ static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
  }

  __device__ __forceinline__ static float exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
  }

 private:
  __device__ __forceinline__ static std::uint32_t shared(const std::byte* at) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  }
};

}  // namespace strata::simt
