// Sums of expert rows into the residual: the one order that all of them keep.
#pragma once

#include <cstdint>
#include <limits>

#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// residual[token] += weights[e] * rows[e] for the token's entries e that `includes(e)`, picks ascending, each product
// rounded before it is added. A weight of exactly 0 adds nothing, whatever the row holds. A block has one token and
// Launch::kHiddenPerBlock of its columns.
template <class Launch, simt::Simt S, class Args, class Includes>
STRATA_INLINE void add_weighted_rows(const S& simt, const Args& args, const Includes& includes) {
  const int tiles = Launch::blocks(1, args.hidden);
  const int token = simt.block() / tiles;
  const int first = simt.block() % tiles * Launch::kHiddenPerBlock;
  const int count = args.hidden - first < Launch::kHiddenPerBlock ? args.hidden - first : Launch::kHiddenPerBlock;
  float* __restrict residual = args.residual + static_cast<std::int64_t>(token) * args.hidden + first;
  const int begin = token * args.top_k;
  const int end = begin + args.top_k;
  const auto row_of = [&](int entry) { return args.rows + static_cast<std::int64_t>(entry) * args.hidden + first; };
  if constexpr (S::kWave == 1) {
    for (int entry = begin; entry < end; ++entry) {
      const float weight = args.weights[entry];
      if (weight == 0.0f || !includes(entry)) continue;
      const float* row = row_of(entry);
      for (int i = 0; i < count; ++i) residual[i] += weight * row[i];
    }
  } else {
    // Rows are read together, a few at a time: one after the other would wait for memory each time.
    constexpr int kTogether = 8;
    for (int i = simt.thread(); i < count; i += simt.threads()) {
      float sum = residual[i];
      for (int group = begin; group < end; group += kTogether) {
        float weights[kTogether];
        float values[kTogether];
        for (int k = 0; k < kTogether; ++k) {
          const int entry = group + k < end ? group + k : end - 1;
          weights[k] = group + k < end && includes(entry) ? args.weights[entry] : 0.0f;
          values[k] = row_of(entry)[i];
        }
        for (int k = 0; k < kTogether; ++k) {
          if (weights[k] != 0.0f) sum += weights[k] * values[k];
        }
      }
      residual[i] = sum;
    }
  }
}

template <class Args>
const char* weighted_rows_refusal(const Args& args) {
  if (args.tokens < 0 || args.top_k < 0 || args.hidden < 0) return "tokens, top_k or hidden below 0";
  if (static_cast<std::int64_t>(args.tokens) * args.top_k > std::numeric_limits<int>::max()) return "too many entries";
  if (args.tokens > 0 && args.top_k > 0 && args.hidden > 0 && !(args.rows && args.weights && args.residual)) {
    return "null address of rows, weights or outputs";
  }
  return nullptr;
}

}  // namespace strata::device
