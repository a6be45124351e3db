// Products of small matrices of 16-bit floats by a wave of 32 lanes, in the operands' places of NVIDIA's m16n8k16.
//
// C[16, 8] += A[16, 16] * B[16, 8]. With l a lane, g = l / 4 and t = l % 4, each lane has
//   A: rows g and g + 8, columns 2t, 2t + 1 and 2t + 8, 2t + 9, as words {(g, 2t), (g + 8, 2t), (g, 2t + 8), ...};
//   B: rows 2t, 2t + 1 and 2t + 8, 2t + 9 of column g;
//   C: columns 2t and 2t + 1 of row g, then of row g + 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::simt {

// What every lane does alone, in plain code.
struct PlainTile {
  // Two floats as one word, the first one lowest. `Type` is field::F16 or field::Bf16.
  template <class Type>
  STRATA_INLINE static std::uint32_t pack(float low, float high) {
    return Type::encode(low) | static_cast<std::uint32_t>(Type::encode(high)) << 16;
  }

  // 2^x, which is 0 for a large negative x.
  STRATA_INLINE static float exp2(float x) {
    return x < -125.0f ? 0.0f : kernels::exp_clamped(x * 0x1.62e430p-1f) + (x - x);
  }
};

// Plain code over shuffles, for tests and for devices without such instructions. Those sum in another order, so the
// last bits of a product are not the same everywhere; but no row of C depends on another row of A anywhere.
template <Simt S>
struct Tile : PlainTile {
  static_assert(S::kWave == 32);

  template <class Type>
  STRATA_INLINE static void multiply_add(const S& simt, float (&c)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
    const int first = simt.lane() / 4 * 4;       // of the lanes with this lane's rows
    const int second = simt.lane() % 4 * 2 * 4;  // of those with its columns
    for (int k = 0; k < 8; ++k) {
      const std::uint32_t rows[2] = {word(simt, a[k / 4 * 2], first + k % 4),
                                     word(simt, a[k / 4 * 2 + 1], first + k % 4)};
      const std::uint32_t columns[2] = {word(simt, b[k / 4], second + k % 4), word(simt, b[k / 4], second + 4 + k % 4)};
      for (int part = 0; part < 4; ++part) {
        c[part] += low<Type>(rows[part / 2]) * low<Type>(columns[part % 2]);
        c[part] += low<Type>(rows[part / 2] >> 16) * low<Type>(columns[part % 2] >> 16);
      }
    }
  }

  // Four matrices of 8 rows of 8 elements: lane l says where row l % 8 of matrix l / 8 is in shared memory, and gets
  // the elements (g, 2t) and (g, 2t + 1) of each; transposed, the elements (2t, g) and (2t + 1, g).
  STRATA_INLINE static void load(const S& simt, const std::byte* row, std::uint32_t (&words)[4]) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const std::byte* from = address(simt, row, 8 * matrix + simt.lane() / 4);
      __builtin_memcpy(&words[matrix], from + simt.lane() % 4 * 4, sizeof words[matrix]);
    }
  }
  STRATA_INLINE static void load_transposed(const S& simt, const std::byte* row, std::uint32_t (&words)[4]) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t halves[2];
      for (int i = 0; i < 2; ++i) {
        const std::byte* from = address(simt, row, 8 * matrix + simt.lane() % 4 * 2 + i);
        __builtin_memcpy(&halves[i], from + simt.lane() / 4 * 2, sizeof halves[i]);
      }
      words[matrix] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
    }
  }

  // 16 bytes into shared memory, zeros where they are not `present`: begun here, done once `wait` says so. `wait<N>` is
  // for all but the last N groups that the thread closed, and a barrier makes them known to the others.
  STRATA_INLINE static void copy(std::byte* to, const std::byte* from, bool present) {
    if (present) {
      __builtin_memcpy(to, from, 16);
    } else {
      __builtin_memset(to, 0, 16);
    }
  }
  STRATA_INLINE static void close_group() {}
  template <int Groups>
  STRATA_INLINE static void wait() {}

 private:
  template <class Type>
  STRATA_INLINE static float low(std::uint32_t word) {
    return Type::decode(static_cast<std::uint16_t>(word));
  }
  STRATA_INLINE static std::uint32_t word(const S& simt, std::uint32_t value, int lane) {
    return bit_cast<std::uint32_t>(simt.shuffle(bit_cast<float>(value), lane));
  }
  STRATA_INLINE static const std::byte* address(const S& simt, const std::byte* own, int lane) {
    return reinterpret_cast<const std::byte*>(simt.shuffle(reinterpret_cast<std::uint64_t>(own), lane));
  }
};

}  // namespace strata::simt
