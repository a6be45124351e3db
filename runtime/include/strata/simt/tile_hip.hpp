// Square tiles by the matrix instructions of AMD's GPUs.
#pragma once

#include <cstdint>
#include <type_traits>

#include "strata/scalar.hpp"
#include "strata/simt/gpu_hip.hpp"
#include "strata/simt/square_tile.hpp"

namespace strata::simt {

template <int Wave, class Lanes>
struct SquareTile<Gpu<Wave>, Lanes> {
  static_assert(Wave == Lanes::kWave);

  template <class Type>
  STRATA_GPU_DEVICE static std::uint32_t pack(float low, float high) {
    if constexpr (std::is_same_v<Type, field::F16>) {
      const Vector<_Float16, 2> halves{static_cast<_Float16>(low), static_cast<_Float16>(high)};
      return bit_cast<std::uint32_t>(halves);
    } else {
      return __builtin_amdgcn_perm(rounded(high), rounded(low), 0x07060302u);
    }
  }

  // Every lane of the wave is to be active.
  template <class Type>
  STRATA_GPU_DEVICE static void multiply_add(const Gpu<Wave>&, SquareSums<Lanes>& c, const SquareOperand<Lanes>& a,
                                             const SquareOperand<Lanes>& b) {
    constexpr bool kIsF16 = std::is_same_v<Type, field::F16>;
    using Operand = Vector<std::conditional_t<kIsF16, _Float16, short>, Lanes::kElements>;
    using Sums = Vector<float, Lanes::kSums>;
    const auto left = __builtin_bit_cast(Operand, a);
    const auto right = __builtin_bit_cast(Operand, b);
    auto sums = __builtin_bit_cast(Sums, c);
    if constexpr (std::is_same_v<Lanes, Wmma>) {
      if constexpr (kIsF16) {
        sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left, right, sums);
      } else {
        sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(left, right, sums);
      }
    } else if constexpr (std::is_same_v<Lanes, WmmaGfx12>) {
      if constexpr (kIsF16) {
        sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(left, right, sums);
      } else {
        sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(left, right, sums);
      }
    } else {
      if constexpr (kIsF16) {
        sums = __builtin_amdgcn_mfma_f32_16x16x16f16(left, right, sums, 0, 0, 0);
      } else {
        sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left, right, sums, 0, 0, 0);
      }
    }
    __builtin_memcpy(&c, &sums, sizeof c);
  }

  STRATA_GPU_DEVICE static float exp2(float x) { return __builtin_amdgcn_exp2f(x); }

 private:
  // A bfloat16 in the upper half: as field::Bf16 has it, without a branch.
  STRATA_GPU_DEVICE static std::uint32_t rounded(float value) {
    const auto bits = bit_cast<std::uint32_t>(value);
    const std::uint32_t even = bits + 0x7fffu + (bits >> 16 & 1u);
    const std::uint32_t quiet = bits | 0x400000u;
    return value == value ? even : quiet;
  }

  template <class Element, int Count>
  using Vector = Element __attribute__((ext_vector_type(Count)));
};

}  // namespace strata::simt
