// Sums and maxima over a wave, with the same bits for every width of a wave.
#pragma once

#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::simt {

// Values are summed into this many partial sums, value i into number i % kPartialSums, and those pairwise: however many
// of them a lane keeps.
inline constexpr int kPartialSums = 64;

template <Simt S>
inline constexpr int kSumsPerLane = kPartialSums / S::kWave;

// A lane's partial sums: number j is that of values j * kWave + lane.
template <Simt S>
struct PartialSums {
  float sum[kSumsPerLane<S>] = {};

  // The sum of all, in every lane.
  STRATA_INLINE float total(const S& simt) const {
    float folded[kSumsPerLane<S>];
    for (int j = 0; j < kSumsPerLane<S>; ++j) folded[j] = sum[j];
    for (int half = kSumsPerLane<S> / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) folded[j] += folded[j + half];
    }
    for (int distance = S::kWave / 2; distance > 0; distance /= 2) {
      folded[0] += simt.shuffle_xor(folded[0], distance);
    }
    return folded[0];
  }
};

// The sum of value(i) for i in [0, count), in every lane.
template <Simt S, class Value>
STRATA_INLINE float wave_sum(const S& simt, int count, const Value& value) {
  PartialSums<S> partial;
  int first = 0;
  for (; first + kPartialSums <= count; first += kPartialSums) {
    for (int j = 0; j < kSumsPerLane<S>; ++j) partial.sum[j] += value(first + j * S::kWave + simt.lane());
  }
  for (int j = 0; j < kSumsPerLane<S>; ++j) {
    const int i = first + j * S::kWave + simt.lane();
    if (i < count) partial.sum[j] += value(i);
  }
  return partial.total(simt);
}

// The largest of every lane's value, in every lane. NaN is not for it.
template <Simt S, class Value>
STRATA_INLINE Value wave_max(const S& simt, Value value) {
  for (int distance = S::kWave / 2; distance > 0; distance /= 2) {
    const Value other = simt.shuffle_xor(value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The same for integers, by an instruction of its own where there is one.
template <Simt S>
STRATA_INLINE std::uint32_t wave_max(const S& simt, std::uint32_t value) {
  if constexpr (requires { simt.reduce_max(value); }) {
    return simt.reduce_max(value);
  } else {
    for (int distance = S::kWave / 2; distance > 0; distance /= 2) {
      const auto other = bit_cast<std::uint32_t>(simt.shuffle_xor(bit_cast<float>(value), distance));
      value = other > value ? other : value;
    }
    return value;
  }
}

template <Simt S>
STRATA_INLINE std::uint64_t wave_max(const S& simt, std::uint64_t value) {
  const auto own = static_cast<std::uint32_t>(value >> 32);
  const std::uint32_t high = wave_max(simt, own);
  const std::uint32_t low = wave_max(simt, own == high ? static_cast<std::uint32_t>(value) : 0u);
  return static_cast<std::uint64_t>(high) << 32 | low;
}

// The largest value(i) for i in [0, count), in every lane; count is at least 1.
template <Simt S, class Value>
STRATA_INLINE float wave_max(const S& simt, int count, const Value& value) {
  float largest[kSumsPerLane<S>];
  for (int j = 0; j < kSumsPerLane<S>; ++j) largest[j] = value(0);
  int first = 0;
  for (; first + kPartialSums <= count; first += kPartialSums) {
    for (int j = 0; j < kSumsPerLane<S>; ++j) {
      const float other = value(first + j * S::kWave + simt.lane());
      largest[j] = other > largest[j] ? other : largest[j];
    }
  }
  for (int i = first + simt.lane(); i < count; i += S::kWave) {
    const float other = value(i);
    largest[0] = other > largest[0] ? other : largest[0];
  }
  for (int j = 1; j < kSumsPerLane<S>; ++j) largest[0] = largest[j] > largest[0] ? largest[j] : largest[0];
  return wave_max(simt, largest[0]);
}

}  // namespace strata::simt
