// What packed integers can be, and which of it is nearest to a number. Four numbers at a time, on any CPU alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/scalar.hpp"
#ifdef __SSE__
#include "strata/intrinsics.hpp"
#endif

namespace strata::quants {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));

STRATA_INLINE Float4 all(float value) { return Float4{value, value, value, value}; }

STRATA_INLINE Float4 load(const float* at) {
  Float4 values;
  __builtin_memcpy(&values, at, sizeof values);
  return values;
}

STRATA_INLINE float sum(Float4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }

// `low` for what is not a number.
STRATA_INLINE Float4 clamp(Float4 x, float low, float high) {
#ifdef __SSE__
  return _mm_min_ps(_mm_max_ps(x, all(low)), all(high));
#else
  x = x > all(low) ? x : all(low);
  return x < all(high) ? x : all(high);
#endif
}

// The nearest whole numbers, ties to even, of less than 2^22.
STRATA_INLINE Float4 round(Float4 x) {
  const Float4 shift = all(0x1.8p23f);
  return (x + shift) - shift;
}

// The largest float below `x`.
constexpr float before(float x) {
  if (x == 0) return -0x1p-149f;
  const auto bits = __builtin_bit_cast(std::int32_t, x);
  return __builtin_bit_cast(float, x > 0 ? bits - 1 : bits + 1);
}

// Every kStep-th whole number from kLow to kHigh; `number` is stored as (number - kOffset) / kStep.
template <int kLow, int kHigh, int kOffset = 0, int kStep = 1>
struct Steps {
  static constexpr float kLowest = kLow;
  static constexpr float kHighest = kHigh;
  static constexpr float kSpacing = kStep;
  // The number farthest from zero, and one step beyond it.
  static constexpr float kExtreme = -kLow >= kHigh ? kLow : kHigh;
  static constexpr float kBeyond = kExtreme + (kExtreme < 0 ? -kSpacing : kSpacing);

  STRATA_INLINE Float4 nearest(Float4 x) const {
    static_assert(kStep == 1);
    return round(clamp(x, kLowest, kHighest));
  }

  static float nearest(float x) {
    constexpr float kLast = (kHigh - kLow) / kStep;
    return kLow + kStep * round(clamp(all((x - kLow) / kStep), 0, kLast))[0];
  }

  static unsigned code(float number) { return static_cast<unsigned>((static_cast<int>(number) - kOffset) / kStep); }

  template <class Encoder>
  void store(std::byte* block, std::size_t first, Float4 x) const {
    const Float4 numbers = nearest(x);
    for (std::size_t lane = 0; lane < 4; ++lane) Encoder::store_quant(block, first + lane, code(numbers[lane]));
  }
};

// The numbers kNumbers, stored as their position; of two that are equally near the earlier one is taken.
template <int... kNumbers>
struct Table {
  static constexpr std::size_t kCount = sizeof...(kNumbers);
  static constexpr std::array<int, kCount> kList{kNumbers...};

  // Different numbers in ascending order, the position of each, and the largest float that belongs to it.
  struct Order {
    std::size_t count = 0;
    std::array<int, kCount> numbers{};
    std::array<unsigned, kCount> codes{};
    std::array<float, kCount> ends{};
  };

  static constexpr unsigned code_of(int number) {
    return static_cast<unsigned>(std::find(kList.begin(), kList.end(), number) - kList.begin());
  }

  static constexpr Order kOrder = [] {
    Order order;
    std::array<int, kCount> sorted = kList;
    std::sort(sorted.begin(), sorted.end());
    for (const int number : sorted) {
      if (order.count > 0 && order.numbers[order.count - 1] == number) continue;
      order.codes[order.count] = code_of(number);
      order.numbers[order.count++] = number;
    }
    for (std::size_t i = 0; i + 1 < order.count; ++i) {
      const float middle = 0.5f * static_cast<float>(order.numbers[i] + order.numbers[i + 1]);
      order.ends[i] = order.codes[i] < order.codes[i + 1] ? middle : before(middle);
    }
    return order;
  }();

  static constexpr int kLow = kOrder.numbers[0];
  static constexpr int kHigh = kOrder.numbers[kOrder.count - 1];
  static constexpr float kExtreme = -kLow >= kHigh ? kLow : kHigh;
  static constexpr float kBeyond = 2 * kExtreme - kOrder.numbers[-kLow >= kHigh ? 1 : kOrder.count - 2];

  STRATA_INLINE Float4 nearest(Float4 x) const {
    Float4 number = all(kLow);
    for (std::size_t i = 0; i + 1 < kOrder.count; ++i) {
      const Float4 step = all(static_cast<float>(kOrder.numbers[i + 1] - kOrder.numbers[i]));
      number += bit_cast<Float4>((x > all(kOrder.ends[i])) & bit_cast<Int4>(step));
    }
    return number;
  }

  template <class Encoder>
  void store(std::byte* block, std::size_t first, Float4 x) const {
    const Float4 numbers = nearest(x);
    for (std::size_t lane = 0; lane < 4; ++lane) {
      Encoder::store_quant(block, first + lane, code_of(static_cast<int>(numbers[lane])));
    }
  }
};

}  // namespace strata::quants
