// Attention of a window over a layer's cache: what each query finds in each span of positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "strata/device/attention.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Plain code: every number is made by one thread, in an order that depends on its own query alone.
//
// A block has one head of keys, one number of a span, and some of the queries that share the head.
struct AttendWindow {
  using Launch = gen::AttendWindowLaunch;
  using Args = AttendArgs;

  static const char* refusal(const Args& args) { return args.refusal(); }

  static int blocks(const Args& args) {
    const Heads& shape = args.shape;
    return Launch::blocks(shape.kv_heads, Splits::of(shape.kv_heads).room(shape.capacity),
                          shape.tokens * shape.group());
  }

  static constexpr int kRows = Launch::kRowsPerBlock;
  static constexpr int kTileElements = 32 * (128 + 1);

  // Positions [first, last).
  struct Range {
    int first;
    int last;

    STRATA_INLINE bool meets(const Range& other) const { return first < other.last && other.first < last; }
  };

  struct Shared {
    float tile[kTileElements];  // some keys or values, each row one element longer than it is, for different banks
    float queries[kRows * (Heads::kMostElements + 1)];
    float out[kRows * Heads::kMostElements];
    float weights[kRows][32];
    float factor[kRows];
    float maximum[kRows];
    float sum[kRows];
    Range ranges[kRows];  // of each row's positions in this span
    int numbers[kRows];   // of each row among all queries
  };

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const Heads& shape = args.shape;
    const int all_rows = shape.tokens * shape.group();
    const int chunks = Launch::blocks(1, 1, all_rows);
    const Splits splits = Splits::of(shape.kv_heads);
    const int spans = splits.room(shape.capacity);
    const int first_row = simt.block() % chunks * kRows;
    const int rows = all_rows - first_row < kRows ? all_rows - first_row : kRows;
    const Block block{args, simt.block() / chunks / spans, simt.block() / chunks % spans, rows};
    start(simt, shared, block, first_row);
    simt.barrier();
    Range all{shape.capacity, 0};
    for (int row = 0; row < rows; ++row) {
      const Range& own = shared.ranges[row];
      if (own.last <= own.first) continue;
      all = {own.first < all.first ? own.first : all.first, own.last > all.last ? own.last : all.last};
    }
    const int positions = shape.dim <= 128 ? 32 : 16;
    for (int first = all.first; first < all.last; first += positions) {
      const Range tile{first, first + positions < all.last ? first + positions : all.last};
      bool is_needed = false;
      for (int row = 0; row < rows; ++row) is_needed |= tile.meets(shared.ranges[row]);
      if (is_needed) add_tile(simt, shared, block, tile);
    }
    finish(simt, shared, block);
  }

 private:
  struct Block {
    const Args& args;
    int head;  // of keys and values
    int span;
    int rows;
  };

  // Rows are numbered through the tokens and each one's queries.
  template <simt::Simt S>
  STRATA_INLINE static void start(const S& simt, Shared& shared, const Block& block, int first_row) {
    const Heads& shape = block.args.shape;
    const int group = shape.group();
    for (int row = simt.thread(); row < block.rows; row += simt.threads()) {
      const int token = (first_row + row) / group;
      const int wanted = *block.args.position + token + 1;
      const int length = wanted < shape.capacity ? wanted : shape.capacity;
      const int width = Splits::of(shape.kv_heads).span(length);
      const int first = block.span * width;
      shared.ranges[row] = {first, first + width < length ? first + width : length};
      shared.numbers[row] = token * shape.heads + block.head * group + (first_row + row) % group;
      shared.maximum[row] = -std::numeric_limits<float>::infinity();
      shared.sum[row] = 0.0f;
    }
    simt.barrier();
    for (int i = simt.thread(); i < block.rows * shape.dim; i += simt.threads()) {
      const int row = i / shape.dim;
      const std::int64_t from = static_cast<std::int64_t>(shared.numbers[row]) * shape.dim + i % shape.dim;
      shared.queries[row * (shape.dim + 1) + i % shape.dim] = block.args.queries[from];
      shared.out[i] = 0.0f;
    }
  }

  // Brings keys (part 0) or values (part 1) of some positions into the tile.
  template <simt::Simt S>
  STRATA_INLINE static void load(const S& simt, Shared& shared, const Block& block, int part, const Range& tile) {
    switch (block.args.type) {
      case CacheType::kF32:
        return load<field::F32>(simt, shared, block, part, tile);
      case CacheType::kF16:
        return load<field::F16>(simt, shared, block, part, tile);
      case CacheType::kBf16:
        return load<field::Bf16>(simt, shared, block, part, tile);
    }
  }

  template <class Type, simt::Simt S>
  STRATA_INLINE static void load(const S& simt, Shared& shared, const Block& block, int part, const Range& tile) {
    const int dim = block.args.shape.dim;
    const std::int64_t at = block.args.shape.offset(part, block.head) + static_cast<std::int64_t>(tile.first) * dim;
    const std::byte* from = block.args.cache + at * static_cast<std::int64_t>(sizeof(typename Type::Stored));
    for (int i = simt.thread(); i < (tile.last - tile.first) * dim; i += simt.threads()) {
      shared.tile[i / dim * (dim + 1) + i % dim] = field::load<Type>(from, static_cast<std::size_t>(i));
    }
  }

  template <simt::Simt S>
  STRATA_INLINE static void add_tile(const S& simt, Shared& shared, const Block& block, const Range& tile) {
    const int dim = block.args.shape.dim;
    const int positions = tile.last - tile.first;
    simt.barrier();
    load(simt, shared, block, 0, tile);
    simt.barrier();
    for (int i = simt.thread(); i < block.rows * positions; i += simt.threads()) {
      const float* query = shared.queries + i / positions * (dim + 1);
      shared.weights[i / positions][i % positions] = product(query, shared.tile + i % positions * (dim + 1), dim);
    }
    simt.barrier();
    load(simt, shared, block, 1, tile);
    for (int row = simt.thread(); row < block.rows; row += simt.threads()) {
      if (tile.meets(shared.ranges[row])) soften(shared, row, own_part(shared.ranges[row], tile));
    }
    simt.barrier();
    for (int i = simt.thread(); i < block.rows * dim; i += simt.threads()) {
      const int row = i / dim;
      if (!tile.meets(shared.ranges[row])) continue;
      const Range own = own_part(shared.ranges[row], tile);
      float out = shared.out[i] * shared.factor[row];
      for (int at = own.first; at < own.last; ++at) {
        out += shared.weights[row][at] * shared.tile[at * (dim + 1) + i % dim];
      }
      shared.out[i] = out;
    }
  }

  // What a row has of a tile, counted from the tile's first position.
  STRATA_INLINE static Range own_part(const Range& own, const Range& tile) {
    return {(own.first > tile.first ? own.first : tile.first) - tile.first,
            (own.last < tile.last ? own.last : tile.last) - tile.first};
  }

  STRATA_INLINE static float product(const float* query, const float* key, int dim) {
    constexpr int kSums = 8;
    float sums[kSums] = {};
    int i = 0;
    for (; i + kSums <= dim; i += kSums) {
      for (int j = 0; j < kSums; ++j) sums[j] += query[i + j] * key[i + j];
    }
    for (int j = 0; i + j < dim; ++j) sums[j] += query[i + j] * key[i + j];
    for (int half = kSums / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return sums[0];
  }

  // Scores become exp(score - maximum). A score that is no number, or infinite, makes the sum a NaN.
  STRATA_INLINE static void soften(Shared& shared, int row, const Range& own) {
    float* weights = shared.weights[row];
    const float before = shared.maximum[row];
    float maximum = before;
    for (int at = own.first; at < own.last; ++at) maximum = weights[at] > maximum ? weights[at] : maximum;
    const float factor = kernels::exp_clamped(before - maximum);
    float sum = shared.sum[row] * factor;
    for (int at = own.first; at < own.last; ++at) {
      const float below = weights[at] - maximum;
      weights[at] = kernels::exp_clamped(below) + (below - below);
      sum += weights[at];
    }
    shared.factor[row] = factor;
    shared.maximum[row] = maximum;
    shared.sum[row] = sum;
  }

  // A row without positions in this span leaves nothing.
  template <simt::Simt S>
  STRATA_INLINE static void finish(const S& simt, const Shared& shared, const Block& block) {
    const int dim = block.args.shape.dim;
    const Partials partials = Partials::at(block.args.partials, block.args.shape);
    simt.barrier();
    for (int i = simt.thread(); i < block.rows * dim; i += simt.threads()) {
      const int row = i / dim;
      if (shared.ranges[row].last <= shared.ranges[row].first) continue;
      const std::int64_t at = partials.index(shared.numbers[row], block.span);
      partials.out[at * dim + i % dim] = shared.out[i];
      if (i % dim != 0) continue;
      partials.maxima[at] = shared.maximum[row];
      partials.sums[at] = shared.sum[row];
    }
  }
};

}  // namespace strata::device
