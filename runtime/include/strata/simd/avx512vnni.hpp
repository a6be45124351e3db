// AVX-512 with dot products of bytes (VNNI): two blocks of 32 per instruction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/simd/avx512.hpp"

namespace strata::simd {

struct avx512vnni {
  static constexpr const char* kName = "avx512vnni";
  static constexpr std::size_t kLanes = avx512::kLanes;
  static constexpr std::size_t kRegisters = avx512::kRegisters;

  using Float = __m512;

  STRATA_INLINE static Float zero() { return avx512::zero(); }
  STRATA_INLINE static Float load(const float* at) { return avx512::load(at); }
  STRATA_INLINE static Float load_bf16(const std::byte* at) { return avx512::load_bf16(at); }
  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) { return avx512::multiply_add(a, b, c); }
  STRATA_INLINE static float sum(Float v) { return avx512::sum(v); }

  // Blocks of 32 signed bytes with one scale each, `kStep` of them per vector; an odd last block comes alone, with
  // zeros in the upper half.
  static constexpr std::size_t kStep = 2;

  struct Weights {
    __m512i value;  // plus 128: the instruction's first operand is unsigned
    __m512 scale;
  };

  template <class Format>
  STRATA_INLINE static Weights load_weights(const std::byte* block) {
    const std::byte* second = block + Format::kBytes;
    const __m512i values = _mm512_inserti64x4(_mm512_castsi256_si512(load_half(block + Format::kQuant)),
                                              load_half(second + Format::kQuant), 1);
    return {offset(values), load_scales(block + Format::kScale, second + Format::kScale, typename Format::Scale{})};
  }

  template <class Format>
  STRATA_INLINE static Weights load_last_weights(const std::byte* block) {
    return {offset(_mm512_zextsi256_si512(load_half(block + Format::kQuant))),
            load_scales(block + Format::kScale, nullptr, typename Format::Scale{})};
  }

  STRATA_INLINE static Float dot_add(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const __m512i q = _mm512_loadu_si512(x.values + block * Int8Row::kBlock);
    const __m512i start = _mm512_loadu_si512(x.correction + block * (Int8Row::kBlock / 4));
    const __m512 scale =
        _mm512_mask_broadcastss_ps(_mm512_set1_ps(x.scales[block]), kUpper, _mm_load_ss(x.scales + block + 1));
    return scaled(_mm512_dpbusd_epi32(start, w.value, q), _mm512_mul_ps(w.scale, scale), acc);
  }

  STRATA_INLINE static Float dot_add_last(const Weights& w, const Int8Row& x, std::size_t block, Float acc) {
    const __m512i q =
        _mm512_zextsi256_si512(load_half(reinterpret_cast<const std::byte*>(x.values) + block * Int8Row::kBlock));
    const __m512i start = _mm512_zextsi256_si512(
        load_half(reinterpret_cast<const std::byte*>(x.correction + block * (Int8Row::kBlock / 4))));
    return scaled(_mm512_dpbusd_epi32(start, w.value, q), _mm512_mul_ps(w.scale, _mm512_set1_ps(x.scales[block])), acc);
  }

 private:
  static constexpr __mmask16 kUpper = 0xff00;

  STRATA_INLINE static __m256i load_half(const std::byte* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }

  STRATA_INLINE static __m512i offset(__m512i values) {
    return _mm512_xor_si512(values, _mm512_set1_epi8(static_cast<char>(0x80)));
  }

  STRATA_INLINE static Float scaled(__m512i sums, __m512 scale, Float acc) {
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, acc);
  }

  STRATA_INLINE static __m512 load_scales(const std::byte* first, const std::byte* second, field::F16) {
    std::int16_t low;
    std::int16_t high = 0;
    __builtin_memcpy(&low, first, sizeof low);
    if (second != nullptr) __builtin_memcpy(&high, second, sizeof high);
    return _mm512_cvtph_ps(_mm256_mask_set1_epi16(_mm256_set1_epi16(low), kUpper, high));
  }
};

}  // namespace strata::simd
