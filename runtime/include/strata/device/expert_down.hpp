// The second half of resident experts: the row of every entry that the plan gives to the device, not yet weighted.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/expert_rows.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// ExpertDown without what depends on the format.
struct ExpertDownCommon {
  using Launch = gen::ExpertDownLaunch;

  struct Args {
    const Plan* plan;
    const std::byte* slots;   // slot s at slots + s * slot_stride
    const float* down_scale;  // [slots], or null
    const float* middle;      // [tokens * top_k, width], by entry
    float* rows;              // [tokens * top_k, hidden], by entry
    std::int64_t slot_stride;
    std::int64_t down_offset;
    int tokens;
    int top_k;
    int hidden;
    int width;
  };
};

// Down is [hidden, width]. Rows of other entries are left alone.
template <class Format>
struct ExpertDown : ExpertDownCommon {
  struct Shared {};

  static const char* refusal(const Args& args) {
    if (!args.plan) return "a null address";
    if (args.tokens > 0 && !(args.slots && args.middle && args.rows)) return "a null address";
    if (args.hidden < 1 || args.width < 1) return "hidden and width must be at least 1";
    if (args.width % static_cast<int>(Format::kBlock) != 0) return "blocks do not divide width";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens * args.top_k, args.hidden); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    for_expert_rows(simt, *args.plan, args.hidden, Launch::kHiddenPerBlock,
                    [&](const Group& group, int row, const std::int32_t* entries, auto count) {
                      one_row<static_cast<int>(count)>(simt, args, group, row, entries);
                    });
  }

 private:
  template <int Count, simt::Simt S>
  STRATA_INLINE static void one_row(const S& simt, const Args& args, const Group& group, int row,
                                    const std::int32_t* entries) {
    const std::byte* from =
        args.slots + group.slot * args.slot_stride + args.down_offset + row * row_bytes<Format>(args.width);
    const float* x[kMaxTokens];
    for (int n = 0; n < Count; ++n) x[n] = args.middle + static_cast<std::int64_t>(entries[n]) * args.width;
    float dots[Count];
    row_dots<Format, Count>(simt, from, args.width, x, dots);
    if (simt.lane() != 0) return;
    const float scale = args.down_scale == nullptr ? 1.0f : args.down_scale[group.slot];
    for (int n = 0; n < Count; ++n) {
      args.rows[static_cast<std::int64_t>(entries[n]) * args.hidden + row] = dots[n] * scale;
    }
  }
};

}  // namespace strata::device
