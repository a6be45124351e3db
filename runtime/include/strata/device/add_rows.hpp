// Adds one vector to another.
#pragma once

#include <cstdint>

#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

struct AddRows {
  using Launch = gen::AddRowsLaunch;

  struct Args {
    const float* x;  // [count]
    float* out;      // [count]
    int count;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.count < 0) return "a count below 0";
    if (args.count > 0 && !(args.x && args.out)) return "a null address";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.count); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const int first = simt.block() * Launch::kCountPerBlock;
    const int last = args.count - first < Launch::kCountPerBlock ? args.count : first + Launch::kCountPerBlock;
    for_own_values(simt, first, last, [&](int at, int count) {
      OwnValues<S> x;
      OwnValues<S> out;
      load_own<S>(args.x + at, count, x);
      load_own<S>(args.out + at, count, out);
      for (int i = 0; i < kOwnValues<S>; ++i) out[i] += x[i];
      store_own<S>(args.out + at, count, out);
    });
  }
};

}  // namespace strata::device
