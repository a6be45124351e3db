// Where each row has its largest value.
#pragma once

#include <cstdint>

#include "strata/device/order.hpp"
#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

// A block per row. Of equal values the first counts; a NaN is below all numbers.
struct ArgmaxRows {
  using Launch = gen::ArgmaxRowsLaunch;

  struct Args {
    const float* x;     // [rows, columns]
    std::int32_t* out;  // [rows]
    int rows;
    int columns;
  };

  struct Shared {
    std::uint64_t best[Launch::threads(32) / 32];
  };

  static const char* refusal(const Args& args) {
    if (args.rows < 0 || args.columns < 1) return "rows or columns out of range";
    if (args.rows > 0 && !(args.x && args.out)) return "a null address";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.rows); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const float* row = args.x + static_cast<std::int64_t>(simt.block()) * args.columns;
    std::uint64_t best = simt::wave_max(simt, best_of_thread(simt, row, args.columns));
    const int waves = simt.threads() / S::kWave;
    if (waves > 1) {
      if (simt.lane() == 0) shared.best[simt.thread() / S::kWave] = best;
      simt.barrier();
      for (int i = 0; i < waves; ++i) best = shared.best[i] > best ? shared.best[i] : best;
    }
    if (simt.thread() == 0) args.out[simt.block()] = index_in(best);
  }

 private:
  // Several loads are under way at a time.
  static constexpr int kLoads = 8;

  // A thread meets its values in ascending order, so that of equal ones it keeps the first.
  template <simt::Simt S>
  STRATA_INLINE static std::uint64_t best_of_thread(const S& simt, const float* row, int columns) {
    int best = simt.thread() * kOwnValues<S>;
    if (best >= columns) return 0;
    float largest = row[best];
    const int step = kLoads * simt.threads() * kOwnValues<S>;
    for (int first = 0; first < columns; first += step) {
      OwnValues<S> values[kLoads];
      for_own_values<kLoads>(simt, first, columns, [&](auto i, int column, int count) STRATA_LAMBDA {
        load_own<S>(row + column, count, values[i]);
      });
      for_own_values<kLoads>(simt, first, columns, [&](auto i, int column, int count) STRATA_LAMBDA {
        for (int own = 0; own < kOwnValues<S>; ++own) {
          const float value = values[i][own];
          const bool is_better = own < count && !(value <= largest) && value == value;
          largest = is_better ? value : largest;
          best = is_better ? column + own : best;
        }
      });
    }
    return order_of(largest, best);
  }
};

}  // namespace strata::device
