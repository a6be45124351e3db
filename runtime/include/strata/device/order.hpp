// Orders of numbers as integers: total, so that they mean the same on every device.
#pragma once

#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata::device {

// Larger for larger numbers; zeros are equal, and a NaN is below all numbers.
STRATA_INLINE std::uint32_t order_of(float value) {
  if (value != value) return 0;
  const std::uint32_t bits = bit_cast<std::uint32_t>(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Largest for the largest value, among equal values for the lowest index; never 0, and no two are equal.
STRATA_INLINE std::uint64_t order_of(float value, int index) {
  return static_cast<std::uint64_t>(order_of(value)) << 32 | ~static_cast<std::uint32_t>(index);
}

STRATA_INLINE int index_in(std::uint64_t order) { return static_cast<int>(~static_cast<std::uint32_t>(order)); }

}  // namespace strata::device
