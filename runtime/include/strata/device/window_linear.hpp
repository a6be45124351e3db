// Products of a few matrices with the inputs of a window's tokens.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/products.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// WindowLinear without what depends on the format.
struct WindowLinearCommon {
  using Launch = gen::WindowLinearLaunch;

  static constexpr int kBlocksAtOnce = 2;
  static constexpr int kMatrices = 3;

  struct Args {
    const std::byte* weights[kMatrices];  // [rows, columns] each
    const float* x;                       // [tokens, columns], for formats of floats
    const std::byte* q;                   // the same quantised, for all others
    float* out[kMatrices];                // [tokens, rows] each
    std::int32_t rows[kMatrices];
    float scale[kMatrices];
    int matrices;
    int tokens;
    int columns;
    bool accumulate;  // adds to `out` instead of writing it
  };
};

// Every matrix is of one format and of the same columns.
template <class Format>
struct WindowLinear : WindowLinearCommon {
  static constexpr int kTileRows = ProductsOf<Format>::kRows;
  using Rows = Tile<Format, kTileRows>;

  struct Shared {
    Rows tile;
  };

  static const char* refusal(const Args& args) {
    if (args.matrices < 1 || args.matrices > kMatrices) return "a launch has from 1 to 3 matrices";
    if (args.tokens < 0 || args.tokens > kMaxTokens) return "a window has from 0 to window.max_tokens tokens";
    if (args.columns < 1) return "columns must be at least 1";
    for (int m = 0; m < args.matrices; ++m) {
      if (args.rows[m] < 0) return "fewer than 0 rows";
      if (args.tokens > 0 && args.rows[m] > 0 && !(args.weights[m] && args.out[m])) return "a null address";
    }
    return args.tokens == 0 ? nullptr : inputs_refusal<Format>(args.x, args.q, args.columns);
  }

  static int blocks(const Args& args) {
    int tiles = 0;
    for (int m = 0; m < args.matrices; ++m) tiles += tiles_of(args.rows[m]);
    return args.tokens == 0 ? 0 : Launch::blocks(tiles);
  }

  // Fetches the weights, which no kernel before this one writes.
  template <simt::Simt S>
  STRATA_INLINE static void before_predecessor_ends(const S& simt, const Args& args) {
    Rows::prefetch(simt, block_of(simt, args).place, args.columns, simt::team(simt));
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const Block block = block_of(simt, args);
    const auto inputs = inputs_of<Format>(args.x, args.q, args.tokens, args.columns);
    for (int token = 0; token < args.tokens; token += Rows::kTokens) {
      const int count = args.tokens - token < Rows::kTokens ? args.tokens - token : Rows::kTokens;
      if (token > 0) simt.barrier();
      shared.tile.multiply(simt, block.place, inputs, PassRows::from(token, count));
      simt.barrier();
      for (int i = simt.thread(); i < count * kTileRows; i += simt.threads()) {
        const int row = i % kTileRows;
        if (row >= block.place.rows) continue;
        const float value = shared.tile.product(row, i / kTileRows, args.columns) * block.scale;
        float& to = block.out[static_cast<std::int64_t>(token + i / kTileRows) * block.stride + row];
        to = args.accumulate ? to + value : value;
      }
    }
  }

 private:
  // What a block does: a tile, and where its products go.
  struct Block {
    typename Rows::Place place;
    float* out;
    int stride;  // of tokens in `out`
    float scale;
  };

  template <simt::Simt S>
  STRATA_INLINE static Block block_of(const S& simt, const Args& args) {
    int tile = simt.block();
    const std::byte* weights = args.weights[0];
    float* out = args.out[0];
    int rows = args.rows[0];
    float scale = args.scale[0];
    for (int m = 1; m < kMatrices; ++m) {
      if (m >= args.matrices || tile < tiles_of(rows)) break;
      tile -= tiles_of(rows);
      weights = args.weights[m];
      out = args.out[m];
      rows = args.rows[m];
      scale = args.scale[m];
    }
    const int first = tile * kTileRows;
    return {{{weights + row_offset<Format>(first, args.columns)}, rows - first}, out + first, rows, scale};
  }

  STRATA_INLINE static int tiles_of(int rows) { return (rows + kTileRows - 1) / kTileRows; }
};

}  // namespace strata::device
