// Attention of a window over a layer's cache of 16-bit floats, by products of tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "strata/device/attend_block.hpp"
#include "strata/gen/launches.hpp"
#include "strata/inline.hpp"
#include "strata/simt/tile.hpp"

namespace strata::device {

// AttendTiles without what depends on the type and the heads' size.
struct AttendTilesCommon {
  using Launch = gen::AttendTilesLaunch;
  using Args = AttendArgs;

  static int blocks(const Args& args) { return AttendBlock<Launch>::count(args); }
};

// A block has one head of keys, one number of a span, and some of the queries that share the head: rows, numbered
// through the tokens and each one's queries. Keys and values pass through shared memory in stages; waves have a tile of
// 16 rows and a half of every stage each, and the halves are joined at the end. So a row's bits depend on nothing but
// its own query and positions: where it has none, its maximum stays, factors are exactly 1 and what is added is 0 (as
// long as values are numbers).
//
// One token often has rows of a single tile: the waves of a tile are neighbours, which run on different schedulers.
template <class Type, int Dim>
struct AttendTiles : AttendTilesCommon {
  static_assert(Dim % 16 == 0 && Dim <= Heads::kMostElements);
  static constexpr int kRows = Launch::kRowsPerBlock;
  static constexpr int kTiles = kRows / 16;
  static constexpr int kHalves = 2;
  static constexpr int kThreads = 32 * kTiles * kHalves;
  static_assert(Launch::threads(32) == kThreads);
  static constexpr int kStages = 3;
  static constexpr int kPositions = Dim <= 128 ? 64 : 32;  // of a stage
  static constexpr int kOwn = kPositions / kHalves;        // of a wave
  static_assert(Splits::kUnit % kPositions == 0);
  static constexpr int kRowBytes = Dim * 2;
  static constexpr int kChunks = Dim / 8;  // of 16 bytes

  // The halves' results lie in the stages at the end.
  struct Shared {
    alignas(128) std::byte stages[kStages][2][kPositions * kRowBytes];
  };
  static_assert(sizeof(float) * kRows * (Dim + 2) <= sizeof(Shared));

  static const char* refusal(const Args& args) { return tiles_refusal(args, Dim); }

  // The first stages' keys and values are on their way when the kernel begins. Those of the window itself are not yet
  // written, and are not asked for.
  template <simt::Simt S>
  STRATA_INLINE static void before_predecessor_ends(const S& simt, const Args& args) {
    const Block block(simt, args);
    const int end = block.first + (kStages - 1) * kPositions;
    const int filled = block.start < block.last ? block.start : block.last;
    const int bytes = ((end < filled ? end : filled) - block.first) * kRowBytes;
    for (int part = 0; part < 2; ++part) {
      const std::byte* from = block.template place<Dim>(part, block.first);
      for (int i = simt.thread() * 128; i < bytes; i += kThreads * 128) S::prefetch(from + i);
    }
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const Block block(simt, args);
    if (block.last <= block.first) return;
    const int stages = (block.last - block.first + kPositions - 1) / kPositions;
    for (int stage = 0; stage < kStages - 1; ++stage) fetch(simt, shared, block, stage, stages);
    Wave<S> wave(simt, block);  // queries come while the first stages do
    for (int stage = 0; stage < stages; ++stage) {
      simt::Tile<S>::template wait<kStages - 2>();
      simt.barrier();
      // Into the place of the stage that all waves have left behind.
      fetch(simt, shared, block, stage + kStages - 1, stages);
      if (wave.has_rows(block)) wave.add(simt, block, shared.stages[stage % kStages], block.first + stage * kPositions);
    }
    simt::Tile<S>::template wait<0>();
    simt.barrier();
    auto* memory = reinterpret_cast<float*>(shared.stages);
    if (wave.half == 1) wave.leave(simt, memory);
    simt.barrier();
    if (wave.half == 0 && wave.has_rows(block)) wave.join(simt, block, memory);
  }

 private:
  using Words = std::uint32_t[4];
  using Block = AttendBlock<Launch>;

  // Where a chunk of a row lies in a stage, so that the rows that are read together lie in different banks.
  STRATA_INLINE static int place(int row, int chunk) {
    constexpr int kRowsPerLine = kRowBytes < 128 ? 128 / kRowBytes : 1;
    constexpr int kMask = kChunks < 8 ? kChunks - 1 : 7;
    return row * kRowBytes + (chunk ^ (row / kRowsPerLine & kMask)) * 16;
  }

  // Begins to bring a stage's keys and values into shared memory; zeros behind the last position.
  template <simt::Simt S>
  STRATA_INLINE static void fetch(const S& simt, Shared& shared, const Block& block, int stage, int stages) {
    if (stage < stages) {
      constexpr int kRowsAtOnce = kThreads / kChunks;
      static_assert(kPositions % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);  // places repeat after 8 rows
      const int row = simt.thread() / kChunks;
      const int chunk = simt.thread() % kChunks;
      const int first = block.first + stage * kPositions + row;
      for (int part = 0; part < 2; ++part) {
        const std::byte* from = block.template place<Dim>(part, first) + chunk * 16;
        std::byte* to = shared.stages[stage % kStages][part] + place(row, chunk);
        unroll<kPositions / kRowsAtOnce>([&](auto n) STRATA_LAMBDA {
          constexpr int kFurther = n * kRowsAtOnce;
          const bool is_filled = first + kFurther < block.last;
          const std::byte* chunk_from = is_filled ? from + kFurther * kRowBytes : block.args.cache;
          simt::Tile<S>::copy(to + kFurther * kRowBytes, chunk_from, is_filled);
        });
      }
    }
    simt::Tile<S>::close_group();
  }

  // One wave's tile of rows. A lane has two rows of it: those of its places in a tile.
  template <simt::Simt S>
  struct Wave {
    static constexpr float kLog2e = 0x1.715476p+0f;
    static constexpr float kLn2 = 0x1.62e430p-1f;
    static constexpr float kNone = -std::numeric_limits<float>::infinity();

    int tile;
    int half;
    int from[2];  // positions of each row
    int before[2];
    Words query[Dim / 16];
    float out[Dim / 8][4];
    float maximum[2] = {kNone, kNone};  // of scores, in powers of 2
    float sum[2] = {0.0f, 0.0f};        // of this lane's own columns

    STRATA_INLINE bool has_rows(const Block& block) const { return tile * 16 < block.rows; }
    STRATA_INLINE static int row_of(const S& simt, int tile, int i) { return tile * 16 + simt.lane() / 4 + 8 * i; }

    STRATA_INLINE Wave(const S& simt, const Block& block)
        : tile(simt.thread() / 32 / kHalves), half(simt.thread() / 32 % kHalves) {
      unroll<Dim / 8>([&](auto n) STRATA_LAMBDA {
        for (int i = 0; i < 4; ++i) out[n][i] = 0.0f;
      });
      unroll<2>([&](auto i) STRATA_LAMBDA {
        const int row = row_of(simt, tile, i);
        from[i] = before[i] = 0;
        const bool is_there = row < block.rows;
        if (is_there) block.positions(row, from[i], before[i]);
        const float* at = block.args.queries + static_cast<std::int64_t>(is_there ? block.query(row) : 0) * Dim;
        unroll<Dim / 8>([&](auto n) STRATA_LAMBDA {
          const float* pair = at + n * 8 + simt.lane() % 4 * 2;
          const std::uint32_t word = simt::Tile<S>::template pack<Type>(pair[0], pair[1]);
          query[n / 2][i + n % 2 * 2] = is_there ? word : 0;
        });
      });
    }

    // The wave's half of a stage, whose first position is `first`.
    STRATA_INLINE void add(const S& simt, const Block& block, const std::byte (&stage)[2][kPositions * kRowBytes],
                           int first) {
      const int own = half * kOwn;
      float score[kOwn / 8][4];
      multiply_keys(simt, stage[0], own, score);
      // In powers of 2, and none at positions that a row does not have.
      const bool is_whole = first >= block.all_from && first + kPositions <= block.all_before;
      unroll<kOwn / 8>([&](auto n) STRATA_LAMBDA {
        unroll<4>([&](auto i) STRATA_LAMBDA {
          const int position = first + own + n * 8 + simt.lane() % 4 * 2 + i % 2;
          const bool has = is_whole || (position >= from[i / 2] && position < before[i / 2]);
          score[n][i] = has ? score[n][i] * kLog2e : kNone;
        });
      });
      soften(simt, score);
      Words weights[kOwn / 16];
      unroll<kOwn / 16>([&](auto k) STRATA_LAMBDA {
        unroll<4>([&](auto i) STRATA_LAMBDA {
          const float (&pair)[4] = score[2 * k + i / 2];
          weights[k][i] = simt::Tile<S>::template pack<Type>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
        });
      });
      add_values(simt, stage[1], own, weights);
    }

    STRATA_INLINE void multiply_keys(const S& simt, const std::byte* keys, int own, float (&score)[kOwn / 8][4]) {
      unroll<kOwn / 8>([&](auto n) STRATA_LAMBDA {
        for (int i = 0; i < 4; ++i) score[n][i] = 0.0f;
      });
      const int matrix = simt.lane() / 8;
      unroll<Dim / 16>([&](auto k) STRATA_LAMBDA {
        unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
          const int row = own + n * 16 + matrix / 2 * 8 + simt.lane() % 8;
          Words words;
          simt::Tile<S>::load(simt, keys + place(row, 2 * k + matrix % 2), words);
          const std::uint32_t low[2] = {words[0], words[1]};
          const std::uint32_t high[2] = {words[2], words[3]};
          simt::Tile<S>::template multiply_add<Type>(simt, score[2 * n], query[k], low);
          simt::Tile<S>::template multiply_add<Type>(simt, score[2 * n + 1], query[k], high);
        });
      });
    }

    // Scores become 2^(score - maximum), and what was found so far follows the maximum.
    STRATA_INLINE void soften(const S& simt, float (&score)[kOwn / 8][4]) {
      unroll<2>([&](auto row) STRATA_LAMBDA {
        float most = maximum[row];
        unroll<kOwn / 4>([&](auto i) STRATA_LAMBDA {
          const float value = score[i / 2][2 * row + i % 2];
          most = value > most ? value : most;
        });
        for (int mask = 1; mask < 4; mask *= 2) {
          const float other = simt.shuffle_xor(most, mask);
          most = other > most ? other : most;
        }
        const float base = most == kNone ? 0.0f : most;
        const float factor = simt::Tile<S>::exp2(maximum[row] - base);
        maximum[row] = most;
        float total = sum[row] * factor;
        unroll<kOwn / 4>([&](auto i) STRATA_LAMBDA {
          float& value = score[i / 2][2 * row + i % 2];
          value = simt::Tile<S>::exp2(value - base);
          total += value;
        });
        sum[row] = total;
        if (simt.ballot(factor != 1.0f) == 0) return;  // often: maxima soon stay
        unroll<Dim / 8>([&](auto n) STRATA_LAMBDA {
          out[n][2 * row] *= factor;
          out[n][2 * row + 1] *= factor;
        });
      });
    }

    STRATA_INLINE void add_values(const S& simt, const std::byte* values, int own, const Words (&weights)[kOwn / 16]) {
      const int matrix = simt.lane() / 8;
      unroll<kOwn / 16>([&](auto k) STRATA_LAMBDA {
        unroll<Dim / 16>([&](auto n) STRATA_LAMBDA {
          const int row = own + k * 16 + matrix % 2 * 8 + simt.lane() % 8;
          Words words;
          simt::Tile<S>::load_transposed(simt, values + place(row, 2 * n + matrix / 2), words);
          const std::uint32_t low[2] = {words[0], words[1]};
          const std::uint32_t high[2] = {words[2], words[3]};
          simt::Tile<S>::template multiply_add<Type>(simt, out[2 * n], weights[k], low);
          simt::Tile<S>::template multiply_add<Type>(simt, out[2 * n + 1], weights[k], high);
        });
      });
    }

    // Sums of whole rows.
    STRATA_INLINE void total(const S& simt) {
      for (int mask = 1; mask < 4; mask *= 2) {
        sum[0] += simt.shuffle_xor(sum[0], mask);
        sum[1] += simt.shuffle_xor(sum[1], mask);
      }
    }

    // Rows of results, then maxima, then sums.
    STRATA_INLINE void leave(const S& simt, float* memory) {
      total(simt);
      unroll<2>([&](auto i) STRATA_LAMBDA {
        const int row = row_of(simt, tile, i);
        unroll<Dim / 8>([&](auto n) STRATA_LAMBDA {
          float* to = memory + row * Dim + n * 8 + simt.lane() % 4 * 2;
          to[0] = out[n][2 * i];
          to[1] = out[n][2 * i + 1];
        });
        memory[kRows * Dim + row] = maximum[i];
        memory[kRows * (Dim + 1) + row] = sum[i];
      });
    }

    STRATA_INLINE void join(const S& simt, const Block& block, const float* memory) {
      total(simt);
      const Partials partials = Partials::at(block.args.partials, block.args.shape);
      unroll<2>([&](auto i) STRATA_LAMBDA {
        const int row = row_of(simt, tile, i);
        if (row >= block.rows || before[i] <= from[i]) return;
        const float other = memory[kRows * Dim + row];
        const float most = other > maximum[i] ? other : maximum[i];
        const float base = most == kNone ? 0.0f : most;
        const float own_factor = simt::Tile<S>::exp2(maximum[i] - base);
        const float factor = simt::Tile<S>::exp2(other - base);
        const std::int64_t at = partials.index(block.query(row), block.span);
        unroll<Dim / 8>([&](auto n) STRATA_LAMBDA {
          const int column = n * 8 + simt.lane() % 4 * 2;
          float* to = partials.out + at * Dim + column;
          const float* from_other = memory + row * Dim + column;
          to[0] = out[n][2 * i] * own_factor + from_other[0] * factor;
          to[1] = out[n][2 * i + 1] * own_factor + from_other[1] * factor;
        });
        if (simt.lane() % 4 != 0) return;
        partials.maxima[at] = most * kLn2;
        partials.sums[at] = sum[i] * own_factor + memory[kRows * (Dim + 1) + row] * factor;
      });
    }
  };
};

}  // namespace strata::device
