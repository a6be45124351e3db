// 512-bit vectors: AVX-512 F, BW, DQ and VL (x86-64-v4).
#pragma once

// GCC's own header starts some results from a register of undefined content and then warns about it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"

namespace strata::simd {

struct avx512 {
  static constexpr const char* kName = "avx512";
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kRegisters = 32;

  using Float = __m512;

  STRATA_INLINE static Float zero() { return _mm512_setzero_ps(); }
  STRATA_INLINE static Float load(const float* at) { return _mm512_loadu_ps(at); }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }

  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }

  STRATA_INLINE static float sum(Float v) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }

  // Blocks of 32 signed bytes with one scale each, `kStep` of them per vector.
  static constexpr std::size_t kStep = 1;

  struct Weights {
    __m512i value;  // widened to 16 bits
    __m512 scale;
  };

  template <class Format>
  STRATA_INLINE static Weights load_weights(const std::byte* block) {
    return {widen(block + Format::kQuant), load_scale(block + Format::kScale, typename Format::Scale{})};
  }

  STRATA_INLINE static Float dot_add(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const __m512i q = widen(reinterpret_cast<const std::byte*>(x.values) + block * Int8Row::kBlock);
    const __m512 partial = _mm512_cvtepi32_ps(_mm512_madd_epi16(w.value, q));
    return _mm512_fmadd_ps(partial, _mm512_mul_ps(w.scale, _mm512_set1_ps(x.scales[block])), acc);
  }

 private:
  STRATA_INLINE static __m512i widen(const std::byte* at) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }

  STRATA_INLINE static __m512 load_scale(const std::byte* at, field::F16) {
    std::int16_t bits;
    __builtin_memcpy(&bits, at, sizeof bits);
    return _mm512_cvtph_ps(_mm256_set1_epi16(bits));
  }
};

}  // namespace strata::simd
