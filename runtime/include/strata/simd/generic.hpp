// Vectors as plain arrays: what the compiler makes of them is up to the flags, the bits are not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata::simd {

struct generic {
  static constexpr const char* kName = "generic";
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRegisters = 16;

  struct Float {
    float lane[kLanes];
  };

  STRATA_INLINE static Float zero() { return {}; }

  STRATA_INLINE static Float load(const float* at) {
    Float v;
    for (std::size_t i = 0; i < kLanes; ++i) v.lane[i] = at[i];
    return v;
  }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    Float v;
    for (std::size_t i = 0; i < kLanes; ++i) v.lane[i] = field::load<field::Bf16>(at, i);
    return v;
  }

  // a * b + c, the product rounded.
  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) {
    for (std::size_t i = 0; i < kLanes; ++i) c.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];
    return c;
  }

  STRATA_INLINE static float sum(Float v) {
    float half[4];
    for (std::size_t i = 0; i < 4; ++i) half[i] = v.lane[i] + v.lane[i + 4];
    return (half[0] + half[2]) + (half[1] + half[3]);
  }

  // Blocks of 32 signed bytes with one scale each, `kStep` of them per vector.
  static constexpr std::size_t kStep = 1;

  struct Weights {
    std::int8_t value[Int8Row::kBlock];
    float scale;
  };

  template <class Format>
  STRATA_INLINE static Weights load_weights(const std::byte* block) {
    Weights w;
    __builtin_memcpy(w.value, block + Format::kQuant, sizeof w.value);
    w.scale = field::load<typename Format::Scale>(block + Format::kScale, 0);
    return w;
  }

  STRATA_INLINE static Float dot_add(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const std::int8_t* q = x.values + block * Int8Row::kBlock;
    const float scale = w.scale * x.scales[block];
    std::int32_t partial[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) {
      partial[i] = w.value[4 * i] * q[4 * i] + w.value[4 * i + 1] * q[4 * i + 1] + w.value[4 * i + 2] * q[4 * i + 2] +
                   w.value[4 * i + 3] * q[4 * i + 3];
    }
    for (std::size_t i = 0; i < kLanes; ++i) acc.lane[i] = static_cast<float>(partial[i]) * scale + acc.lane[i];
    return acc;
  }
};

}  // namespace strata::simd
