// AMD's matrix instructions, as documents of AMD say where operands and sums lie: see the sources of `lanes` in
// specs/targets/hip.yaml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "emulator.hpp"
#include "strata/simt/square_tile.hpp"
#include "strata/simt/tile.hpp"

namespace strata::emulator {

struct Place {
  int lane;
  int slot;
};

// Where A[i][k] lies, and B[k][i]; where C[i][j] lies.
template <class Lanes>
struct Places;

template <>
struct Places<simt::Wmma> {
  static Place operand(int i, int k) { return {i, k}; }
  static Place sum(int i, int j) { return {j + 16 * (i % 2), i / 2}; }
};
// The instruction calculator's; others have k / 8 and k % 8, which makes the same products.
template <>
struct Places<simt::WmmaGfx12> {
  static Place operand(int i, int k) { return {i + 16 * (k / 4 % 2), 4 * (k / 8) + k % 4}; }
  static Place sum(int i, int j) { return {j + 16 * (i / 8), i % 8}; }
};
template <>
struct Places<simt::Mfma> {
  static Place operand(int i, int k) { return {i + 16 * (k / 4), k % 4}; }
  static Place sum(int i, int j) { return {j + 16 * (i / 4), i % 4}; }
};

}  // namespace strata::emulator

template <int Wave, class Lanes>
struct strata::simt::SquareTile<strata::emulator::Emulated<Wave>, Lanes> : PlainTile {
  static_assert(Wave == Lanes::kWave);
  using S = emulator::Emulated<Wave>;
  using Places = emulator::Places<Lanes>;

  template <class Type>
  static void multiply_add(const S& simt, SquareSums<Lanes>& c, const SquareOperand<Lanes>& a,
                           const SquareOperand<Lanes>& b) {
    const Registers own{a, b};
    const auto gathered = simt.gather(reinterpret_cast<std::uint64_t>(&own));
    const auto of = [&](int lane) {
      return reinterpret_cast<const Registers*>(gathered[static_cast<std::size_t>(lane)]);
    };
    if (std::is_same_v<Lanes, Wmma> && simt.lane() >= 16 && !own.same(*of(simt.lane() - 16))) {
      throw std::logic_error("the lanes 16 to 31 do not repeat what the others have");
    }
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        const emulator::Place to = Places::sum(i, j);
        if (to.lane != simt.lane()) continue;
        for (int k = 0; k < 16; ++k) {
          const emulator::Place left = Places::operand(i, k);
          const emulator::Place right = Places::operand(j, k);
          c[to.slot] += value<Type>(of(left.lane)->a, left.slot) * value<Type>(of(right.lane)->b, right.slot);
        }
      }
    }
    simt.gather(0);  // until all have read them, registers stay
  }

 private:
  struct Registers {
    const std::uint32_t* a;
    const std::uint32_t* b;

    bool same(const Registers& other) const {
      return std::memcmp(a, other.a, sizeof(SquareOperand<Lanes>)) == 0 &&
             std::memcmp(b, other.b, sizeof(SquareOperand<Lanes>)) == 0;
    }
  };

  template <class Type>
  static float value(const std::uint32_t* words, int slot) {
    return Type::decode(static_cast<std::uint16_t>(words[slot / 2] >> 16 * (slot % 2)));
  }
};
