// 256-bit vectors: AVX2, FMA and F16C (x86-64-v3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/grid.hpp"
#include "strata/inline.hpp"
#include "strata/intrinsics.hpp"

namespace strata::simd {

struct avx2 {
  static constexpr const char* kName = "avx2";
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRegisters = 16;

  using Float = __m256;

  STRATA_INLINE static Float zero() { return _mm256_setzero_ps(); }
  STRATA_INLINE static Float load(const float* at) { return _mm256_loadu_ps(at); }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(at)), 16));
  }

  STRATA_INLINE static Float load_f16(const std::byte* at) { return _mm256_cvtph_ps(load128(at)); }

  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  STRATA_INLINE static Float multiply(Float a, float b) { return _mm256_mul_ps(a, _mm256_set1_ps(b)); }
  STRATA_INLINE static Float broadcast(float value) { return _mm256_set1_ps(value); }
  STRATA_INLINE static void store(float* to, Float v) { _mm256_storeu_ps(to, v); }

  STRATA_INLINE static float sum(Float v) {
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }

  // The sums of eight vectors.
  STRATA_INLINE static void sum8(const Float (&v)[8], float* sums) {
    const __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    store(sums, _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)));
  }

  // Integers of stored blocks: 32 bytes, and so 8 sums, of each of `kVectorRows` rows.
  static constexpr std::size_t kVectorRows = 1;

  using Bytes = __m256i;
  using Mask = __m256i;  // all ones or zeros per byte
  using Ints = __m256i;

  struct Blocks {
    const std::byte* row[kVectorRows];
  };

  STRATA_INLINE static Bytes load32(const Blocks& at, std::size_t offset) { return load256(at.row[0] + offset); }

  // 16 bytes, twice.
  STRATA_INLINE static Bytes load16(const Blocks& at, std::size_t offset) {
    return _mm256_broadcastsi128_si256(load128(at.row[0] + offset));
  }

  // Bits `Shift` and up of every byte, moved to bit `To`.
  template <int Shift, int Bits, int To>
  STRATA_INLINE static Bytes pick(Bytes v) {
    constexpr int kMove = Shift - To;
    if constexpr (kMove > 0) v = _mm256_srli_epi16(v, kMove);
    if constexpr (kMove < 0) v = _mm256_slli_epi16(v, -kMove);
    return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(((1 << Bits) - 1) << To)));
  }

  // The same, with another shift for the second half of a row.
  template <int Low, int High, int Bits, int To>
  STRATA_INLINE static Bytes pick_halves(Bytes v) {
    const __m256i shifts = _mm256_setr_epi32(Low, Low, Low, Low, High, High, High, High);
    return pick<0, Bits, To>(_mm256_slli_epi16(_mm256_srlv_epi32(v, shifts), To));
  }

  // 32 bits, one per byte.
  STRATA_INLINE static Mask bits(const Blocks& at, std::size_t offset) {
    std::int32_t packed;
    __builtin_memcpy(&packed, at.row[0] + offset, sizeof packed);
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(packed), which);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
  }

  template <int Value>
  STRATA_INLINE static Bytes where(Mask mask) {
    return _mm256_and_si256(mask, _mm256_set1_epi8(Value));
  }

  STRATA_INLINE static Bytes negate(Bytes v, Mask mask) { return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask); }

  STRATA_INLINE static Bytes join(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }

  template <int Value>
  STRATA_INLINE static Bytes add(Bytes v) {
    return _mm256_add_epi8(v, _mm256_set1_epi8(Value));
  }

  STRATA_INLINE static Bytes look_up(const std::array<std::int8_t, 16>& table, Bytes indices) {
    __m128i values;
    __builtin_memcpy(&values, table.data(), sizeof values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), indices);
  }

  // The points of a grid, eight to a step.
  class GridPoints {
   public:
    STRATA_INLINE GridPoints(const Blocks& at, const Grid& grid, std::size_t low, std::size_t high)
        : at_(at), grid_(grid), low_(low), high_(high) {}

    template <std::size_t Step>
    STRATA_INLINE Bytes quants() const {
      return row<Step>(0);
    }

    template <std::size_t Step>
    STRATA_INLINE __m256i row(std::size_t index) const {
      const std::byte* low = at_.row[index] + low_ + 8 * Step;
      const auto high = static_cast<unsigned>(at_.row[index][high_ + Step]);
      const auto point = [&](unsigned i) STRATA_LAMBDA {
        return static_cast<std::int32_t>(grid_.points[static_cast<unsigned>(low[i]) | ((high << (8 - i)) & 0x100u)]);
      };
      return _mm256_setr_epi32(point(0), point(1), point(2), point(3), point(4), point(5), point(6), point(7));
    }

   private:
    Blocks at_;
    const Grid& grid_;
    std::size_t low_;
    std::size_t high_;
  };

  // The factor of each row in all of its lanes.
  STRATA_INLINE static Float factors(const Blocks& at, std::size_t offset, field::F16) {
    std::int16_t bits;
    __builtin_memcpy(&bits, at.row[0] + offset, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16(bits));
  }

  STRATA_INLINE static Float factors(const Blocks& at, std::size_t offset, field::E8m0Half type) {
    return _mm256_set1_ps(field::load<decltype(type)>(at.row[0] + offset, 0));
  }

  STRATA_INLINE static Float to_float(Ints v) { return _mm256_cvtepi32_ps(v); }

  STRATA_INLINE static void sum_rows(Float v, float* sums) { sums[0] = sum(v); }

  // Signed bytes against inputs in blocks of 32. |w| is at most 128 and |x| at most 127, so a pair of products stays
  // within 16 bits.
  struct SignedPairs {
    __m256i value;
    __m256i magnitude;
  };
  using SignedWeights = SignedPairs;

  STRATA_INLINE static SignedPairs signed_pairs(Bytes v) { return {v, _mm256_abs_epi8(v)}; }
  STRATA_INLINE static SignedWeights signed_weights(Bytes v) { return signed_pairs(v); }

  STRATA_INLINE static __m256i input(const Int8Row& x, std::size_t block) {
    return input_bytes(x.values + block * Int8Row::kBlock);
  }

  STRATA_INLINE static Ints dot(const SignedWeights& w, __m256i x) {
    return _mm256_madd_epi16(pairs(w, x), _mm256_set1_epi16(1));
  }

  // Bytes whose parts have integer scales: 16-bit sums of pairs of products, times scales of 16 bits.
  struct UnsignedPairs {
    __m256i value;  // at most 127
  };
  using Scales = __m256i;  // per row: those of the first halves of the eight steps, then those of the second halves

  STRATA_INLINE static UnsignedPairs unsigned_pairs(Bytes v) { return {v}; }

  STRATA_INLINE static __m256i input_bytes(const std::int8_t* x) { return load256(x); }

  template <class Weights>
  STRATA_INLINE static Ints dot_scaled(const Weights& w, __m256i x, Scales scales, Ints sums) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs(w, x), scales));
  }

  STRATA_INLINE static Ints no_ints() { return _mm256_setzero_si256(); }

  // Eight scales of each row: unsigned bytes plus `Offset`.
  template <int Offset>
  STRATA_INLINE static Scales scales8(const std::uint64_t* words) {
    const __m128i wide = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<long long>(words[0])));
    return _mm256_broadcastsi128_si256(_mm_add_epi16(wide, _mm_set1_epi16(Offset)));
  }

  // Sixteen scales of each row: signed bytes.
  STRATA_INLINE static Scales scales16(const Blocks& at, std::size_t offset) {
    const __m128i bytes = load128(at.row[0] + offset);
    return _mm256_srai_epi16(_mm256_setr_m128i(_mm_slli_epi16(bytes, 8), bytes), 8);
  }

  // The scales of step `Step` in all of its lanes.
  template <std::size_t Step>
  STRATA_INLINE static Scales scales_of(Scales scales) {
    return _mm256_shuffle_epi8(scales, _mm256_set1_epi16(static_cast<short>(0x0100 + 0x0202 * Step)));
  }

  template <int Factor>
  STRATA_INLINE static Scales scales_times(Scales scales) {
    return _mm256_mullo_epi16(scales, _mm256_set1_epi16(Factor));
  }

  // Scales times the sums of the inputs that they are for.
  STRATA_INLINE static Ints dot_sums(Scales scales, const std::int16_t* sums) {
    return _mm256_madd_epi16(scales, load256(sums));
  }

  // Eight unsigned bytes of each row, times the row's factor.
  STRATA_INLINE static Float products(const std::uint64_t* words, Float factors) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(words[0]));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), factors);
  }

  // acc - a * x, the same eight of `x` for every row.
  STRATA_INLINE static Float subtract_product(Float a, const float* x, Float acc) {
    return _mm256_fnmadd_ps(a, _mm256_loadu_ps(x), acc);
  }

 private:
  STRATA_INLINE static __m128i load128(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

  STRATA_INLINE static __m256i load256(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }

  STRATA_INLINE static __m256i pairs(const SignedPairs& w, __m256i x) {
    return _mm256_maddubs_epi16(w.magnitude, _mm256_sign_epi8(x, w.value));
  }

  STRATA_INLINE static __m256i pairs(const UnsignedPairs& w, __m256i x) { return _mm256_maddubs_epi16(w.value, x); }
};

}  // namespace strata::simd
