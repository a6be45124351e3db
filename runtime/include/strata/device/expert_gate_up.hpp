// The first half of resident experts: silu(gate(x)) * up(x) of every entry that the plan gives to the device.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/expert_rows.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"

namespace strata::device {

// ExpertGateUp without what depends on the format.
struct ExpertGateUpCommon {
  using Launch = gen::ExpertGateUpLaunch;

  struct Args {
    const Plan* plan;
    const std::byte* slots;   // slot s at slots + s * slot_stride
    const float* gate_scale;  // [slots], or null
    const float* up_scale;    // [slots], or null
    const float* x;           // [tokens, hidden]
    float* middle;            // [tokens * top_k, width], by entry
    std::int64_t slot_stride;
    std::int64_t gate_offset;
    std::int64_t up_offset;
    int tokens;
    int top_k;
    int hidden;
    int width;
  };
};

// Gate and up are [width, hidden] in one format. Scales are by slot and multiply products; null is 1.
template <class Format>
struct ExpertGateUp : ExpertGateUpCommon {
  struct Shared {};

  static const char* refusal(const Args& args) {
    if (!args.plan) return "a null address";
    if (args.tokens > 0 && !(args.slots && args.x && args.middle)) return "a null address";
    if (args.hidden < 1 || args.width < 1) return "hidden and width must be at least 1";
    if (args.hidden % static_cast<int>(Format::kBlock) != 0) return "blocks do not divide hidden";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens * args.top_k, args.width); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    for_expert_rows(simt, *args.plan, args.width, Launch::kWidthPerBlock,
                    [&](const Group& group, int row, const std::int32_t* entries, auto count) {
                      one_row<static_cast<int>(count)>(simt, args, group, row, entries);
                    });
  }

 private:
  template <int Count, simt::Simt S>
  STRATA_INLINE static void one_row(const S& simt, const Args& args, const Group& group, int row,
                                    const std::int32_t* entries) {
    const std::byte* slot = args.slots + group.slot * args.slot_stride + row * row_bytes<Format>(args.hidden);
    const float* x[kMaxTokens];
    for (int n = 0; n < Count; ++n) x[n] = args.x + static_cast<std::int64_t>(entries[n] / args.top_k) * args.hidden;
    float gate[Count];
    float up[Count];
    row_dots<Format, Count>(simt, slot + args.gate_offset, args.hidden, x, gate);
    row_dots<Format, Count>(simt, slot + args.up_offset, args.hidden, x, up);
    if (simt.lane() != 0) return;
    const float gate_scale = args.gate_scale == nullptr ? 1.0f : args.gate_scale[group.slot];
    const float up_scale = args.up_scale == nullptr ? 1.0f : args.up_scale[group.slot];
    for (int n = 0; n < Count; ++n) {
      const float value = gate[n] * gate_scale;
      const float silu = value / (1.0f + kernels::exp_clamped(-value));
      args.middle[static_cast<std::int64_t>(entries[n]) * args.width + row] = silu * (up[n] * up_scale);
    }
  }
};

}  // namespace strata::device
