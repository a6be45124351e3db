// Products of an expert's rows with the inputs of all entries of its group: each weight is decoded once for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/decode.hpp"
#include "strata/device/plan.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

template <class Format>
constexpr std::int64_t row_bytes(int columns) {
  return static_cast<std::int64_t>(columns) / static_cast<std::int64_t>(Format::kBlock) *
         static_cast<std::int64_t>(Format::kBytes);
}

// Dot products of one row with `Count` inputs, in every lane.
template <class Format, int Count, simt::Simt S>
STRATA_FUNCTION void row_dots(const S& simt, const std::byte* row, int columns, const float* const (&x)[kMaxTokens],
                              float* out) {
  simt::PartialSums<S> partial[Count];
  for (int first = 0; first < columns; first += simt::kPartialSums) {
    const LaneWeights<Format, S> weights(simt, row, first, columns);
    if (first + simt::kPartialSums <= columns) {
      for (int n = 0; n < Count; ++n) {
        const float* from = x[n] + first + simt.lane();
        for (int j = 0; j < simt::kSumsPerLane<S>; ++j) {
          partial[n].sum[j] += weights.value[j] * from[j * S::kWave];
        }
      }
    } else {
      for (int j = 0; j < simt::kSumsPerLane<S>; ++j) {
        const int column = first + j * S::kWave + simt.lane();
        if (column >= columns) break;
        for (int n = 0; n < Count; ++n) partial[n].sum[j] += weights.value[j] * x[n][column];
      }
    }
  }
  for (int n = 0; n < Count; ++n) out[n] = partial[n].total(simt);
}

// Calls body(Index<n>) for n = count, at most kMaxTokens: loops over entries have a constant length.
template <int Count = kMaxTokens, class Body>
STRATA_INLINE void with_count(int count, const Body& body) {
  if constexpr (Count > 1) {
    if (count < Count) {
      with_count<Count - 1>(count, body);
      return;
    }
  }
  body(Index<static_cast<std::size_t>(Count)>{});
}

// Calls body(group, row, entries, Index<n>) for the rows of a block, by waves, with up to kMaxTokens entries of its
// group at a time. Blocks are groups times tiles of `tile` rows; those of groups that the plan has not do nothing.
template <simt::Simt S, class Body>
STRATA_INLINE void for_expert_rows(const S& simt, const Plan& plan, int rows, int tile, const Body& body) {
  const int tiles = (rows + tile - 1) / tile;
  const int number = simt.block() / tiles;
  if (number >= plan.groups) return;
  const Group& group = plan.group[number];
  const int first = simt.block() % tiles * tile;
  const int last = first + tile < rows ? first + tile : rows;
  for (int row = first + simt.thread() / S::kWave; row < last; row += simt.threads() / S::kWave) {
    for (int done = 0; done < group.count; done += kMaxTokens) {
      const int count = group.count - done < kMaxTokens ? group.count - done : kMaxTokens;
      const std::int32_t* entries = plan.entries + group.first + done;
      with_count(count, [&](auto constant) { body(group, row, entries, constant); });
    }
  }
}

}  // namespace strata::device
