// Products of matrices of 16 x 16 16-bit floats by a wave, in the operands' places of AMD's matrix instructions.
//
// C[16, 16] += A[16, 16] * B[16, 16]. Lane l has of A values of row l % 16, of B those of the same places in column
// l % 16, and of C values of column l % 16. Which of them says a struct for each kind of instruction, which targets
// name by their `lanes`.
#pragma once

#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::simt {

// What the kinds differ in: how many lanes a wave has, how many values of A and of B a lane has, and which rows of C.
template <int Wave, int Elements>
struct SquareLanes {
  static constexpr int kWave = Wave;
  static constexpr int kElements = Elements;
  static constexpr int kSums = 16 * 16 / Wave;

  // The first of a lane's places in a row of A; the others follow it. Where documents give a lane other places it is
  // all the same, as A and B share them.
  STRATA_INLINE static int first(int lane) { return lane / 16 * Elements % 16; }
};

// RDNA 3: the lanes 16 to 31 repeat what the others have of A and B, and have the odd rows of C.
struct Wmma : SquareLanes<32, 16> {
  STRATA_INLINE static int row(int lane, int i) { return 2 * i + lane / 16; }
};
// RDNA 4, CDNA: a lane's rows of C are those places of B.
struct WmmaGfx12 : SquareLanes<32, 8> {
  STRATA_INLINE static int row(int lane, int i) { return first(lane) + i; }
};
struct Mfma : SquareLanes<64, 4> {
  STRATA_INLINE static int row(int lane, int i) { return first(lane) + i; }
};

template <class Lanes>
using SquareOperand = std::uint32_t[Lanes::kElements / 2];  // two values a word, the first one lowest
template <class Lanes>
using SquareSums = float[Lanes::kSums];

// For a device and in tests: `multiply_add` of these, `pack` and `exp2` as those of `Tile`.
template <Simt S, class Lanes>
struct SquareTile;

// A product as operand B of another one, whose places in a row of A are this one's rows.
template <class Type, class Lanes, Simt S>
STRATA_INLINE void to_operand(const S& simt, const SquareSums<Lanes>& sums, SquareOperand<Lanes>& operand) {
  std::uint32_t own[Lanes::kSums / 2];
  unroll<Lanes::kSums / 2>(
      [&](auto i) STRATA_LAMBDA { own[i] = SquareTile<S, Lanes>::template pack<Type>(sums[2 * i], sums[2 * i + 1]); });
  if constexpr (Lanes::kSums == Lanes::kElements) {
    unroll<Lanes::kSums / 2>([&](auto i) STRATA_LAMBDA { operand[i] = own[i]; });
  } else {
    // Each of two lanes has every other row.
    static_assert(2 * Lanes::kSums == Lanes::kElements);
    unroll<Lanes::kSums / 2>([&](auto i) STRATA_LAMBDA {
      const auto other = bit_cast<std::uint32_t>(simt.shuffle_xor(bit_cast<float>(own[i]), 16));
      const std::uint32_t even = simt.lane() < 16 ? own[i] : other;
      const std::uint32_t odd = simt.lane() < 16 ? other : own[i];
      operand[2 * i] = (even & 0xffffu) | odd << 16;
      operand[2 * i + 1] = even >> 16 | (odd & 0xffff0000u);
    });
  }
}

}  // namespace strata::simt
