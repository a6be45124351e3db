// How the products of a matrix are shared out to teams, so that bits do not depend on who computes what.
//
// Columns are cut into chunks of 256, and the chunks dealt out to slices. A job, some neighbouring rows and one slice,
// is done by one team of 32 threads; the sums of a row's slices are added in their order.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/inline.hpp"

namespace strata::device {

inline constexpr int kChunk = 256;
inline constexpr int kMaxSliceBits = 3;
inline constexpr int kMaxSlices = 1 << kMaxSliceBits;

STRATA_INLINE int chunks_of(int columns) { return (columns + kChunk - 1) / kChunk; }

// Slices of a matrix are a power of two, no more than it has chunks: its exponent.
STRATA_INLINE int slice_bits(int columns) {
  const int chunks = chunks_of(columns);
  int bits = 0;
  while (bits < kMaxSliceBits && 2 << bits <= chunks) ++bits;
  return bits;
}

// Rows of inputs that the `count` tokens of a pass have: those of entries, or of neighbours.
class PassRows {
 public:
  STRATA_INLINE static PassRows from(int first, int count) { return {nullptr, first, 0, count}; }

  // Row entries[n] / divisor of token n.
  STRATA_INLINE static PassRows of(const std::int32_t* entries, int divisor, int count) {
    // Rounded up, it makes exact quotients of numbers so small.
    static_assert(kMaxEntries * kMaxTopK <= 1 << kFractionBits);
    const int reciprocal = ((1 << kFractionBits) + divisor - 1) / divisor;
    return {entries, 0, reciprocal, count};
  }

  STRATA_INLINE int count() const { return count_; }

  STRATA_INLINE int row(int token) const {
    const int n = token < count_ ? token : count_ - 1;  // of what is not there, anything
    return entries_ == nullptr ? first_ + n : entries_[n] * reciprocal_ >> kFractionBits;
  }

 private:
  static constexpr int kFractionBits = 16;

  STRATA_INLINE PassRows(const std::int32_t* entries, int first, int reciprocal, int count)
      : entries_(entries), first_(first), reciprocal_(reciprocal), count_(count) {}

  const std::int32_t* entries_;
  int first_;
  int reciprocal_;
  int count_;
};

}  // namespace strata::device
