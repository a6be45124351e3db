// Adds every expert row of a layer to the residual.
#pragma once

#include "strata/device/weighted_rows.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

struct Combine {
  using Launch = gen::CombineLaunch;

  struct Args {
    const float* rows;     // [tokens * top_k, hidden]
    const float* weights;  // [tokens, top_k]
    float* residual;       // [tokens, hidden]
    int tokens;
    int top_k;
    int hidden;
  };

  struct Shared {};

  static const char* refusal(const Args& args) { return weighted_rows_refusal(args); }
  static int blocks(const Args& args) { return Launch::blocks(args.tokens, args.hidden); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    add_weighted_rows<Launch>(simt, args, [](int) { return true; });
  }
};

}  // namespace strata::device
