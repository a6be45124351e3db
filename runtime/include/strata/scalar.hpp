// Scalar types of stored blocks, read and written bit by bit: the reference for every vector path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"

namespace strata {

template <class To, class From>
STRATA_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// a * b + c, rounded once.
STRATA_INLINE float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// IEEE half to float: exact. By the instruction where there is one; it may change which NaN a NaN is.
STRATA_INLINE float f16_to_float(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return bit_cast<float>(sign | bit_cast<std::uint32_t>(magnitude));
#endif
}

// Float to IEEE half, ties to even; beyond the range it becomes infinity. By the instruction where there is one.
STRATA_INLINE std::uint16_t float_to_f16(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  const std::uint32_t bits = bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal in half: adding 0.5 leaves the rounded mantissa in the low bits
    const std::uint32_t rounded = bit_cast<std::uint32_t>(bit_cast<float>(magnitude) + 0.5f);
    return static_cast<std::uint16_t>(sign | (rounded - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude + 0xc8000fffu + odd) >> 13));
#endif
}

STRATA_INLINE float bf16_to_float(std::uint16_t half) {
  return bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

// Float to bfloat16, ties to even; a NaN keeps its sign and upper payload and becomes quiet.
STRATA_INLINE std::uint16_t float_to_bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(0.0f), "f"(value));
  return static_cast<std::uint16_t>(both);
#else
  const std::uint32_t bits = bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 64u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// 2^(exponent - 128): exact, subnormal for the two smallest.
STRATA_INLINE float e8m0_half_to_float(std::uint8_t exponent) {
  return bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

// The largest power of two that is not above `value`, which is positive: what it means is within [2^-128, 2^127].
STRATA_INLINE std::uint8_t float_to_e8m0_half(float value) {
  const std::uint32_t bits = bit_cast<std::uint32_t>(value);
  if (bits < 0x00800000u) return bits >= 0x00400000u ? 1 : 0;
  return static_cast<std::uint8_t>((bits >> 23) + 1);
}

// One tag per float type that a field of a format spec may have: its stored type, and conversion from and to float.
namespace field {

struct F32 {
  using Stored = float;
  STRATA_INLINE static float decode(Stored stored) { return stored; }
  STRATA_INLINE static Stored encode(float value) { return value; }
};

struct F16 {
  using Stored = std::uint16_t;
  STRATA_INLINE static float decode(Stored stored) { return f16_to_float(stored); }
  STRATA_INLINE static Stored encode(float value) { return float_to_f16(value); }
};

struct Bf16 {
  using Stored = std::uint16_t;
  STRATA_INLINE static float decode(Stored stored) { return bf16_to_float(stored); }
  STRATA_INLINE static Stored encode(float value) { return float_to_bf16(value); }
};

struct E8m0Half {
  using Stored = std::uint8_t;
  STRATA_INLINE static float decode(Stored stored) { return e8m0_half_to_float(stored); }
  STRATA_INLINE static Stored encode(float value) { return float_to_e8m0_half(value); }
};

// Fields are packed without padding, so they are copied, never pointed to.
template <class Type>
STRATA_INLINE float load(const std::byte* at, std::size_t index) {
  typename Type::Stored stored;
  __builtin_memcpy(&stored, at + index * sizeof stored, sizeof stored);
  return Type::decode(stored);
}

template <class Type>
STRATA_INLINE void store(std::byte* at, std::size_t index, float value) {
  const typename Type::Stored stored = Type::encode(value);
  __builtin_memcpy(at + index * sizeof stored, &stored, sizeof stored);
}

// `count` bits from bit `first` on, all in one byte; bit 0 is the lowest of the first byte.
STRATA_INLINE unsigned bits(const std::byte* at, std::size_t first, unsigned count) {
  return static_cast<unsigned>(at[first / 8]) >> (first % 8) & ((1u << count) - 1u);
}

// Writes the lowest `count` bits of `value` over zeros.
STRATA_INLINE void store_bits(std::byte* at, std::size_t first, unsigned count, unsigned value) {
  at[first / 8] |= static_cast<std::byte>((value & ((1u << count) - 1u)) << (first % 8));
}

}  // namespace field
}  // namespace strata
