// Products of stored rows of floats with the inputs of a few tokens.
//
// In a slice, column i goes into partial sum i % 64, each product rounded; those are added pairwise, halves upon
// halves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/row_words.hpp"
#include "strata/device/slices.hpp"
#include "strata/simt/team.hpp"

namespace strata::device {

// Rows of inputs as they are: [rows, columns].
struct FloatRows {
  const float* values;
  std::int64_t columns;
};

// Four neighbouring rows.
template <class Format>
struct FloatProducts {
  using Stored = typename Format::Value::Stored;
  using Inputs = FloatRows;

  static constexpr int kRows = 4;
  static constexpr int kTokens = 4;  // at a time
  using JobSums = float[kTokens][kRows];

  struct Job {
    const std::byte* weights;  // of the first of the rows
    FloatRows inputs;
    PassRows rows;
    int slice;
    int slices;
    int valid;      // how many of the rows there are
    bool is_there;  // nothing is written for a job that is not
  };

  STRATA_INLINE static std::int64_t bytes(int columns) {
    return static_cast<std::int64_t>(columns) * kRows * static_cast<std::int64_t>(sizeof(Stored));
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, const Job& job, JobSums& sums) {
    if constexpr (S::kWave == 1) {
      alone(job, sums);
    } else if (job.inputs.columns % 2 == 0) {
      together<true>(simt, job, sums);
    } else {
      together<false>(simt, job, sums);
    }
  }

  template <simt::Simt S>
  STRATA_INLINE static void prefetch(const S&, const std::byte*, int, int) {}

 private:
  static constexpr int kSums = 64;

  // Calls stretch(first, last) for the chunks of a slice.
  template <class Stretch>
  STRATA_INLINE static void for_chunks(const Job& job, const Stretch& stretch) {
    const int columns = static_cast<int>(job.inputs.columns);
    for (int first = kChunk * job.slice; first < columns; first += kChunk * job.slices) {
      stretch(first, first + kChunk < columns ? first + kChunk : columns);
    }
  }

  // A lane has two neighbouring columns of every 64.
  template <bool IsAligned, simt::Simt S>
  STRATA_INLINE static void together(const S& simt, const Job& job, JobSums& out) {
    const int lane = simt::team_lane(simt);
    const std::int64_t columns = job.inputs.columns;
    const float* x[kTokens];
    unroll<kTokens>([&](auto n) STRATA_LAMBDA { x[n] = job.inputs.values + job.rows.row(n) * columns + 2 * lane; });
    const std::byte* row[kRows];
    unroll<kRows>([&](auto r) STRATA_LAMBDA {
      const int there = static_cast<int>(r) < job.valid ? static_cast<int>(r) : job.valid - 1;
      row[r] = job.weights + (there * columns + 2 * lane) * static_cast<std::int64_t>(sizeof(Stored));
    });
    Several<float, 2> sums[kTokens][kRows] = {};
    const auto add = [&](int column, const Several<float, 2>(&w)[kRows]) STRATA_LAMBDA {
      unroll<kTokens>([&](auto n) STRATA_LAMBDA {
        const Several<float, 2> input = pair<IsAligned, float, field::F32>(x[n] + column);
        unroll<kRows>([&](auto r) STRATA_LAMBDA {
          for (int i = 0; i < 2; ++i) sums[n][r].v[i] += w[r].v[i] * input.v[i];
        });
      });
    };
    for_chunks(job, [&](int first, int last) STRATA_LAMBDA {
      constexpr int kRounds = kChunk / kSums;
      if (first + kChunk <= last) {
        Several<float, 2> w[kRounds][kRows];
        unroll<kRounds * kRows>([&](auto i) STRATA_LAMBDA {
          w[i / kRows][i % kRows] = weight_pair<IsAligned>(row[i % kRows], first + kSums * static_cast<int>(i / kRows));
        });
        unroll<kRounds>([&](auto round) STRATA_LAMBDA { add(first + kSums * static_cast<int>(round), w[round]); });
        return;
      }
      for (int column = first; column < last; column += kSums) {
        rest<IsAligned>(column, last - column - 2 * lane, row, x, sums);
      }
    });
    unroll<kTokens * kRows>([&](auto i) STRATA_LAMBDA {
      Several<float, 2> sum = sums[i / kRows][i % kRows];
      for (int distance = simt::kTeam / 2; distance > 0; distance /= 2) {
        for (float& value : sum.v) value += simt.shuffle_xor(value, distance);
      }
      if (lane == 0 && job.is_there) out[i / kRows][i % kRows] = sum.v[0] + sum.v[1];
    });
  }

  // Up to two columns of a lane, where a row ends.
  template <bool IsAligned>
  STRATA_INLINE static void rest(int column, int count, const std::byte* const (&row)[kRows],
                                 const float* const (&x)[kTokens], Several<float, 2> (&sums)[kTokens][kRows]) {
    for (int i = 0; i < 2; ++i) {
      if (i >= count) break;
      unroll<kTokens * kRows>([&](auto j) STRATA_LAMBDA {
        const float w = field::load<typename Format::Value>(row[j % kRows], static_cast<std::size_t>(column + i));
        sums[j / kRows][j % kRows].v[i] += w * x[j / kRows][column + i];
      });
    }
  }

  template <bool IsAligned, class Type, class Field>
  STRATA_INLINE static Several<float, 2> pair(const Type* at) {
    Several<Type, 2> two;
    if constexpr (IsAligned) {
      two = load_several<Type, 2>(at);
    } else {
      for (int i = 0; i < 2; ++i) two.v[i] = at[i];
    }
    return {Field::decode(two.v[0]), Field::decode(two.v[1])};
  }

  template <bool IsAligned>
  STRATA_INLINE static Several<float, 2> weight_pair(const std::byte* row, int column) {
    return pair<IsAligned, Stored, typename Format::Value>(reinterpret_cast<const Stored*>(row) + column);
  }

  [[gnu::noinline]] static void alone(const Job& job, JobSums& out) {
    const std::int64_t columns = job.inputs.columns;
    for (int r = 0; r < job.valid; ++r) {
      const std::byte* row = job.weights + r * columns * static_cast<std::int64_t>(sizeof(Stored));
      float sums[kTokens][kSums] = {};
      for_chunks(job, [&](int first, int last) {
        for (int column = first; column < last; column += kSums) {
          const int count = last - column < kSums ? last - column : kSums;
          float w[kSums];
          for (int i = 0; i < count; ++i) {
            w[i] = field::load<typename Format::Value>(row, static_cast<std::size_t>(column + i));
          }
          for (int n = 0; n < job.rows.count(); ++n) {
            const float* x = job.inputs.values + job.rows.row(n) * columns + column;
            for (int i = 0; i < count; ++i) sums[n][i] += w[i] * x[i];
          }
        }
      });
      for (int n = 0; n < job.rows.count(); ++n) {
        for (int half = kSums / 2; half > 0; half /= 2) {
          for (int i = 0; i < half; ++i) sums[n][i] += sums[n][i + half];
        }
        out[n][r] = sums[n][0];
      }
    }
  }
};

}  // namespace strata::device
