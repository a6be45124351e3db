// 256-bit vectors: AVX2, FMA and F16C (x86-64-v3).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"

namespace strata::simd {

struct avx2 {
  static constexpr const char* kName = "avx2";
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRegisters = 16;

  using Float = __m256;

  STRATA_INLINE static Float zero() { return _mm256_setzero_ps(); }
  STRATA_INLINE static Float load(const float* at) { return _mm256_loadu_ps(at); }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }

  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }

  STRATA_INLINE static float sum(Float v) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }

  // Blocks of 32 signed bytes with one scale each, `kStep` of them per vector.
  static constexpr std::size_t kStep = 1;

  struct Weights {
    __m256i value;
    __m256i magnitude;
    __m256 scale;
  };

  template <class Format>
  STRATA_INLINE static Weights load_weights(const std::byte* block) {
    Weights w;
    w.value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + Format::kQuant));
    w.magnitude = _mm256_abs_epi8(w.value);
    w.scale = load_scale(block + Format::kScale, typename Format::Scale{});
    return w;
  }

  // |w| is at most 128 and |x| at most 127, so a pair of products stays within 16 bits.
  STRATA_INLINE static Float dot_add(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.values + block * Int8Row::kBlock));
    const __m256i pairs = _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(q, w.value));
    const __m256 partial = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    return _mm256_fmadd_ps(partial, _mm256_mul_ps(w.scale, _mm256_broadcast_ss(x.scales + block)), acc);
  }

 private:
  STRATA_INLINE static __m256 load_scale(const std::byte* at, field::F16) {
    std::int16_t bits;
    __builtin_memcpy(&bits, at, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16(bits));
  }
};

}  // namespace strata::simd
