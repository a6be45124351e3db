// AVX-512 with dot products that add up (VNNI), and with lookups of bytes in two registers (VBMI).
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/grid.hpp"
#include "strata/inline.hpp"
#include "strata/simd/avx512.hpp"

namespace strata::simd {

struct avx512vnni : avx512 {
  static constexpr const char* kName = "avx512vnni";

  // Plus 128: the instruction's first operand is unsigned.
  struct SignedWeights {
    __m512i value;
  };

  struct Input {
    __m512i values;
    __m512i start;
  };

  STRATA_INLINE static SignedWeights signed_weights(Bytes v) {
    return {_mm512_xor_si512(v, _mm512_set1_epi8(static_cast<char>(0x80)))};
  }

  STRATA_INLINE static Input input(const Int8Row& x, std::size_t block) {
    return {input_bytes(x.values + block * Int8Row::kBlock),
            _mm512_broadcast_i64x4(load256(x.correction + block * (Int8Row::kBlock / 4)))};
  }

  STRATA_INLINE static Ints dot(const SignedWeights& w, const Input& x) {
    return _mm512_dpbusd_epi32(x.start, w.value, x.values);
  }

  template <class Weights>
  STRATA_INLINE static Ints dot_scaled(const Weights& w, __m512i x, Scales scales, Ints sums) {
    return _mm512_dpwssd_epi32(sums, pairs(w, x), scales);
  }

  // Rows that stand side by side: a 32-bit lane holds four neighbouring elements of each.
  static constexpr std::size_t kInterleaved = 16;

  STRATA_INLINE static Bytes load_bytes(const std::byte* at) { return _mm512_loadu_si512(at); }

  STRATA_INLINE static Mask load_mask(const std::byte* at) {
    std::uint64_t bits;
    __builtin_memcpy(&bits, at, sizeof bits);
    return bits;
  }

  // A factor or a signed byte of every row.
  STRATA_INLINE static Float load_factors(const std::byte* at, field::F16) { return load_f16(at); }

  STRATA_INLINE static Float load_factors(const std::byte* at, field::E8m0Half) {
    const __m512i exponents = _mm512_cvtepu8_epi32(load128(at));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)), 23);
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(exponents, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_small, _mm512_set1_epi32(0x00200000), exponents));
  }

  STRATA_INLINE static Float load_signed(const std::byte* at) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(at)));
  }

  STRATA_INLINE static Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  using avx512::multiply;

  // What sums of weights plus `Bias` start from, given -128 times the sum of the inputs.
  template <int Bias>
  STRATA_INLINE static Ints start(const std::int32_t* sum) {
    if constexpr (Bias == 0) return _mm512_setzero_si512();
    return _mm512_srai_epi32(_mm512_set1_epi32(*sum), 7 - __builtin_ctz(Bias));
  }

  // sums + the products of four unsigned bytes of every row with the same four inputs.
  STRATA_INLINE static Ints add_products(Ints sums, Bytes w, const std::int8_t* x) {
    std::int32_t four;
    __builtin_memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(four));
  }

  // sums + the products of two unsigned bytes of every row with the same two numbers.
  STRATA_INLINE static Ints add_pairs(Ints sums, const std::byte* at, const std::int16_t* x) {
    std::int32_t two;
    __builtin_memcpy(&two, x, sizeof two);
    return _mm512_dpwssd_epi32(sums, _mm512_cvtepu8_epi16(load256(at)), _mm512_set1_epi32(two));
  }

  // The points of a grid, eight to a step. All points of a block are looked up before the first is used.
  class GridPoints {
   public:
    STRATA_INLINE GridPoints(const Blocks& at, const Grid& grid, std::size_t low, std::size_t high) {
      unroll<2>([&](auto half) STRATA_LAMBDA { look_up_half(at, grid, low, high, half); });
    }

    template <std::size_t Step>
    STRATA_INLINE Bytes quants() const {
      return steps_[Step];
    }

   private:
    // Points 32 half to 32 half + 31 of both rows. They are ordered so that interleaving their four values inside
    // quarters of a register leaves each step's 32 values of both rows in one register.
    STRATA_INLINE void look_up_half(const Blocks& at, const Grid& grid, std::size_t low, std::size_t high,
                                    std::size_t half) {
      const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
      const __m512i points = _mm512_permutexvar_epi32(order, load32(at, low + 32 * half));
      const __mmask64 ninth = in_order(bits(at, high + 4 * half));
      const __m512i first = look_up_pairs(grid.pairs[0], points, ninth);
      const __m512i second = look_up_pairs(grid.pairs[1], points, ninth);
      const __m512i a = pick<0, 4, 0>(first);
      const __m512i b = pick<4, 4, 0>(first);
      const __m512i c = pick<0, 4, 0>(second);
      const __m512i d = pick<4, 4, 0>(second);
      const __m512i ab_low = _mm512_unpacklo_epi8(a, b);
      const __m512i ab_high = _mm512_unpackhi_epi8(a, b);
      const __m512i cd_low = _mm512_unpacklo_epi8(c, d);
      const __m512i cd_high = _mm512_unpackhi_epi8(c, d);
      steps_[4 * half] = _mm512_unpacklo_epi16(ab_low, cd_low);
      steps_[4 * half + 1] = _mm512_unpackhi_epi16(ab_low, cd_low);
      steps_[4 * half + 2] = _mm512_unpacklo_epi16(ab_high, cd_high);
      steps_[4 * half + 3] = _mm512_unpackhi_epi16(ab_high, cd_high);
    }

    // The bits of points in the order in which look_up_half has them: fours of a row, the even ones first.
    STRATA_INLINE static __mmask64 in_order(std::uint64_t packed) {
      const std::uint64_t even = _pext_u64(packed, 0x0f0f0f0f0f0f0f0fu);
      const std::uint64_t odd = _pext_u64(packed, 0xf0f0f0f0f0f0f0f0u);
      const std::uint64_t first = (even & 0xffffu) | (odd & 0xffffu) << 16;
      const std::uint64_t second = even >> 16 | (odd >> 16) << 16;
      return first | second << 32;
    }

    // Looks up 64 bytes in a table of 512: in four parts of 128, which the two highest bits of an index choose from.
    STRATA_INLINE static __m512i look_up_pairs(const std::uint8_t* table, __m512i points, __mmask64 ninth) {
      const __mmask64 eighth = _mm512_movepi8_mask(points);
      __m512i part[4];
      unroll<4>([&](auto i) STRATA_LAMBDA {
        part[i] = _mm512_permutex2var_epi8(_mm512_load_si512(table + 128 * i), points,
                                           _mm512_load_si512(table + 128 * i + 64));
      });
      return _mm512_mask_blend_epi8(ninth, _mm512_mask_blend_epi8(eighth, part[0], part[1]),
                                    _mm512_mask_blend_epi8(eighth, part[2], part[3]));
    }

    __m512i steps_[8];
  };
};

}  // namespace strata::simd
