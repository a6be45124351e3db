// Operations on the four bytes of a word, for processors without instructions for them.
#pragma once

#include <cstdint>

#include "strata/inline.hpp"

namespace strata::simt::bytes {

STRATA_INLINE std::int32_t signed_byte(std::uint32_t word, int byte) {
  return static_cast<std::int8_t>(word >> (8 * byte) & 0xffu);
}

STRATA_INLINE std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  for (int byte = 0; byte < 4; ++byte) sum += signed_byte(a, byte) * signed_byte(b, byte);
  return sum;
}

template <int Shift>
STRATA_INLINE std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t indices) {
  std::uint32_t found = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const std::uint32_t index = indices >> (8 * byte + Shift) & 0xfu;
    found |= (table[index / 4] >> (8 * (index % 4)) & 0xffu) << (8 * byte);
  }
  return found;
}

}  // namespace strata::simt::bytes
