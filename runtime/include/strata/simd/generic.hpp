// 128-bit vectors in the compiler's own notation, and loops that it vectorises: any CPU, no intrinsics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/grid.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata::simd {

struct generic {
  static constexpr const char* kName = "generic";
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kRegisters = 16;

  using Float4 = float __attribute__((vector_size(16)));
  using Uint4 = std::uint32_t __attribute__((vector_size(16)));
  using UnsignedShort4 = std::uint16_t __attribute__((vector_size(8)));

  struct Float {
    Float4 low;
    Float4 high;
  };

  STRATA_INLINE static Float zero() { return {Float4{}, Float4{}}; }

  STRATA_INLINE static Float load(const float* at) { return {read<Float4>(at), read<Float4>(at + 4)}; }

  STRATA_INLINE static Float load_bf16(const std::byte* at) {
    return {widen_bf16(read<UnsignedShort4>(at)), widen_bf16(read<UnsignedShort4>(at + sizeof(UnsignedShort4)))};
  }

  STRATA_INLINE static Float load_f16(const std::byte* at) {
    float values[kLanes];
    for (std::size_t i = 0; i < kLanes; ++i) values[i] = field::load<field::F16>(at, i);
    return load(values);
  }

  // a * b + c, the product rounded.
  STRATA_INLINE static Float multiply_add(Float a, Float b, Float c) {
    return {a.low * b.low + c.low, a.high * b.high + c.high};
  }

  STRATA_INLINE static Float multiply(Float a, float b) { return {a.low * b, a.high * b}; }

  STRATA_INLINE static Float broadcast(float value) { return {Float4{} + value, Float4{} + value}; }

  STRATA_INLINE static void store(float* to, Float v) { __builtin_memcpy(to, &v, sizeof v); }

  STRATA_INLINE static float sum(Float v) {
    const Float4 half = v.low + v.high;
    return (half[0] + half[2]) + (half[1] + half[3]);
  }

  // The sums of eight vectors.
  STRATA_INLINE static void sum8(const Float (&v)[8], float* sums) {
    for (std::size_t i = 0; i < 8; ++i) sums[i] = sum(v[i]);
  }

  // Integers of stored blocks: 32 bytes, and so 8 sums, of each of `kVectorRows` rows.
  static constexpr std::size_t kVectorRows = 1;
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kSums = 8;

  struct Bytes {
    alignas(16) std::uint8_t v[kBytes];
  };
  using Mask = Bytes;  // all ones or zeros per byte

  struct Ints {
    alignas(16) std::int32_t v[kSums];
  };

  struct Blocks {
    const std::byte* row[kVectorRows];
  };

  STRATA_INLINE static Bytes load32(const Blocks& at, std::size_t offset) { return read<Bytes>(at.row[0] + offset); }

  // 16 bytes, twice.
  STRATA_INLINE static Bytes load16(const Blocks& at, std::size_t offset) {
    Bytes result;
    __builtin_memcpy(result.v, at.row[0] + offset, kBytes / 2);
    __builtin_memcpy(result.v + kBytes / 2, at.row[0] + offset, kBytes / 2);
    return result;
  }

  // Bits `Shift` and up of every byte, moved to bit `To`.
  template <int Shift, int Bits, int To>
  STRATA_INLINE static Bytes pick(const Bytes& v) {
    return pick_halves<Shift, Shift, Bits, To>(v);
  }

  // The same, with another shift for the second half of a row.
  template <int Low, int High, int Bits, int To>
  STRATA_INLINE static Bytes pick_halves(Bytes v) {
    constexpr int kMask = (1 << Bits) - 1;
    for (std::size_t i = 0; i < kBytes / 2; ++i) v.v[i] = byte((v.v[i] >> Low & kMask) << To);
    for (std::size_t i = kBytes / 2; i < kBytes; ++i) v.v[i] = byte((v.v[i] >> High & kMask) << To);
    return v;
  }

  // 32 bits, one per byte.
  STRATA_INLINE static Mask bits(const Blocks& at, std::size_t offset) {
    Mask mask;
    for (std::size_t i = 0; i < kBytes; ++i) mask.v[i] = byte(-static_cast<int>(field::bits(at.row[0] + offset, i, 1)));
    return mask;
  }

  template <int Value>
  STRATA_INLINE static Bytes where(Mask mask) {
    for (std::uint8_t& value : mask.v) value = byte(value & Value);
    return mask;
  }

  STRATA_INLINE static Bytes negate(Bytes v, const Mask& mask) {
    for (std::size_t i = 0; i < kBytes; ++i) v.v[i] = byte((v.v[i] ^ mask.v[i]) - mask.v[i]);
    return v;
  }

  STRATA_INLINE static Bytes join(Bytes a, const Bytes& b) {
    for (std::size_t i = 0; i < kBytes; ++i) a.v[i] = byte(a.v[i] | b.v[i]);
    return a;
  }

  template <int Value>
  STRATA_INLINE static Bytes add(Bytes v) {
    for (std::uint8_t& value : v.v) value = byte(value + Value);
    return v;
  }

  STRATA_INLINE static Bytes look_up(const std::array<std::int8_t, 16>& table, Bytes indices) {
    for (std::uint8_t& value : indices.v) value = byte(table[value]);
    return indices;
  }

  // The points of a grid, eight to a step.
  class GridPoints {
   public:
    STRATA_INLINE GridPoints(const Blocks& at, const Grid& grid, std::size_t low, std::size_t high)
        : row_(at.row[0]), grid_(grid), low_(low), high_(high) {}

    template <std::size_t Step>
    STRATA_INLINE Bytes quants() const {
      Bytes result;
      for (std::size_t i = 0; i < kBytes / sizeof(std::uint32_t); ++i) {
        const std::size_t point = 8 * Step + i;
        const unsigned index = field::bits(row_ + low_, 8 * point, 8) | field::bits(row_ + high_, point, 1) << 8;
        __builtin_memcpy(result.v + i * sizeof(std::uint32_t), &grid_.points[index], sizeof(std::uint32_t));
      }
      return result;
    }

   private:
    const std::byte* row_;
    const Grid& grid_;
    std::size_t low_;
    std::size_t high_;
  };

  // The factor of each row in all of its lanes.
  template <class Type>
  STRATA_INLINE static Float factors(const Blocks& at, std::size_t offset, Type) {
    const float factor = field::load<Type>(at.row[0] + offset, 0);
    return {Float4{} + factor, Float4{} + factor};
  }

  STRATA_INLINE static Float to_float(const Ints& v) {
    float values[kSums];
    for (std::size_t i = 0; i < kSums; ++i) values[i] = static_cast<float>(v.v[i]);
    return load(values);
  }

  STRATA_INLINE static void sum_rows(Float v, float* sums) { sums[0] = sum(v); }

  // Signed bytes against inputs in blocks of 32. Lane i sums the products of bytes i, i + 8, i + 16 and i + 24.
  struct SignedPairs {
    Bytes value;
  };
  using SignedWeights = SignedPairs;

  STRATA_INLINE static SignedPairs signed_pairs(const Bytes& v) { return {v}; }
  STRATA_INLINE static SignedWeights signed_weights(const Bytes& v) { return {v}; }

  STRATA_INLINE static const std::int8_t* input(const Int8Row& x, std::size_t block) {
    return x.values + block * Int8Row::kBlock;
  }

  // |w| is at most 128 and |x| at most 127, so the sum of two products stays within 16 bits.
  STRATA_INLINE static Ints dot(const SignedWeights& w, const std::int8_t* x) {
    Ints sums;
    for (std::size_t i = 0; i < kSums; ++i) {
      const std::int16_t first = product(w, x, i) + product(w, x, i + 8);
      const std::int16_t second = product(w, x, i + 16) + product(w, x, i + 24);
      sums.v[i] = first + second;
    }
    return sums;
  }

  // Bytes whose parts have integer scales.
  struct UnsignedPairs {
    Bytes value;  // at most 127
  };

  struct Scales {
    std::int16_t v[16];  // those of the first halves of the eight steps, then those of the second halves
  };

  STRATA_INLINE static UnsignedPairs unsigned_pairs(const Bytes& v) { return {v}; }

  STRATA_INLINE static const std::int8_t* input_bytes(const std::int8_t* x) { return x; }

  template <class Weights>
  STRATA_INLINE static Ints dot_scaled(const Weights& w, const std::int8_t* x, const Scales& scales, Ints sums) {
    for (std::size_t i = 0; i < kSums; ++i) {
      const std::int16_t first = product(w, x, i) + product(w, x, i + 8);
      const std::int16_t second = product(w, x, i + 16) + product(w, x, i + 24);
      sums.v[i] += first * scales.v[0] + second * scales.v[1];
    }
    return sums;
  }

  STRATA_INLINE static Ints no_ints() { return {}; }

  // Eight scales of each row: unsigned bytes plus `Offset`.
  template <int Offset>
  STRATA_INLINE static Scales scales8(const std::uint64_t* words) {
    Scales scales;
    for (std::size_t i = 0; i < 8; ++i) {
      scales.v[i] = scales.v[i + 8] = static_cast<std::int16_t>(static_cast<int>(words[0] >> (8 * i) & 0xff) + Offset);
    }
    return scales;
  }

  // Sixteen scales of each row: signed bytes.
  STRATA_INLINE static Scales scales16(const Blocks& at, std::size_t offset) {
    Scales scales;
    for (std::size_t i = 0; i < 16; ++i) scales.v[i / 2 + i % 2 * 8] = static_cast<std::int8_t>(at.row[0][offset + i]);
    return scales;
  }

  // The scales of step `Step`.
  template <std::size_t Step>
  STRATA_INLINE static Scales scales_of(const Scales& scales) {
    return {{scales.v[Step], scales.v[Step + 8]}};
  }

  template <int Factor>
  STRATA_INLINE static Scales scales_times(Scales scales) {
    for (std::int16_t& scale : scales.v) scale = static_cast<std::int16_t>(scale * Factor);
    return scales;
  }

  // Scales times the sums of the inputs that they are for.
  STRATA_INLINE static Ints dot_sums(const Scales& scales, const std::int16_t* sums) {
    Ints result;
    for (std::size_t i = 0; i < kSums; ++i) result.v[i] = scales.v[i] * sums[i] + scales.v[i + 8] * sums[i + 8];
    return result;
  }

  // Eight unsigned bytes of each row, times the row's factor.
  STRATA_INLINE static Float products(const std::uint64_t* words, Float factors) {
    float values[8];
    for (std::size_t i = 0; i < 8; ++i) values[i] = static_cast<float>(words[0] >> (8 * i) & 0xff);
    const Float wide = load(values);
    return {wide.low * factors.low, wide.high * factors.high};
  }

  // acc - a * x, the product rounded.
  STRATA_INLINE static Float subtract_product(Float a, const float* x, Float acc) {
    const Float wide = load(x);
    return {acc.low - a.low * wide.low, acc.high - a.high * wide.high};
  }

 private:
  template <class Type>
  STRATA_INLINE static Type read(const void* at) {
    Type v;
    __builtin_memcpy(&v, at, sizeof v);
    return v;
  }

  STRATA_INLINE static std::uint8_t byte(int value) { return static_cast<std::uint8_t>(value); }

  STRATA_INLINE static Float4 widen_bf16(UnsignedShort4 v) {
    return bit_cast<Float4>(__builtin_convertvector(v, Uint4) << 16);
  }

  STRATA_INLINE static std::int16_t product(const SignedPairs& w, const std::int8_t* x, std::size_t i) {
    return static_cast<std::int16_t>(static_cast<std::int8_t>(w.value.v[i]) * x[i]);
  }

  STRATA_INLINE static std::int16_t product(const UnsignedPairs& w, const std::int8_t* x, std::size_t i) {
    return static_cast<std::int16_t>(w.value.v[i] * x[i]);
  }
};

}  // namespace strata::simd
