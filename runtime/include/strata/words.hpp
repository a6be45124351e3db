// Small integers that lie packed in a few bytes, all of them at once in one register.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"
#ifdef __BMI2__
#include "strata/intrinsics.hpp"
#endif

namespace strata::word {

template <class Word>
STRATA_INLINE std::uint64_t load(const std::byte* at) {
  Word word;
  __builtin_memcpy(&word, at, sizeof word);
  return word;
}

STRATA_INLINE std::uint64_t load16(const std::byte* at) { return load<std::uint16_t>(at); }
STRATA_INLINE std::uint64_t load32(const std::byte* at) { return load<std::uint32_t>(at); }
STRATA_INLINE std::uint64_t load64(const std::byte* at) { return load<std::uint64_t>(at); }

// `Count` integers of `Bits` bits each, one after the other from the lowest bit on: one per byte.
template <unsigned Bits, unsigned Count>
STRATA_INLINE std::uint64_t deposit(std::uint64_t packed) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << Bits) - 1;
#ifdef __BMI2__
  return _pdep_u64(packed, kMask * 0x0101010101010101u);
#else
  std::uint64_t spread = 0;
  for (unsigned i = 0; i < Count; ++i) spread |= (packed >> (Bits * i) & kMask) << (8 * i);
  return spread;
#endif
}

}  // namespace strata::word
