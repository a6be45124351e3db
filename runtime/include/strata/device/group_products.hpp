// Products of groups of 16 quantised weight rows with the inputs of a few tokens.
//
// A sum of a slice goes through its steps of 32 columns in order, each with exact integer sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/group_layout.hpp"
#include "strata/device/quantized_rows.hpp"
#include "strata/device/slices.hpp"
#include "strata/simt/team.hpp"

namespace strata::device {

template <class Format>
struct GroupProducts {
  using Of = GroupLayout<Format>;
  using Inputs = QuantizedRows;

  static constexpr int kRows = kGroupRows;
  static constexpr int kTokens = 8;  // that weights are decoded for at a time
  using JobSums = float[kTokens][kRows];

  static constexpr int kBlocks = kChunk / Of::kBlock;  // of a chunk
  static constexpr int kSteps = Of::kSteps;            // of a block
  static constexpr int kAtOnce = kBlocks < 4 ? kBlocks : 4;

  struct Job {
    const std::byte* weights;  // of the group
    QuantizedRows inputs;
    PassRows rows;
    int slice;
    int slices;
    int valid;      // rows that there are of the group
    bool is_there;  // nothing is made of a job that is not
  };

  STRATA_INLINE static std::int64_t bytes(int columns) {
    return static_cast<std::int64_t>(columns / Of::kBlock) * Of::kBytes;
  }

  // One slice, by one team.
  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, const Job& job, JobSums& sums) {
    if (!job.is_there) return;
    if constexpr (S::kWave == 1) {
      Alone<S>{job}.run(sums);
    } else if constexpr (S::kHasTiles) {
      if (job.rows.count() <= kTokens / 2) {
        Tiles<S, 1>(simt, job).run(sums);
      } else {
        Tiles<S, 2>(simt, job).run(sums);
      }
    } else if (job.rows.count() <= 2) {
      Lanes<S, 1>(simt, job).run(sums);
    } else {
      Lanes<S, kTokens / 2>(simt, job).run(sums);
    }
  }

  // Fetches a chunk ahead: a line of memory for every lane of a team.
  template <simt::Simt S>
  STRATA_INLINE static void prefetch(const S& simt, const std::byte* group, int columns, int chunk) {
    constexpr int kLine = 128;
    constexpr int kBytes = kBlocks * Of::kBytes;
    const std::byte* first = group + static_cast<std::int64_t>(chunk) * kBytes;
    const std::int64_t rest = group + bytes(columns) - first;
    unroll<(kBytes + kLine * simt::kTeam - 1) / (kLine * simt::kTeam)>([&](auto i) STRATA_LAMBDA {
      const int at = kLine * (simt::kTeam * static_cast<int>(i) + simt::team_lane(simt));
      if (at < kBytes && at < rest) S::prefetch(first + at);
    });
  }

 private:
  // Calls block(its number) for the blocks of a slice, and ahead(chunk) before a chunk with the next one. Whole chunks
  // are done `AtOnce` blocks at a time.
  template <int AtOnce, class Ahead, class Block>
  STRATA_INLINE static void for_blocks(const Job& job, const Ahead& ahead, const Block& block) {
    const int columns = static_cast<int>(job.inputs.columns);
    const int blocks = columns / Of::kBlock;
    for (int chunk = job.slice; chunk < chunks_of(columns); chunk += job.slices) {
      if (chunk + job.slices < chunks_of(columns)) ahead(chunk + job.slices);
      const int first = chunk * kBlocks;
      const int last = first + kBlocks < blocks ? first + kBlocks : blocks;
      int b = first;
      for (; b + AtOnce <= last; b += AtOnce) {
        unroll<AtOnce>([&](auto i) STRATA_LAMBDA { block(b + static_cast<int>(i)); });
      }
      if constexpr (AtOnce > 1) {
        for (; b < last; ++b) block(b);
      }
    }
  }

  // Where the scales and totals of a lane's tokens begin: numbers, which take half the registers of addresses.
  template <int Own>
  using OwnPlaces = std::int32_t[Own];

  STRATA_INLINE static std::int32_t place_of(const Job& job, int token) {
    return job.rows.row(token) * static_cast<std::int32_t>(job.inputs.columns / QuantizedRows::kBlock);
  }

  // Scales and totals of `Count` steps of a lane's tokens, `place` from where they begin.
  template <int Own, int Count>
  struct StepInputs {
    float scale[Count][Own];
    float total[Count][Own];

    STRATA_INLINE static StepInputs load(const QuantizedRows& inputs, const OwnPlaces<Own>& own, int place) {
      StepInputs found{};
      constexpr int kTogether = Count < 4 ? Count : 4;  // blocks of 256 columns leave them aligned
      unroll<Own * Count / kTogether>([&](auto i) STRATA_LAMBDA {
        constexpr int kOwn = static_cast<int>(decltype(i)::value) % Own;
        constexpr int kFirst = static_cast<int>(decltype(i)::value) / Own * kTogether;
        const std::int64_t at = own[kOwn] + place + kFirst;
        const auto scales = load_several<float, kTogether>(inputs.scales + at);
        for (int j = 0; j < kTogether; ++j) found.scale[kFirst + j][kOwn] = scales.v[j];
        if constexpr (Of::kHasMinimum) {
          const auto totals = load_several<float, kTogether>(inputs.totals + at);
          for (int j = 0; j < kTogether; ++j) found.total[kFirst + j][kOwn] = totals.v[j];
        }
      });
      return found;
    }
  };

  // On matrix units: a lane has two rows of every column of a tile, of which there are `Own` for it.
  template <simt::Simt S, int Own>
  struct Tiles {
    static constexpr int kLaneRows = 2;
    // Sums that start from these bits are floats, this much too large: GPUs add faster than they convert.
    static constexpr float kMagic = 0x1.8p23f;
    static constexpr std::int32_t kMagicBits = 0x4b400000;
    using Words = RowWords<S, kLaneRows>;
    using Factors = StepFactors<Format, kLaneRows>;

    const S& simt;
    const Job& job;
    int row;   // the first of the two
    int four;  // columns of a step: 4 four and 16 + 4 four on
    const std::int8_t* values;
    OwnPlaces<Own> places;
    RowSum<Format, kLaneRows> sums[Own][kLaneRows] = {};

    STRATA_INLINE Tiles(const S& s, const Job& j) : simt(s), job(j) {
      const int lane = simt::team_lane(simt);
      row = kLaneRows * (lane / 4);
      four = lane % 4;
      // With one own token, every second column of a tile has one.
      const int token = Own == 2 ? lane / 4 : lane / 8;
      values = job.inputs.values + job.rows.row(token) * job.inputs.columns + 4 * four;
      unroll<Own>([&](auto own) STRATA_LAMBDA { places[own] = place_of(job, Own * four + static_cast<int>(own)); });
    }

    STRATA_INLINE void run(JobSums& out) {
      const int columns = static_cast<int>(job.inputs.columns);
      const auto ahead = [&](int chunk) STRATA_LAMBDA { prefetch(simt, job.weights, columns, chunk); };
      for_blocks<kAtOnce>(job, ahead, [&](int number) STRATA_LAMBDA { block(number); });
      unroll<Own>([&](auto own) STRATA_LAMBDA {
        const int token = Own * four + static_cast<int>(own);
        if (token >= job.rows.count()) return;
        for (int r = 0; r < kLaneRows; ++r) out[token][row + r] = sums[own][r].total;
      });
    }

    // All weights are loaded before any is used, so a team has a whole block on its way; inputs, which are near, as far
    // as there are registers for them.
    STRATA_INLINE void block(int number) {
      constexpr int kTogether = Own == 2 && kSteps > 2 ? 2 : kSteps;
      const std::byte* at = job.weights + static_cast<std::int64_t>(number) * Of::kBytes;
      std::uint32_t a[kSteps][4];
      unroll<kSteps>([&](auto step) STRATA_LAMBDA {
        constexpr int kStep = static_cast<int>(decltype(step)::value);
        const auto first = Of::template words<Words, kStep, 0>(at, row, four);
        const auto second = Of::template words<Words, kStep, 1>(at, row, four);
        for (int i = 0; i < 2; ++i) a[step][i] = first.v[i];
        for (int i = 0; i < 2; ++i) a[step][2 + i] = second.v[i];
      });
      const auto stored = Factors::Stored::load(at, row);
      unroll<kSteps / kTogether>([&](auto turn) STRATA_LAMBDA {
        constexpr int kFirst = kTogether * static_cast<int>(decltype(turn)::value);
        const int place = number * kSteps + kFirst;
        std::uint32_t b[kTogether][2];
        unroll<kTogether>([&](auto step) STRATA_LAMBDA {
          const std::int8_t* x = values + 32 * (place + static_cast<int>(step));
          for (int half = 0; half < 2; ++half) b[step][half] = load_several<std::uint32_t, 1>(x + 16 * half).v[0];
        });
        const auto of_inputs = StepInputs<Own, kTogether>::load(job.inputs, places, place);
        unroll<kTogether>([&](auto step) STRATA_LAMBDA {
          constexpr int kStep = static_cast<int>(decltype(step)::value);
          add_step<kFirst + kStep>(a[kFirst + kStep], b[kStep], stored, of_inputs.scale[kStep], of_inputs.total[kStep]);
        });
      });
      unroll<Own * kLaneRows>([&](auto i) STRATA_LAMBDA {
        constexpr int kRow = static_cast<int>(decltype(i)::value) % kLaneRows;
        sums[i / kLaneRows][kRow].end_block(stored, kRow);
      });
    }

    template <int Step>
    STRATA_INLINE void add_step(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                const typename Factors::Stored& stored, const float (&scale)[Own],
                                const float (&total)[Own]) {
      std::int32_t products[Of::kParts][4];
      for (auto& part : products) {
        for (std::int32_t& product : part) product = kMagicBits;
      }
      if constexpr (Of::kParts == 1) {
        simt.multiply_tile(a, b, products[0]);
      } else {
        simt.multiply_tile(a, {b[0], 0u}, products[0]);
        simt.multiply_tile(a, {0u, b[1]}, products[1]);
      }
      const auto factors = Factors::template of<Step>(stored);
      unroll<Own * kLaneRows>([&](auto i) STRATA_LAMBDA {
        constexpr int kOwn = static_cast<int>(decltype(i)::value) / kLaneRows;
        constexpr int kRow = static_cast<int>(decltype(i)::value) % kLaneRows;
        float of_row[Of::kParts];
        for (int part = 0; part < Of::kParts; ++part) {
          of_row[part] = bit_cast<float>(products[part][2 * kRow + kOwn]) - kMagic;
        }
        sums[kOwn][kRow].add(factors, kRow, of_row, scale[kOwn], total[kOwn]);
      });
    }
  };

  // On dot instructions: a lane has one row, and every second token.
  template <simt::Simt S, int Own>
  struct Lanes {
    using Words = RowWords<S, 1>;
    using Factors = StepFactors<Format, 1>;

    const Job& job;
    int row;
    int half;
    const std::int8_t* values[Own];
    OwnPlaces<Own> places;
    RowSum<Format, 1> sums[Own] = {};

    STRATA_INLINE Lanes(const S& simt, const Job& j) : job(j) {
      row = simt::team_lane(simt) % kGroupRows;
      half = simt::team_lane(simt) / kGroupRows;
      unroll<Own>([&](auto own) STRATA_LAMBDA {
        values[own] = job.inputs.values + job.rows.row(token(own)) * job.inputs.columns;
        places[own] = place_of(job, token(own));
      });
    }

    STRATA_INLINE int token(std::size_t own) const { return 2 * static_cast<int>(own) + half; }

    STRATA_INLINE void run(JobSums& out) {
      for_blocks<kAtOnce>(job, [](int) {}, [&](int number) STRATA_LAMBDA { block(number); });
      unroll<Own>([&](auto own) STRATA_LAMBDA {
        if (token(own) < job.rows.count()) out[token(own)][row] = sums[own].total;
      });
    }

    STRATA_INLINE void block(int number) {
      const std::byte* at = job.weights + static_cast<std::int64_t>(number) * Of::kBytes;
      const auto stored = Factors::Stored::load(at, row);
      const auto of_inputs = StepInputs<Own, kSteps>::load(job.inputs, places, number * kSteps);
      unroll<kSteps>([&](auto step) STRATA_LAMBDA {
        constexpr int kStep = static_cast<int>(decltype(step)::value);
        std::uint32_t words[2][4];
        unroll<4>([&](auto four) STRATA_LAMBDA {
          words[0][four] = Of::template words<Words, kStep, 0>(at, row, four).v[0];
          words[1][four] = Of::template words<Words, kStep, 1>(at, row, four).v[0];
        });
        const auto factors = Factors::template of<kStep>(stored);
        unroll<Own>([&](auto own) STRATA_LAMBDA {
          const std::int8_t* x = values[own] + 32 * (number * kSteps + kStep);
          const auto first = load_several<std::uint32_t, 4>(x);
          const auto second = load_several<std::uint32_t, 4>(x + 16);
          std::int32_t products[Of::kParts] = {};
          unroll<4>([&](auto four) STRATA_LAMBDA {
            products[0] = S::dot4(words[0][four], first.v[four], products[0]);
            products[Of::kParts - 1] = S::dot4(words[1][four], second.v[four], products[Of::kParts - 1]);
          });
          float of_row[Of::kParts];
          for (int part = 0; part < Of::kParts; ++part) of_row[part] = static_cast<float>(products[part]);
          sums[own].add(factors, 0, of_row, of_inputs.scale[step][own], of_inputs.total[step][own]);
        });
      });
      unroll<Own>([&](auto own) STRATA_LAMBDA { sums[own].end_block(stored, 0); });
    }
  };

  // On a CPU: the one thread has all rows and all tokens. Its code is there once for all kernels.
  template <simt::Simt S>
  struct Alone {
    using Words = RowWords<S, kGroupRows>;
    using Factors = StepFactors<Format, kGroupRows>;

    const Job& job;
    RowSum<Format, kGroupRows> sums[kTokens][kGroupRows] = {};

    [[gnu::noinline]] void run(JobSums& out) {
      for_blocks<1>(
          job, [](int) {},
          [&](int number) {
            const std::byte* at = job.weights + static_cast<std::int64_t>(number) * Of::kBytes;
            const auto stored = Factors::Stored::load(at, 0);
            unroll<kSteps>([&](auto step) { one_step<static_cast<int>(decltype(step)::value)>(number, at, stored); });
            for (int n = 0; n < job.rows.count(); ++n) {
              for (int r = 0; r < kGroupRows; ++r) sums[n][r].end_block(stored, r);
            }
          });
      for (int n = 0; n < job.rows.count(); ++n) {
        for (int r = 0; r < kGroupRows; ++r) out[n][r] = sums[n][r].total;
      }
    }

    template <int Step>
    void one_step(int number, const std::byte* at, const typename Factors::Stored& stored) {
      const std::int64_t place = static_cast<std::int64_t>(number) * kSteps + Step;
      typename Words::Bytes words[2][4];
      for (std::size_t four = 0; four < 4; ++four) {
        words[0][four] = Of::template words<Words, Step, 0>(at, 0, static_cast<int>(four));
        words[1][four] = Of::template words<Words, Step, 1>(at, 0, static_cast<int>(four));
      }
      const auto factors = Factors::template of<Step>(stored);
      for (int n = 0; n < job.rows.count(); ++n) {
        const std::int64_t row = job.rows.row(n);
        const std::int64_t block = row * (job.inputs.columns / QuantizedRows::kBlock) + place;
        const auto x = load_several<std::uint32_t, 8>(job.inputs.values + row * job.inputs.columns + 32 * place);
        const float scale = job.inputs.scales[block];
        const float total = job.inputs.totals[block];
        for (int r = 0; r < kGroupRows; ++r) {
          std::int32_t products[Of::kParts] = {};
          for (int i = 0; i < 8; ++i) {
            std::int32_t& sum = products[i / 4 * (Of::kParts - 1)];
            sum = S::dot4(words[i / 4][i % 4].v[r], x.v[i], sum);
          }
          float of_row[Of::kParts];
          for (int part = 0; part < Of::kParts; ++part) of_row[part] = static_cast<float>(products[part]);
          sums[n][r].add(factors, r, of_row, scale, total);
        }
      }
    }
  };
};

}  // namespace strata::device
