// Quantises the inputs of products with quantised weights.
#pragma once

#include <cstdint>

#include "strata/device/quantized_rows.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Blocks of 32 columns; see `QuantizedRowsOf` for what lies where.
struct QuantizeRows {
  using Launch = gen::QuantizeRowsLaunch;

  struct Args {
    const float* x;  // [rows, columns]
    std::byte* q;
    int rows;
    int columns;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.rows < 0 || args.columns < 1) return "rows or columns out of range";
    if (args.rows > 0 && !(args.x && args.q)) return "a null address";
    return QuantizedRows::refusal(args.q, args.columns);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.rows, args.columns); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    constexpr int kBlock = QuantizedOutput::kBlock;
    const int tiles = Launch::blocks(1, args.columns);
    const std::int64_t row = simt.block() / tiles;
    const int first = simt.block() % tiles * (Launch::kColumnsPerBlock / kBlock);
    const int blocks = args.columns / kBlock;
    const int last = first + Launch::kColumnsPerBlock / kBlock;
    const QuantizedOutput to = QuantizedOutput::at(args.q, args.rows, args.columns);
    simt::for_team(simt, (last < blocks ? last : blocks) - first, [&](int number, bool is_there) STRATA_LAMBDA {
      float values[simt::kTeamValues<S>];
      const float* from = args.x + row * args.columns + (first + number) * kBlock + simt::team_lane(simt);
      for (int i = 0; i < simt::kTeamValues<S>; ++i) values[i] = from[i];
      store_quantized(simt, to, row, first + number, values, is_there);
    });
  }
};

}  // namespace strata::device
