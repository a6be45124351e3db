// silu(gate) * up, as floats and quantised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"

namespace strata::device {

// `out` may be `gate` or `up`.
struct SiluRows {
  using Launch = gen::SiluRowsLaunch;

  struct Args {
    const float* gate;  // [rows, columns]
    const float* up;    // [rows, columns]
    float* out;         // [rows, columns]
    std::byte* q;       // quantised [rows, columns], or null
    int rows;
    int columns;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.rows < 0 || args.columns < 1) return "rows or columns out of range";
    if (args.rows > 0 && !(args.gate && args.up && args.out)) return "a null address";
    return args.q == nullptr ? nullptr : QuantizedOutput::refusal(args.q, args.columns);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.rows, args.columns); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const int tiles = Launch::blocks(1, args.columns);
    const std::int64_t row = simt.block() / tiles;
    const int first = simt.block() % tiles * Launch::kColumnsPerBlock;
    const int end = first + Launch::kColumnsPerBlock;
    for_own_values(simt, first, end < args.columns ? end : args.columns, [&](int column, int count) {
      OwnValues<S> gate;
      OwnValues<S> up;
      load_own<S>(args.gate + row * args.columns + column, count, gate);
      load_own<S>(args.up + row * args.columns + column, count, up);
      OwnValues<S> out;
      for (int i = 0; i < kOwnValues<S>; ++i) {
        out[i] = gate[i] / (1.0f + kernels::exp_clamped(-gate[i])) * up[i];
      }
      store_own<S>(args.out + row * args.columns + column, count, out);
      if (args.q == nullptr) return;
      store_own_quantized(simt, out, count > 0, QuantizedOutput::at(args.q, args.rows, args.columns), row, column);
    });
  }
};

}  // namespace strata::device
