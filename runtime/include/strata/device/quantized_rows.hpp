// Inputs of the products with quantised weights: signed bytes in blocks of 32 columns, each with a scale, and that
// times the sum of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "strata/activation.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/team.hpp"

namespace strata::device {

// Rows at one address: values [rows, columns], then scales [rows, columns / 32], then totals: each scale
// times the sum of its block. `Byte` is std::byte or const std::byte; the address is aligned to kAlignment, and 32
// divides the columns.
template <class Byte>
struct QuantizedRowsOf {
  template <class Type>
  using Like = std::conditional_t<std::is_const_v<Byte>, const Type, Type>;

  static constexpr int kBlock = simt::kTeam;
  static constexpr std::size_t kAlignment = 16;

  Like<std::int8_t>* values;
  Like<float>* scales;
  Like<float>* totals;
  std::int64_t columns;

  STRATA_INLINE static QuantizedRowsOf at(Byte* q, std::int64_t rows, std::int64_t columns) {
    Byte* scales = q + rows * columns;
    Byte* totals = scales + rows * (columns / kBlock) * static_cast<std::int64_t>(sizeof(float));
    return {reinterpret_cast<Like<std::int8_t>*>(q), reinterpret_cast<Like<float>*>(scales),
            reinterpret_cast<Like<float>*>(totals), columns};
  }

  // Why an address and columns do not fit; null when they do.
  static const char* refusal(const void* q, int columns) {
    if (reinterpret_cast<std::uintptr_t>(q) % kAlignment != 0) return "q must be aligned to 16 bytes";
    return columns % kBlock != 0 ? "blocks of 32 do not divide the columns of q" : nullptr;
  }
};

using QuantizedRows = QuantizedRowsOf<const std::byte>;
using QuantizedOutput = QuantizedRowsOf<std::byte>;

// Quantises one block of one row by the rule of `quantize_values`. The lanes of a wave call it together, each with the
// value of its own column in its team's block, and write nothing for a block that `is_there` is false for; the one
// thread of a CPU has all values of one.
template <simt::Simt S>
STRATA_INLINE void store_quantized(const S& simt, const QuantizedOutput& to, std::int64_t row, std::int64_t block,
                                   const float (&values)[simt::kTeamValues<S>], bool is_there = true) {
  constexpr int kBlock = QuantizedOutput::kBlock;
  const std::int64_t blocks = to.columns / kBlock;
  std::int8_t* out = to.values + row * to.columns + block * kBlock;
  std::int32_t rounded[simt::kTeamValues<S>];
  float scale;
  std::int32_t sum = 0;
  if constexpr (S::kWave == 1) {
    scale = quantize_values<kBlock>(values, rounded);
    for (int i = 0; i < kBlock; ++i) out[i] = static_cast<std::int8_t>(rounded[i]);
    for (int i = 0; i < kBlock; ++i) sum += rounded[i];
  } else {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(values[0]) & 0x7fffffffu;
    const std::uint32_t largest =
        simt::team_reduce(simt, magnitude, [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; });
    scale = quantize_by<1>(largest, values, rounded);
    if (is_there) out[simt::team_lane(simt)] = static_cast<std::int8_t>(rounded[0]);
    sum = simt::team_reduce(simt, rounded[0], [](std::int32_t a, std::int32_t b) { return a + b; });
  }
  if (simt::team_lane(simt) != 0 || !is_there) return;
  to.scales[row * blocks + block] = scale;
  to.totals[row * blocks + block] = scale * static_cast<float>(sum);
}

}  // namespace strata::device
