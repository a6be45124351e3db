// Adds the rows of the CPU that a layer did not wait for.
#pragma once

#include "strata/device/selection.hpp"
#include "strata/device/weighted_rows.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

struct LateAdd {
  using Launch = gen::LateAddLaunch;

  struct Args {
    const float* rows;     // [tokens * top_k, hidden]
    const Owner* owner;    // [tokens * top_k], or null: all are the CPU's
    const float* weights;  // [tokens, top_k]
    float* residual;       // [tokens, hidden]
    int tokens;
    int top_k;
    int hidden;
    Which which;
    float threshold;
  };

  struct Shared {};

  static const char* refusal(const Args& args) { return weighted_rows_refusal(args); }
  static int blocks(const Args& args) { return Launch::blocks(args.tokens, args.hidden); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    add_weighted_rows<Launch>(simt, args, [&](int entry) { return selects(args, entry); });
  }
};

}  // namespace strata::device
