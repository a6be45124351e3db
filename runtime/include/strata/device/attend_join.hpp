// The spans of a query together, as floats and quantised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/attention.hpp"
#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

// A block per query. Spans are summed in kLines interleaved lines, and these in order.
struct AttendJoin {
  using Launch = gen::AttendJoinLaunch;

  struct Args {
    const float* partials;         // Partials
    const std::int32_t* position;  // that of the first token
    float* out;                    // [tokens, heads, dim]
    std::byte* q;                  // quantised [tokens, heads * dim], or null
    Heads shape;
  };

  static constexpr int kLines = 4;

  struct Shared {
    float weights[Splits::kBlocks];
    float lines[kLines][Heads::kMostElements];
  };

  static const char* refusal(const Args& args) {
    if (const char* reason = args.shape.refusal()) return reason;
    if (args.shape.tokens > 0 && !(args.partials && args.position && args.out)) return "a null address";
    if (args.q != nullptr && args.shape.dim % kQuantBlock != 0)
      return "quantised heads have whole blocks of 32 columns";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.shape.tokens, args.shape.heads); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const Heads& shape = args.shape;
    const int wanted = *args.position + simt.block() / shape.heads + 1;
    const int spans = Splits::of(shape.kv_heads).count(wanted < shape.capacity ? wanted : shape.capacity);
    const Partials partials = Partials::at(const_cast<float*>(args.partials), shape);
    const std::int64_t first = partials.index(simt.block(), 0);
    const float maximum = simt::wave_max(simt, spans, [&](int span) { return partials.maxima[first + span]; });
    for (int span = simt.thread(); span < spans; span += simt.threads()) {
      shared.weights[span] = kernels::exp_clamped(partials.maxima[first + span] - maximum);
    }
    simt.barrier();
    for (int i = simt.thread(); i < kLines * shape.dim; i += simt.threads()) {
      const int line = i / shape.dim;
      const float* part = partials.out + first * shape.dim + i % shape.dim;
      float sum = 0.0f;
      for (int span = line; span < spans; span += kLines) sum += shared.weights[span] * part[span * shape.dim];
      shared.lines[line][i % shape.dim] = sum;
    }
    const float total =
        simt::wave_sum(simt, spans, [&](int span) { return shared.weights[span] * partials.sums[first + span]; });
    simt.barrier();
    for_own_values(simt, 0, shape.dim, [&](int element, int count) {
      OwnValues<S> out;
      for (int i = 0; i < kOwnValues<S>; ++i) out[i] = i < count ? joined(shared, element + i) / total : 0.0f;
      store_own<S>(args.out + static_cast<std::int64_t>(simt.block()) * shape.dim + element, count, out);
      if (args.q == nullptr) return;
      store_own_quantized(simt, out, count > 0, QuantizedOutput::at(args.q, shape.tokens, shape.heads * shape.dim),
                          simt.block() / shape.heads, simt.block() % shape.heads * shape.dim + element);
    });
  }

 private:
  STRATA_INLINE static float joined(const Shared& shared, int element) {
    float sum = shared.lines[0][element];
    for (int line = 1; line < kLines; ++line) sum += shared.lines[line][element];
    return sum;
  }
};

}  // namespace strata::device
