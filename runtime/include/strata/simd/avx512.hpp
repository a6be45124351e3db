// 512-bit vectors: AVX-512 F, BW, DQ and VL (x86-64-v4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/grid.hpp"
#include "strata/inline.hpp"
#include "strata/intrinsics.hpp"
#include "strata/simd/avx2.hpp"

namespace strata::simd {

struct avx512 {
  static constexpr const char* kName = "avx512";
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kRegisters = 32;

  using Float = __m512;

  STRATA_INLINE static Float zero() { return _mm512_setzero_ps(); }
  STRATA_INLINE static Float load(const float* at) { return _mm512_loadu_ps(at); }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(at)), 16));
  }

  STRATA_INLINE static Float load_f16(const std::byte* at) { return _mm512_cvtph_ps(load256(at)); }

  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  STRATA_INLINE static Float multiply(Float a, float b) { return _mm512_mul_ps(a, _mm512_set1_ps(b)); }
  STRATA_INLINE static Float broadcast(float value) { return _mm512_set1_ps(value); }
  STRATA_INLINE static void store(float* to, Float v) { _mm512_storeu_ps(to, v); }

  STRATA_INLINE static float sum(Float v) { return avx2::sum(folded(v)); }

  // The sums of eight vectors.
  STRATA_INLINE static void sum8(const Float (&v)[8], float* sums) {
    avx2::sum8({folded(v[0]), folded(v[1]), folded(v[2]), folded(v[3]), folded(v[4]), folded(v[5]), folded(v[6]),
                folded(v[7])},
               sums);
  }

  // Integers of stored blocks: 32 bytes, and so 8 sums, of each of `kVectorRows` rows.
  static constexpr std::size_t kVectorRows = 2;

  using Bytes = __m512i;
  using Mask = __mmask64;
  using Ints = __m512i;

  struct Blocks {
    const std::byte* row[kVectorRows];
  };

  STRATA_INLINE static Bytes load32(const Blocks& at, std::size_t offset) {
    return both(load256(at.row[0] + offset), load256(at.row[1] + offset));
  }

  // 16 bytes of each row, twice.
  STRATA_INLINE static Bytes load16(const Blocks& at, std::size_t offset) {
    return twice(_mm256_setr_m128i(load128(at.row[0] + offset), load128(at.row[1] + offset)));
  }

  // Bits `Shift` and up of every byte, moved to bit `To`.
  template <int Shift, int Bits, int To>
  STRATA_INLINE static Bytes pick(Bytes v) {
    constexpr int kMove = Shift - To;
    if constexpr (kMove > 0) v = _mm512_srli_epi16(v, kMove);
    if constexpr (kMove < 0) v = _mm512_slli_epi16(v, -kMove);
    return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(((1 << Bits) - 1) << To)));
  }

  // The same, with another shift for the second half of a row.
  template <int Low, int High, int Bits, int To>
  STRATA_INLINE static Bytes pick_halves(Bytes v) {
    const __m256i shifts = _mm256_setr_epi32(Low, Low, Low, Low, High, High, High, High);
    return pick<0, Bits, To>(_mm512_slli_epi16(_mm512_srlv_epi32(v, _mm512_broadcast_i64x4(shifts)), To));
  }

  // 32 bits of each row, one per byte.
  STRATA_INLINE static Mask bits(const Blocks& at, std::size_t offset) {
    std::uint32_t packed[kVectorRows];
    __builtin_memcpy(&packed[0], at.row[0] + offset, sizeof packed[0]);
    __builtin_memcpy(&packed[1], at.row[1] + offset, sizeof packed[1]);
    return static_cast<std::uint64_t>(packed[1]) << 32 | packed[0];
  }

  template <int Value>
  STRATA_INLINE static Bytes where(Mask mask) {
    return _mm512_maskz_set1_epi8(mask, Value);
  }

  STRATA_INLINE static Bytes negate(Bytes v, Mask mask) {
    return _mm512_mask_sub_epi8(v, mask, _mm512_setzero_si512(), v);
  }

  STRATA_INLINE static Bytes join(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }

  template <int Value>
  STRATA_INLINE static Bytes add(Bytes v) {
    return _mm512_add_epi8(v, _mm512_set1_epi8(Value));
  }

  STRATA_INLINE static Bytes look_up(const std::array<std::int8_t, 16>& table, Bytes indices) {
    __m128i values;
    __builtin_memcpy(&values, table.data(), sizeof values);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), indices);
  }

  // The points of a grid, eight to a step.
  class GridPoints {
   public:
    STRATA_INLINE GridPoints(const Blocks& at, const Grid& grid, std::size_t low, std::size_t high)
        : rows_{{{at.row[0]}, grid, low, high}, {{at.row[1]}, grid, low, high}} {}

    template <std::size_t Step>
    STRATA_INLINE Bytes quants() const {
      return both(rows_[0].template quants<Step>(), rows_[1].template quants<Step>());
    }

   private:
    avx2::GridPoints rows_[kVectorRows];
  };

  // The factor of each row in all of its lanes.
  STRATA_INLINE static Float factors(const Blocks& at, std::size_t offset, field::F16) {
    std::int16_t bits[kVectorRows];
    __builtin_memcpy(&bits[0], at.row[0] + offset, sizeof bits[0]);
    __builtin_memcpy(&bits[1], at.row[1] + offset, sizeof bits[1]);
    return _mm512_cvtph_ps(_mm256_mask_set1_epi16(_mm256_set1_epi16(bits[0]), kUpper, bits[1]));
  }

  STRATA_INLINE static Float factors(const Blocks& at, std::size_t offset, field::E8m0Half type) {
    const float low = field::load<decltype(type)>(at.row[0] + offset, 0);
    const float high = field::load<decltype(type)>(at.row[1] + offset, 0);
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(low), kUpper, _mm_set_ss(high));
  }

  STRATA_INLINE static Float to_float(Ints v) { return _mm512_cvtepi32_ps(v); }

  STRATA_INLINE static void sum_rows(Float v, float* sums) {
    sums[0] = avx2::sum(_mm512_castps512_ps256(v));
    sums[1] = avx2::sum(_mm512_extractf32x8_ps(v, 1));
  }

  // Signed bytes against inputs in blocks of 32. |w| is at most 128 and |x| at most 127, so a pair of products stays
  // within 16 bits.
  struct SignedPairs {
    __m512i magnitude;
    __mmask64 negative;
  };
  using SignedWeights = SignedPairs;

  STRATA_INLINE static SignedPairs signed_pairs(Bytes v) { return {_mm512_abs_epi8(v), _mm512_movepi8_mask(v)}; }
  STRATA_INLINE static SignedWeights signed_weights(Bytes v) { return signed_pairs(v); }

  STRATA_INLINE static __m512i input(const Int8Row& x, std::size_t block) {
    return input_bytes(x.values + block * Int8Row::kBlock);
  }

  STRATA_INLINE static Ints dot(const SignedWeights& w, __m512i x) {
    return _mm512_madd_epi16(pairs(w, x), _mm512_set1_epi16(1));
  }

  // Bytes whose parts have integer scales: 16-bit sums of pairs of products, times scales of 16 bits.
  struct UnsignedPairs {
    __m512i value;  // at most 127
  };
  using Scales = __m512i;  // per row: those of the first halves of the eight steps, then those of the second halves

  STRATA_INLINE static UnsignedPairs unsigned_pairs(Bytes v) { return {v}; }

  STRATA_INLINE static __m512i input_bytes(const std::int8_t* x) { return _mm512_broadcast_i64x4(load256(x)); }

  template <class Weights>
  STRATA_INLINE static Ints dot_scaled(const Weights& w, __m512i x, Scales scales, Ints sums) {
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs(w, x), scales));
  }

  STRATA_INLINE static Ints no_ints() { return _mm512_setzero_si512(); }

  // Eight scales of each row: unsigned bytes plus `Offset`.
  template <int Offset>
  STRATA_INLINE static Scales scales8(const std::uint64_t* words) {
    return twice(_mm256_add_epi16(_mm256_cvtepu8_epi16(rows_of(words)), _mm256_set1_epi16(Offset)));
  }

  // Sixteen scales of each row: signed bytes.
  STRATA_INLINE static Scales scales16(const Blocks& at, std::size_t offset) {
    const __m512i shifts = _mm512_broadcast_i64x4(_mm256_setr_m128i(_mm_set1_epi16(8), _mm_setzero_si128()));
    return _mm512_srai_epi16(_mm512_sllv_epi16(load16(at, offset), shifts), 8);
  }

  // The scales of step `Step` in all of its lanes.
  template <std::size_t Step>
  STRATA_INLINE static Scales scales_of(Scales scales) {
    return _mm512_shuffle_epi8(scales, _mm512_set1_epi16(static_cast<short>(0x0100 + 0x0202 * Step)));
  }

  template <int Factor>
  STRATA_INLINE static Scales scales_times(Scales scales) {
    return _mm512_mullo_epi16(scales, _mm512_set1_epi16(Factor));
  }

  // Scales times the sums of the inputs that they are for.
  STRATA_INLINE static Ints dot_sums(Scales scales, const std::int16_t* sums) {
    return _mm512_madd_epi16(scales, _mm512_broadcast_i64x4(load256(sums)));
  }

  // Eight unsigned bytes of each row, times the row's factor.
  STRATA_INLINE static Float products(const std::uint64_t* words, Float factors) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(rows_of(words))), factors);
  }

  // acc - a * x, the same eight of `x` for every row.
  STRATA_INLINE static Float subtract_product(Float a, const float* x, Float acc) {
    return _mm512_fnmadd_ps(a, _mm512_broadcast_f32x8(_mm256_loadu_ps(x)), acc);
  }

 protected:
  static constexpr __mmask16 kUpper = 0xff00;

  // The sum of both halves.
  STRATA_INLINE static __m256 folded(Float v) {
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  }

  STRATA_INLINE static __m128i load128(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

  STRATA_INLINE static __m256i load256(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }

  STRATA_INLINE static __m512i both(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }

  // Both quarters twice: a b -> a a b b.
  STRATA_INLINE static __m512i twice(__m256i v) {
    const __m512i wide = _mm512_castsi256_si512(v);
    return _mm512_shuffle_i64x2(wide, wide, _MM_SHUFFLE(1, 1, 0, 0));
  }

  STRATA_INLINE static __m128i rows_of(const std::uint64_t* words) {
    return _mm_set_epi64x(static_cast<long long>(words[1]), static_cast<long long>(words[0]));
  }

  STRATA_INLINE static __m512i pairs(const SignedPairs& w, __m512i x) {
    return _mm512_maddubs_epi16(w.magnitude, negate(x, w.negative));
  }

  STRATA_INLINE static __m512i pairs(const UnsignedPairs& w, __m512i x) { return _mm512_maddubs_epi16(w.value, x); }
};

}  // namespace strata::simd
