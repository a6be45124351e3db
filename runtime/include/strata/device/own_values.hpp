// Neighbouring values that one thread computes.
#pragma once

#include <cstdint>

#include "strata/activation.hpp"
#include "strata/device/quantized_rows.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

inline constexpr int kQuantBlock = QuantizedOutput::kBlock;

// As many as one access to memory takes; a CPU's only lane takes a whole block of quantised values.
template <simt::Simt S>
inline constexpr int kOwnValues = S::kWave == 1 ? kQuantBlock : 4;

template <simt::Simt S>
using OwnValues = float[kOwnValues<S>];

struct alignas(16) Quad {
  float value[4];
};

STRATA_INLINE bool is_aligned(const float* at) { return reinterpret_cast<std::uintptr_t>(at) % sizeof(Quad) == 0; }

// The first `count` of a thread's values, zeros for the others.
template <simt::Simt S>
STRATA_INLINE void load_own(const float* from, int count, OwnValues<S>& to) {
  if constexpr (kOwnValues<S> == 4) {
    if (count >= 4 && is_aligned(from)) {
      const Quad quad = *reinterpret_cast<const Quad*>(from);
      for (int i = 0; i < 4; ++i) to[i] = quad.value[i];
      return;
    }
  }
  for (int i = 0; i < kOwnValues<S>; ++i) to[i] = i < count ? from[i] : 0.0f;
}

template <simt::Simt S>
STRATA_INLINE void store_own(float* to, int count, const OwnValues<S>& from) {
  if constexpr (kOwnValues<S> == 4) {
    if (count >= 4 && is_aligned(to)) {
      *reinterpret_cast<Quad*>(to) = {from[0], from[1], from[2], from[3]};
      return;
    }
  }
  for (int i = 0; i < kOwnValues<S>; ++i) {
    if (i < count) to[i] = from[i];
  }
}

// Calls body(column, count) for the columns [first, last) of a row that a block computes: `count` of them from `column`
// on are the thread's own. Every thread makes as many calls, some of them with nothing to do.
template <simt::Simt S, class Body>
STRATA_INLINE void for_own_values(const S& simt, int first, int last, const Body& body) {
  const int step = simt.threads() * kOwnValues<S>;
  for (int base = first; base < last; base += step) {
    const int column = base + simt.thread() * kOwnValues<S>;
    const int left = last - column;
    body(column, left < 0 ? 0 : left < kOwnValues<S> ? left : kOwnValues<S>);
  }
}

// The same in at most `Steps` calls body(Index<step>, column, count), for values that are kept in registers.
template <int Steps, simt::Simt S, class Body>
STRATA_INLINE void for_own_values(const S& simt, int first, int last, const Body& body) {
  unroll<Steps>([&](auto step) STRATA_LAMBDA {
    const int base = first + static_cast<int>(step) * simt.threads() * kOwnValues<S>;
    const int column = base + simt.thread() * kOwnValues<S>;
    const int left = last - column;
    body(step, column, left < 0 ? 0 : left < kOwnValues<S> ? left : kOwnValues<S>);
  });
}

// Quantises the values of columns `column` on of a row, by the rule of `quantize_values`: every lane of the wave calls
// it with its own. Those of lanes that are not `present` are left out, whole blocks at a time.
template <simt::Simt S>
STRATA_INLINE void store_own_quantized(const S& simt, const OwnValues<S>& own, bool present, const QuantizedOutput& to,
                                       std::int64_t row, std::int64_t column) {
  constexpr int kCount = kOwnValues<S>;
  constexpr int kLanes = kQuantBlock / kCount;
  std::uint32_t largest = 0;
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(own[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  for (int mask = 1; mask < kLanes; mask *= 2) {
    const auto other = bit_cast<std::uint32_t>(simt.shuffle_xor(bit_cast<float>(largest), mask));
    largest = other > largest ? other : largest;
  }
  std::int32_t rounded[kCount];
  const float scale = quantize_by<kCount>(largest, own, rounded);
  std::int8_t bytes[kCount];
  std::int32_t sum = 0;
  for (int i = 0; i < kCount; ++i) {
    bytes[i] = static_cast<std::int8_t>(rounded[i]);
    sum += rounded[i];
  }
  for (int mask = 1; mask < kLanes; mask *= 2) {
    sum += bit_cast<std::int32_t>(simt.shuffle_xor(bit_cast<float>(sum), mask));
  }
  if (!present) return;
  const std::int64_t at = row * to.columns + column;
  __builtin_memcpy(__builtin_assume_aligned(to.values + at, 4), bytes, sizeof bytes);
  if (column % kQuantBlock != 0) return;
  to.scales[at / kQuantBlock] = scale;
  to.totals[at / kQuantBlock] = scale * static_cast<float>(sum);
}

// Fetches floats that a kernel will read, by all threads of the block together.
template <simt::Simt S>
STRATA_INLINE void prefetch_floats(const S& simt, const float* from, int count) {
  constexpr int kLine = 128 / sizeof(float);
  for (int i = simt.thread() * kLine; i < count; i += simt.threads() * kLine) S::prefetch(from + i);
}

}  // namespace strata::device
