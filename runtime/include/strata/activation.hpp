// The form in which a kernel takes its input vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata {

enum class Activation {
  kFloat,  // float32 as it is
  kInt8,   // Int8Row
};

// One input vector in blocks of 32: signed bytes, one float scale per block.
//
// `correction` holds -128 times the sum of every 4 neighbouring bytes: dot instructions that take one unsigned operand
// see the weights plus 128, and start their sums from it.
struct Int8Row {
  static constexpr std::size_t kBlock = 32;

  const std::int8_t* values;
  const std::int32_t* correction;
  const float* scales;

  STRATA_INLINE static std::size_t bytes(std::size_t columns) {
    const std::size_t used = 2 * columns + columns / kBlock * sizeof(float);
    return (used + 63) / 64 * 64;
  }

  STRATA_INLINE static Int8Row at(const std::byte* row, std::size_t columns) {
    return {reinterpret_cast<const std::int8_t*>(row), reinterpret_cast<const std::int32_t*>(row + columns),
            reinterpret_cast<const float*>(row + 2 * columns)};
  }
};

// Quantises the 32 values at `x` into block `block` of `row` (Int8Row::bytes(columns) bytes): scale = largest
// magnitude / 127, value = nearest integer to x / scale, ties to even. Integer and single float operations only, so
// that every instruction set makes the same bits. A block below 2^-100 becomes zeros; one with an infinity or a NaN
// gets the scale NaN and so spoils every sum that it enters.
STRATA_INLINE void quantize_int8_block(const float* x, std::size_t block, std::size_t columns, std::byte* row) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr std::uint32_t kSmallest = 0x0d800000u;  // 2^-100
  constexpr float kMagic = 0x1.8p23f;               // adding it rounds to a whole number in the low mantissa bits
  constexpr std::int32_t kMagicBits = 0x4b400000;
  auto* values = reinterpret_cast<std::int8_t*>(row) + block * Int8Row::kBlock;
  auto* correction = reinterpret_cast<std::int32_t*>(row + columns) + block * (Int8Row::kBlock / 4);
  float* scale = reinterpret_cast<float*>(row + 2 * columns) + block;

  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < Int8Row::kBlock; ++i) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  const bool usable = largest >= kSmallest && largest < kInfinity;
  const float step = bit_cast<float>(largest) / 127.0f;
  *scale = usable ? step : largest >= kInfinity ? bit_cast<float>(0x7fc00000u) : 0.0f;
  std::int32_t rounded[Int8Row::kBlock];
  for (std::size_t i = 0; i < Int8Row::kBlock; ++i) {
    const float shifted = (usable ? x[i] : 0.0f) / (usable ? step : 1.0f) + kMagic;
    rounded[i] = bit_cast<std::int32_t>(shifted) - kMagicBits;
  }
  for (std::size_t i = 0; i < Int8Row::kBlock; ++i) values[i] = static_cast<std::int8_t>(rounded[i]);
  for (std::size_t i = 0; i < Int8Row::kBlock / 4; ++i) {
    correction[i] = -128 * (rounded[4 * i] + rounded[4 * i + 1] + rounded[4 * i + 2] + rounded[4 * i + 3]);
  }
}

}  // namespace strata
