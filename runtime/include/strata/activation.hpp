// The form in which a kernel takes its input vector.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata {

enum class Activation {
  kFloat,     // float32 as it is
  kInt8,      // Int8Row
  kInt8x256,  // Int8x256Row
};

// Quantises `Count` values of a block whose largest magnitude has the bits `largest`: scale = largest / 127, value =
// nearest integer to x / scale, ties to even. Returns the scale. Integer and single float operations only, so that
// every instruction set makes the same bits. Values all below 2^-100 become zeros; an infinity or a NaN gives the scale
// NaN and so spoils every sum that it enters.
template <std::size_t Count>
STRATA_INLINE float quantize_by(std::uint32_t largest, const float* x, std::int32_t* rounded) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr std::uint32_t kSmallest = 0x0d800000u;  // 2^-100
  constexpr float kMagic = 0x1.8p23f;               // adding it rounds to a whole number in the low mantissa bits
  constexpr std::int32_t kMagicBits = 0x4b400000;
  const bool usable = largest >= kSmallest && largest < kInfinity;
  const float step = bit_cast<float>(largest) / 127.0f;
  for (std::size_t i = 0; i < Count; ++i) {
    const float shifted = (usable ? x[i] : 0.0f) / (usable ? step : 1.0f) + kMagic;
    rounded[i] = bit_cast<std::int32_t>(shifted) - kMagicBits;
  }
  return usable ? step : largest >= kInfinity ? bit_cast<float>(0x7fc00000u) : 0.0f;
}

// Quantises a block of `Count` values.
template <std::size_t Count>
STRATA_INLINE float quantize_values(const float* x, std::int32_t* rounded) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < Count; ++i) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return quantize_by<Count>(largest, x, rounded);
}

// One input vector in blocks of 32: signed bytes, one float scale per block.
//
// `correction` holds -128 times the sum of every 4 neighbouring bytes: dot instructions that take one unsigned operand
// see the weights plus 128, and start their sums from it. `starts` holds -128 times the sum of each block, for kernels
// that sum a whole block in one place.
struct Int8Row {
  static constexpr std::size_t kBlock = 32;

  const std::int8_t* values;
  const std::int32_t* correction;
  const float* scales;
  const std::int32_t* starts;

  STRATA_INLINE static std::size_t bytes(std::size_t columns) {
    const std::size_t used = starts_offset(columns) + columns / kBlock * sizeof(std::int32_t);
    return (used + 63) / 64 * 64;
  }

  STRATA_INLINE static Int8Row at(const std::byte* row, std::size_t columns) {
    return {reinterpret_cast<const std::int8_t*>(row), reinterpret_cast<const std::int32_t*>(row + columns),
            reinterpret_cast<const float*>(row + 2 * columns),
            reinterpret_cast<const std::int32_t*>(row + starts_offset(columns))};
  }

  // Quantises the values at `x` into block `block` of `row`, which has bytes(columns) bytes.
  STRATA_INLINE static void quantize_block(const float* x, std::size_t block, std::size_t columns, std::byte* row) {
    auto* values = reinterpret_cast<std::int8_t*>(row) + block * kBlock;
    auto* correction = reinterpret_cast<std::int32_t*>(row + columns) + block * (kBlock / 4);
    float* scale = reinterpret_cast<float*>(row + 2 * columns) + block;
    std::int32_t rounded[kBlock];
    *scale = quantize_values<kBlock>(x, rounded);
    for (std::size_t i = 0; i < kBlock; ++i) values[i] = static_cast<std::int8_t>(rounded[i]);
    for (std::size_t i = 0; i < kBlock / 4; ++i) {
      correction[i] = -128 * (rounded[4 * i] + rounded[4 * i + 1] + rounded[4 * i + 2] + rounded[4 * i + 3]);
    }
    std::int32_t start = 0;
    for (std::size_t i = 0; i < kBlock / 4; ++i) start += correction[i];
    reinterpret_cast<std::int32_t*>(row + starts_offset(columns))[block] = start;
  }

 private:
  STRATA_INLINE static std::size_t starts_offset(std::size_t columns) {
    return 2 * columns + columns / kBlock * sizeof(float);
  }
};

// One input vector in blocks of 256: signed bytes, one float scale per block, and sums of what it stands for.
//
// `sums` are of 16 bytes each: first those of the even sixteenths of the block, then those of the odd ones, the order
// in which kernels hold scales. `totals` are the sums of 32 values, in units of the input: scale times sum of bytes.
//
// Kernels that sum a part of the block in one place use `wide_sums`, of 32 bytes each, and what sums of weights plus
// 128 start from: `starts`, -128 times the sum of 32 bytes, and `half_starts`, of 16 bytes, all in the order of the
// block.
struct Int8x256Row {
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t kSums = 16;
  static constexpr std::size_t kTotals = 8;

  const std::int8_t* values;
  const std::int16_t* sums;
  const float* totals;
  const float* scales;
  const std::int16_t* wide_sums;
  const std::int32_t* starts;
  const std::int32_t* half_starts;

  STRATA_INLINE static std::size_t bytes(std::size_t columns) {
    const std::size_t used = half_starts_offset(columns) + columns / kBlock * kSums * sizeof(std::int32_t);
    return (used + 63) / 64 * 64;
  }

  STRATA_INLINE static Int8x256Row at(const std::byte* row, std::size_t columns) {
    return {reinterpret_cast<const std::int8_t*>(row),
            reinterpret_cast<const std::int16_t*>(row + columns),
            reinterpret_cast<const float*>(row + totals_offset(columns)),
            reinterpret_cast<const float*>(row + scales_offset(columns)),
            reinterpret_cast<const std::int16_t*>(row + wide_sums_offset(columns)),
            reinterpret_cast<const std::int32_t*>(row + starts_offset(columns)),
            reinterpret_cast<const std::int32_t*>(row + half_starts_offset(columns))};
  }

  // Quantises the values at `x` into block `block` of `row`, which has bytes(columns) bytes.
  STRATA_INLINE static void quantize_block(const float* x, std::size_t block, std::size_t columns, std::byte* row) {
    auto* values = reinterpret_cast<std::int8_t*>(row) + block * kBlock;
    auto* sums = reinterpret_cast<std::int16_t*>(row + columns) + block * kSums;
    float* totals = reinterpret_cast<float*>(row + totals_offset(columns)) + block * kTotals;
    float* scale = reinterpret_cast<float*>(row + scales_offset(columns)) + block;
    auto* wide_sums = reinterpret_cast<std::int16_t*>(row + wide_sums_offset(columns)) + block * kTotals;
    auto* starts = reinterpret_cast<std::int32_t*>(row + starts_offset(columns)) + block * kTotals;
    auto* half_starts = reinterpret_cast<std::int32_t*>(row + half_starts_offset(columns)) + block * kSums;
    std::int32_t rounded[kBlock];
    *scale = quantize_values<kBlock>(x, rounded);
    for (std::size_t i = 0; i < kBlock; ++i) values[i] = static_cast<std::int8_t>(rounded[i]);
    for (std::size_t part = 0; part < kTotals; ++part) {
      std::int32_t half[2] = {0, 0};
      for (std::size_t i = 0; i < 16; ++i) half[0] += rounded[32 * part + i];
      for (std::size_t i = 0; i < 16; ++i) half[1] += rounded[32 * part + 16 + i];
      sums[part] = static_cast<std::int16_t>(half[0]);
      sums[kTotals + part] = static_cast<std::int16_t>(half[1]);
      totals[part] = *scale * static_cast<float>(half[0] + half[1]);
      wide_sums[part] = static_cast<std::int16_t>(half[0] + half[1]);
      starts[part] = -128 * (half[0] + half[1]);
      half_starts[2 * part] = -128 * half[0];
      half_starts[2 * part + 1] = -128 * half[1];
    }
  }

 private:
  STRATA_INLINE static std::size_t totals_offset(std::size_t columns) {
    return columns + columns / kBlock * kSums * sizeof(std::int16_t);
  }
  STRATA_INLINE static std::size_t scales_offset(std::size_t columns) {
    return totals_offset(columns) + columns / kBlock * kTotals * sizeof(float);
  }
  STRATA_INLINE static std::size_t wide_sums_offset(std::size_t columns) {
    return scales_offset(columns) + columns / kBlock * sizeof(float);
  }
  STRATA_INLINE static std::size_t starts_offset(std::size_t columns) {
    return wide_sums_offset(columns) + columns / kBlock * kTotals * sizeof(std::int16_t);
  }
  STRATA_INLINE static std::size_t half_starts_offset(std::size_t columns) {
    return starts_offset(columns) + columns / kBlock * kTotals * sizeof(std::int32_t);
  }
};

}  // namespace strata
