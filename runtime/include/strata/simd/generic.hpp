// 128-bit vectors in the compiler's own notation: any CPU, no intrinsics.
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

  using Float4 = float __attribute__((vector_size(16)));
  using Int4 = std::int32_t __attribute__((vector_size(16)));
  using Uint4 = std::uint32_t __attribute__((vector_size(16)));
  using Short8 = std::int16_t __attribute__((vector_size(16)));
  using Short4 = std::int16_t __attribute__((vector_size(8)));
  using UnsignedShort4 = std::uint16_t __attribute__((vector_size(8)));
  using Byte8 = std::int8_t __attribute__((vector_size(8)));

  struct Float {
    Float4 low;
    Float4 high;
  };

  STRATA_INLINE static Float zero() { return {Float4{}, Float4{}}; }

  STRATA_INLINE static Float load(const float* at) { return {read<Float4>(at), read<Float4>(at + 4)}; }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    return {widen_bf16(read<UnsignedShort4>(at)), widen_bf16(read<UnsignedShort4>(at + sizeof(UnsignedShort4)))};
  }

  // a * b + c, the product rounded.
  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) {
    return {a.low * b.low + c.low, a.high * b.high + c.high};
  }

  STRATA_INLINE static float sum(Float v) {
    const Float4 half = v.low + v.high;
    return (half[0] + half[2]) + (half[1] + half[3]);
  }

  // Blocks of 32 signed bytes with one scale each, `kStep` of them per vector.
  static constexpr std::size_t kStep = 1;

  struct Weights {
    Short8 value[4];
    float scale;
  };

  template <class Format>
  STRATA_INLINE static Weights load_weights(const std::byte* block) {
    Weights w;
    unroll<4>([&](auto i) STRATA_LAMBDA { w.value[i] = widen(block + Format::kQuant + i * sizeof(Byte8)); });
    w.scale = field::load<typename Format::Scale>(block + Format::kScale, 0);
    return w;
  }

  // |w| is at most 128 and |x| at most 127, so a pair of products stays within 16 bits.
  STRATA_INLINE static Float dot_add(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const auto* q = reinterpret_cast<const std::byte*>(x.values + block * Int8Row::kBlock);
    const Short8 first = w.value[0] * widen(q) + w.value[1] * widen(q + 8);
    const Short8 second = w.value[2] * widen(q + 16) + w.value[3] * widen(q + 24);
    const float scale = w.scale * x.scales[block];
    return {to_float(widen_low(first) + widen_low(second)) * scale + acc.low,
            to_float(widen_high(first) + widen_high(second)) * scale + acc.high};
  }

 private:
  template <class Vector>
  STRATA_INLINE static Vector read(const void* at) {
    Vector v;
    __builtin_memcpy(&v, at, sizeof v);
    return v;
  }

  STRATA_INLINE static Float4 widen_bf16(UnsignedShort4 v) {
    return bit_cast<Float4>(__builtin_convertvector(v, Uint4) << 16);
  }

  STRATA_INLINE static Short8 widen(const std::byte* at) { return __builtin_convertvector(read<Byte8>(at), Short8); }

  STRATA_INLINE static Int4 widen_low(Short8 v) {
    return __builtin_convertvector(Short4{v[0], v[1], v[2], v[3]}, Int4);
  }

  STRATA_INLINE static Int4 widen_high(Short8 v) {
    return __builtin_convertvector(Short4{v[4], v[5], v[6], v[7]}, Int4);
  }

  STRATA_INLINE static Float4 to_float(Int4 v) { return __builtin_convertvector(v, Float4); }
};

}  // namespace strata::simd
