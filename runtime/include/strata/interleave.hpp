// Fields of stored blocks of several rows, written side by side: four bytes of each row in turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/grid.hpp"
#include "strata/inline.hpp"

namespace strata {

// `Bytes` bytes from byte `offset` of every block on, each with the bits of `Flip` flipped. Fours of a row are as far
// apart as `Stride` bytes of every row take.
template <std::size_t Rows, std::size_t Bytes, std::size_t Stride, unsigned Flip = 0>
STRATA_INLINE void interleave_bytes(const std::byte* const* block, std::size_t offset, std::byte* to) {
  static_assert(Bytes % 4 == 0);
  for (std::size_t row = 0; row < Rows; ++row) {
    const std::byte* from = block[row] + offset;
    for (std::size_t unit = 0; unit < Bytes / 4; ++unit) {
      std::uint32_t word;
      __builtin_memcpy(&word, from + 4 * unit, sizeof word);
      word ^= 0x01010101u * Flip;
      __builtin_memcpy(to + Rows * Stride * unit + 4 * row, &word, sizeof word);
    }
  }
}

// The same bytes as bits: of every 32, four of each row in turn, so that a group of 4 * Rows bits is a mask of the
// bytes of one vector.
template <std::size_t Rows, std::size_t Bytes>
STRATA_INLINE void interleave_bits(const std::byte* const* block, std::size_t offset, std::byte* to) {
  static_assert(Bytes % 4 == 0 && Rows % 2 == 0);
  for (std::size_t unit = 0; unit < Bytes / 4; ++unit) {
    for (std::size_t row = 0; row < Rows; row += 2) {
      std::uint32_t low;
      std::uint32_t high;
      __builtin_memcpy(&low, block[row] + offset + 4 * unit, sizeof low);
      __builtin_memcpy(&high, block[row + 1] + offset + 4 * unit, sizeof high);
      for (std::size_t lane = 0; lane < 8; ++lane) {
        const std::uint32_t both = (low >> (4 * lane) & 0xfu) | (high >> (4 * lane) & 0xfu) << 4;
        to[4 * Rows * unit + Rows / 2 * lane + row / 2] = static_cast<std::byte>(both);
      }
    }
  }
}

// Points of a grid as a code of four bits for each of their values: its level, and its sign as the highest bit. Of
// every 32 values, a byte holds one of the first 16 in its low half and the one 16 further on in its high half.
//
// Low bits of points lie in bytes from `low` on, ninth bits from `high` on, signs from `signs` on.
template <std::size_t Rows, std::size_t Elements>
STRATA_INLINE void interleave_codes(const Grid& grid, const std::byte* const* block, std::size_t low, std::size_t high,
                                    std::size_t signs, std::byte* to) {
  for (std::size_t row = 0; row < Rows; ++row) {
    const std::byte* from = block[row];
    for (std::size_t eight = 0; eight < Elements / 32; ++eight) {
      const auto ninth = static_cast<unsigned>(from[high + eight]);
      std::uint32_t negative;
      __builtin_memcpy(&negative, from + signs + 4 * eight, sizeof negative);
      const auto codes = [&](unsigned point) STRATA_LAMBDA {
        const unsigned index = static_cast<unsigned>(from[low + 8 * eight + point]) | (ninth << (8 - point) & 0x100u);
        // Four bits, each moved to the highest of the four of its byte.
        const std::uint32_t minus = (negative >> (4 * point) & 0xfu) * 0x00204081u & 0x01010101u;
        return grid.codes[index] | minus << 3;
      };
      for (unsigned unit = 0; unit < 4; ++unit) {
        const std::uint32_t word = codes(unit) | codes(unit + 4) << 4;
        __builtin_memcpy(to + 4 * (Rows * (4 * eight + unit) + row), &word, sizeof word);
      }
    }
  }
}

}  // namespace strata
