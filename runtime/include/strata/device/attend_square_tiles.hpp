// Attention of a window over a layer's cache of 16-bit floats, by products of square tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "strata/device/attend_block.hpp"
#include "strata/gen/launches.hpp"
#include "strata/inline.hpp"
#include "strata/simt/square_tile.hpp"

namespace strata::device {

// AttendSquareTiles without what depends on the type, the heads' size and the instruction.
struct AttendSquareTilesCommon {
  using Launch = gen::AttendSquareTilesLaunch;
  using Args = AttendArgs;

  static int blocks(const Args& args) { return AttendBlock<Launch>::count(args); }
};

// Products are transposed: their columns are queries, and so a lane has one query, its maximum and its sum. The scores
// that it has of it are in the places of weights, as B of the second product. Values are transposed on their way to
// shared memory, and the next stage's are on their way to registers meanwhile.
//
// Waves have a tile of 16 rows (queries) each, and where there are two for a tile a half of every stage, which are
// joined at the end. A row's bits depend on nothing but its own query and positions, as in AttendTiles.
template <class Type, int Dim, class Lanes>
struct AttendSquareTiles : AttendSquareTilesCommon {
  static_assert(Dim % 32 == 0 && Dim <= Heads::kMostElements);
  static constexpr int kWave = Lanes::kWave;
  static constexpr int kRows = Launch::kRowsPerBlock;
  static constexpr int kTiles = kRows / 16;
  static constexpr int kThreads = Launch::threads(kWave);
  static constexpr int kParts = kThreads / kWave / kTiles;  // of a stage
  static_assert(kParts == 1 || kParts == 2);
  static constexpr int kPositions = 64;             // of a stage
  static constexpr int kOwn = kPositions / kParts;  // of a wave
  static_assert(Splits::kUnit % kPositions == 0);
  static constexpr int kChunks = Dim / 8;  // of 16 bytes
  // One chunk more than is needed, so that rows begin in different banks; and of values one more for each 8 rows, as a
  // wave writes the same row of many eights at a time.
  static constexpr int kKeyBytes = Dim * 2 + 16;
  static constexpr int kValueBytes = kPositions * 2 + 16;
  static constexpr int kJoinRow = Dim + 1;  // floats

  // The second halves' results lie here at the end.
  struct Shared {
    alignas(128) std::byte keys[kPositions * kKeyBytes];  // a row for each position
    std::byte values[Dim * kValueBytes + Dim / 8 * 16];   // a row for each element
  };
  static_assert(sizeof(float) * kRows * (kJoinRow + 2) <= sizeof(Shared));

  static const char* refusal(const Args& args) { return tiles_refusal(args, Dim); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const Block block(simt, args);
    if (block.last <= block.first) return;
    Wave<S> wave(simt, block);
    // A condition that the compiler knows to be the wave's: matrix instructions take no mask of lanes.
    const bool has_rows = simt.ballot(wave.tile * 16 < block.rows) != 0;
    Staged staged;
    staged.load(simt, block, block.first);
    for (int first = block.first; first < block.last; first += kPositions) {
      simt.barrier();  // all waves have left the stage before behind
      staged.store(simt, shared);
      simt.barrier();
      if (first + kPositions < block.last) staged.load(simt, block, first + kPositions);
      if (has_rows) wave.add(simt, shared, first);
    }
    auto* memory = reinterpret_cast<float*>(&shared);
    if constexpr (kParts == 2) {
      simt.barrier();
      if (wave.part == 1) wave.leave(simt, memory);
      simt.barrier();
    }
    if (wave.part == 0 && has_rows) wave.give(simt, block, memory);
  }

 private:
  using Block = AttendBlock<Launch>;
  using Operand = simt::SquareOperand<Lanes>;
  using Sums = simt::SquareSums<Lanes>;

  struct Chunk {
    std::uint32_t words[4];
  };

  // Where a chunk of a row lies: a linear function, so that all but one place of a lane are constants.
  STRATA_INLINE static int key_place(int position, int chunk) { return position * kKeyBytes + chunk * 16; }
  STRATA_INLINE static int value_place(int element, int chunk) {
    return element * kValueBytes + element / 8 * 16 + chunk * 16;
  }

  // What a thread brings of a stage: the same chunk of every kRowsAtOnce-th position of keys, and of pairs of positions
  // of values.
  struct Staged {
    static_assert(kThreads % kChunks == 0);
    static constexpr int kRowsAtOnce = kThreads / kChunks;
    static constexpr int kPairs = kPositions / 2;
    static constexpr int kPairsAtOnce = kRowsAtOnce < kPairs ? kRowsAtOnce : kPairs;
    Chunk keys[kPositions / kRowsAtOnce];
    Chunk values[kPairs / kPairsAtOnce][2];

    // Behind the last position it is there again: its scores are none, and its weights 0.
    template <simt::Simt S>
    STRATA_INLINE void load(const S& simt, const Block& block, int first) {
      const int row = simt.thread() / kChunks;
      unroll<sizeof keys / sizeof *keys>([&](auto n) STRATA_LAMBDA {
        load(simt, block, 0, first + row + static_cast<int>(n) * kRowsAtOnce, keys[n]);
      });
      if (kPairsAtOnce < kRowsAtOnce && row >= kPairsAtOnce) return;
      unroll<sizeof values / sizeof *values>([&](auto n) STRATA_LAMBDA {
        const int position = first + 2 * (row + static_cast<int>(n) * kPairsAtOnce);
        load(simt, block, 1, position, values[n][0]);
        load(simt, block, 1, position + 1, values[n][1]);
      });
    }

    template <simt::Simt S>
    STRATA_INLINE void store(const S& simt, Shared& shared) const {
      const int row = simt.thread() / kChunks;
      const int chunk = simt.thread() % kChunks;
      std::byte* own_keys = shared.keys + key_place(row, chunk);
      unroll<sizeof keys / sizeof *keys>([&](auto n) STRATA_LAMBDA {
        std::byte* to = own_keys + key_place(n * kRowsAtOnce, 0);
        to = static_cast<std::byte*>(__builtin_assume_aligned(to, sizeof(Chunk)));
        unroll<4>([&](auto i) STRATA_LAMBDA { __builtin_memcpy(to + 4 * i, &keys[n].words[i], 4); });
      });
      if (kPairsAtOnce < kRowsAtOnce && row >= kPairsAtOnce) return;
      std::byte* own_values = shared.values + value_place(chunk * 8, 0) + row * 4;
      unroll<sizeof values / sizeof *values>([&](auto n) STRATA_LAMBDA {
        unroll<8>([&](auto j) STRATA_LAMBDA {
          const std::uint32_t even = values[n][0].words[j / 2];
          const std::uint32_t odd = values[n][1].words[j / 2];
          const std::uint32_t word = j % 2 == 0 ? (even & 0xffffu) | odd << 16 : even >> 16 | (odd & 0xffff0000u);
          std::byte* to = own_values + j * kValueBytes + n * kPairsAtOnce * 4;
          __builtin_memcpy(__builtin_assume_aligned(to, sizeof word), &word, sizeof word);
        });
      });
    }

   private:
    template <simt::Simt S>
    STRATA_INLINE static void load(const S& simt, const Block& block, int part, int position, Chunk& chunk) {
      const int there = position < block.last ? position : block.last - 1;
      const std::byte* from = block.template place<Dim>(part, there) + simt.thread() % kChunks * sizeof chunk;
      from = static_cast<const std::byte*>(__builtin_assume_aligned(from, sizeof chunk));
      // By words, or else the compiler leaves them in memory.
      unroll<4>([&](auto i) STRATA_LAMBDA { __builtin_memcpy(&chunk.words[i], from + 4 * i, 4); });
    }
  };

  // A lane's values of a row of 16.
  STRATA_INLINE static void load(const std::byte* from, Operand& words) {
    constexpr std::size_t kAlignment = sizeof words < 16 ? sizeof words : 16;
    __builtin_memcpy(words, __builtin_assume_aligned(from, kAlignment), sizeof words);
  }

  // A wave's tile of rows, as a lane has it.
  template <simt::Simt S>
  struct Wave {
    static_assert(S::kWave == kWave);
    using Tile = simt::SquareTile<S, Lanes>;
    static constexpr float kLog2e = 0x1.715476p+0f;
    static constexpr float kLn2 = 0x1.62e430p-1f;
    static constexpr float kNone = -std::numeric_limits<float>::infinity();

    int tile;
    int part;
    int row;       // the lane's own
    int from = 0;  // the first of its positions
    int count = 0;
    Operand query[Dim / 16];
    Sums out[Dim / 16];
    float maximum = kNone;  // of scores, in powers of 2
    float sum = 0.0f;       // of the positions that this lane has

    STRATA_INLINE Wave(const S& simt, const Block& block)
        : tile(simt.thread() / kWave % kTiles),
          part(simt.thread() / kWave / kTiles),
          row(tile * 16 + simt.lane() % 16) {
      const bool is_there = row < block.rows;
      if (is_there) {
        int before = 0;
        block.positions(row, from, before);
        count = before > from ? before - from : 0;
      }
      const float* at = block.args.queries + static_cast<std::int64_t>(is_there ? block.query(row) : 0) * Dim +
                        Lanes::first(simt.lane());
      unroll<Dim / 16>([&](auto d) STRATA_LAMBDA {
        unroll<Lanes::kElements / 2>([&](auto i) STRATA_LAMBDA {
          const std::uint32_t word = Tile::template pack<Type>(at[16 * d + 2 * i], at[16 * d + 2 * i + 1]);
          query[d][i] = is_there ? word : 0;
        });
        unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA { out[d][i] = 0.0f; });
      });
    }

    // The wave's part of a stage, whose first position is `first`.
    STRATA_INLINE void add(const S& simt, const Shared& shared, int first) {
      const int own = part * kOwn;
      const int row = simt.lane() % 16;  // of an operand
      const std::byte* own_keys = shared.keys + key_place(own + row, 0) + Lanes::first(simt.lane()) * 2;
      const std::byte* own_values = shared.values + value_place(row, own / 8) + Lanes::first(simt.lane()) * 2;
      Sums score[kOwn / 16];
      unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
        unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA { score[n][i] = 0.0f; });
        unroll<Dim / 16>([&](auto d) STRATA_LAMBDA {
          Operand keys;
          load(own_keys + key_place(16 * n, 2 * d), keys);
          Tile::template multiply_add<Type>(simt, score[n], keys, query[d]);
        });
      });
      // In powers of 2, and none at positions that the row does not have.
      unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
        unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA {
          const int position = first + own + static_cast<int>(n) * 16 + Lanes::row(simt.lane(), i);
          const bool has = static_cast<unsigned>(position - from) < static_cast<unsigned>(count);
          score[n][i] = has ? score[n][i] * kLog2e : kNone;
        });
      });
      soften(simt, score);
      unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
        Operand weights;
        simt::to_operand<Type, Lanes>(simt, score[n], weights);
        unroll<Dim / 16>([&](auto d) STRATA_LAMBDA {
          Operand values;
          load(own_values + value_place(16 * d, 2 * n), values);
          Tile::template multiply_add<Type>(simt, out[d], values, weights);
        });
      });
    }

    // What the lanes of a row have together.
    template <class Join>
    STRATA_INLINE static float over_row(const S& simt, float value, const Join& join) {
      for (int mask = 16; mask < kWave; mask *= 2) value = join(value, simt.shuffle_xor(value, mask));
      return value;
    }

    // Scores become 2^(score - maximum), and what was found so far follows the maximum.
    STRATA_INLINE void soften(const S& simt, Sums (&score)[kOwn / 16]) {
      float most = maximum;
      unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
        unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA { most = score[n][i] > most ? score[n][i] : most; });
      });
      most = over_row(simt, most, [](float a, float b) STRATA_LAMBDA { return b > a ? b : a; });
      const float base = most == kNone ? 0.0f : most;
      const float factor = Tile::exp2(maximum - base);
      maximum = most;
      sum *= factor;
      unroll<kOwn / 16>([&](auto n) STRATA_LAMBDA {
        unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA {
          score[n][i] = Tile::exp2(score[n][i] - base);
          sum += score[n][i];
        });
      });
      if (simt.ballot(factor != 1.0f) == 0) return;  // often: maxima soon stay
      unroll<Dim / 16>([&](auto d)
                           STRATA_LAMBDA { unroll<Lanes::kSums>([&](auto i) STRATA_LAMBDA { out[d][i] *= factor; }); });
    }

    // Calls body(element, value) with what the lane has of its row's result.
    template <class Body>
    STRATA_INLINE void each(const S& simt, const Body& body) const {
      unroll<Dim / 16>([&](auto d) STRATA_LAMBDA {
        unroll<Lanes::kSums>(
            [&](auto i) STRATA_LAMBDA { body(static_cast<int>(d) * 16 + Lanes::row(simt.lane(), i), out[d][i]); });
      });
    }

    STRATA_INLINE float total(const S& simt) const {
      return over_row(simt, sum, [](float a, float b) STRATA_LAMBDA { return a + b; });
    }

    // Rows of results, then maxima, then sums.
    STRATA_INLINE void leave(const S& simt, float* memory) const {
      const float all = total(simt);
      each(simt, [&](int element, float value) STRATA_LAMBDA { memory[row * kJoinRow + element] = value; });
      if (simt.lane() >= 16) return;
      memory[kRows * kJoinRow + row] = maximum;
      memory[kRows * (kJoinRow + 1) + row] = all;
    }

    // With what the other wave of the tile left.
    STRATA_INLINE void give(const S& simt, const Block& block, const float* memory) const {
      float all = total(simt);
      if (row >= block.rows) return;
      const Partials partials = Partials::at(block.args.partials, block.args.shape);
      const std::int64_t at = partials.index(block.query(row), block.span);
      float* to = partials.out + at * Dim;
      float most = maximum;
      if constexpr (kParts == 1) {
        each(simt, [&](int element, float value) STRATA_LAMBDA { to[element] = value; });
      } else {
        const float other = memory[kRows * kJoinRow + row];
        most = other > maximum ? other : maximum;
        const float base = most == kNone ? 0.0f : most;
        const float own_factor = Tile::exp2(maximum - base);
        const float factor = Tile::exp2(other - base);
        each(simt, [&](int element, float value)
                       STRATA_LAMBDA { to[element] = value * own_factor + memory[row * kJoinRow + element] * factor; });
        all = all * own_factor + memory[kRows * (kJoinRow + 1) + row] * factor;
      }
      if (simt.lane() >= 16) return;
      partials.maxima[at] = most * kLn2;
      partials.sums[at] = all;
    }
  };
};

}  // namespace strata::device
