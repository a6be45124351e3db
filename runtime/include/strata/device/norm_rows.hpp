// Rows over their root mean square, times a weight, as floats and quantised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/block_sum.hpp"
#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"

namespace strata::device {

// A block per row. `out` may be `x`.
struct NormRows {
  using Launch = gen::NormRowsLaunch;

  struct Args {
    const float* x;       // [rows, columns]
    const float* weight;  // [columns]
    float* out;           // [rows, columns]
    std::byte* q;         // quantised [rows, columns], or null
    float eps;
    int rows;
    int columns;
  };

  struct Shared {
    float sums[kBlockSums / 32];
  };

  static const char* refusal(const Args& args) {
    if (args.rows < 0 || args.columns < 1) return "rows or columns out of range";
    if (args.rows > 0 && !(args.x && args.weight && args.out)) return "a null address";
    return args.q == nullptr ? nullptr : QuantizedOutput::refusal(args.q, args.columns);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.rows); }

  template <simt::Simt S>
  STRATA_INLINE static void before_predecessor_ends(const S& simt, const Args& args) {
    prefetch_floats(simt, args.weight, args.columns);
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    if constexpr (S::kWave > 1) {
      if (args.columns <= 2 * kBlockSums) return run_kept<2>(simt, shared, args);
      if (args.columns <= 7 * kBlockSums) return run_kept<7>(simt, shared, args);
    }
    run_again(simt, shared, args);
  }

 private:
  template <simt::Simt S>
  using Sums = BlockSums<S, Launch::threads(S::kWave)>;

  static_assert(Launch::threads(32) * 4 == kBlockSums);

  // Loads of all columns are under way before anything waits for one of them.
  template <int Steps, simt::Simt S>
  STRATA_INLINE static void run_kept(const S& simt, Shared& shared, const Args& args) {
    const float* row = args.x + static_cast<std::int64_t>(simt.block()) * args.columns;
    OwnValues<S> x[Steps];
    OwnValues<S> weight[Steps];
    Sums<S> sums;
    for_own_values<Steps>(simt, 0, args.columns, [&](auto step, int column, int count) STRATA_LAMBDA {
      load_own<S>(row + column, count, x[step]);
      load_own<S>(args.weight + column, count, weight[step]);
    });
    unroll<Steps>([&](auto step) STRATA_LAMBDA {
      for (int i = 0; i < kOwnValues<S>; ++i) sums.sum[i] += x[step][i] * x[step][i];
    });
    const float factor = inverse_rms(simt, shared, args, sums);
    for_own_values<Steps>(simt, 0, args.columns, [&](auto step, int column, int count) STRATA_LAMBDA {
      finish(simt, args, column, count, factor, x[step], weight[step]);
    });
  }

  // Reads the row twice.
  template <simt::Simt S>
  STRATA_INLINE static void run_again(const S& simt, Shared& shared, const Args& args) {
    const float* row = args.x + static_cast<std::int64_t>(simt.block()) * args.columns;
    Sums<S> sums;
    for_own_values(simt, 0, args.columns, [&](int column, int count) {
      OwnValues<S> x;
      load_own<S>(row + column, count, x);
      float* sum = sums.sum + (S::kWave == 1 ? column % kBlockSums : 0);
      for (int i = 0; i < kOwnValues<S>; ++i) sum[i] += x[i] * x[i];
    });
    const float factor = inverse_rms(simt, shared, args, sums);
    for_own_values(simt, 0, args.columns, [&](int column, int count) {
      OwnValues<S> x;
      OwnValues<S> weight;
      load_own<S>(row + column, count, x);
      load_own<S>(args.weight + column, count, weight);
      finish(simt, args, column, count, factor, x, weight);
    });
  }

  template <simt::Simt S>
  STRATA_INLINE static float inverse_rms(const S& simt, Shared& shared, const Args& args, const Sums<S>& sums) {
    const float mean = sums.total(simt, shared.sums) / static_cast<float>(args.columns);
    return 1.0f / kernels::square_root(mean + args.eps);
  }

  template <simt::Simt S>
  STRATA_INLINE static void finish(const S& simt, const Args& args, int column, int count, float factor,
                                   const OwnValues<S>& x, const OwnValues<S>& weight) {
    const std::int64_t row = simt.block();
    OwnValues<S> out;
    for (int i = 0; i < kOwnValues<S>; ++i) out[i] = x[i] * factor * weight[i];
    store_own<S>(args.out + row * args.columns + column, count, out);
    if (args.q == nullptr) return;
    store_own_quantized(simt, out, count > 0, QuantizedOutput::at(args.q, args.rows, args.columns), row, column);
  }
};

}  // namespace strata::device
