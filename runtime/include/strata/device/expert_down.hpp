// The second half of resident experts: the row of every entry that the plan gives to the device, not yet weighted.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/expert_tiles.hpp"
#include "strata/device/products.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// ExpertDown without what depends on the format.
struct ExpertDownCommon {
  using Launch = gen::ExpertDownLaunch;

  static constexpr int kBlocksAtOnce = 2;

  struct Args {
    const Plan* plan;
    const std::byte* slots;     // slot s at slots + s * slot_stride
    const float* down_scale;    // [slots], or null
    const float* middle;        // [tokens * top_k, width], by entry, for formats of floats
    const std::byte* middle_q;  // the same quantised, for all others
    float* rows;                // [tokens * top_k, hidden], by entry
    std::int64_t slot_stride;
    std::int64_t down_offset;
    int tokens;
    int top_k;
    int hidden;
    int width;
    bool from_host = false;  // slots are experts in the host's memory, and the plan's groups of it are meant
  };
};

// Down is [hidden, width]. Rows of other entries are left alone.
template <class Format>
struct ExpertDown : ExpertDownCommon {
  static constexpr int kTileRows = Launch::kHiddenPerBlock;
  using Rows = Tile<Format, kTileRows>;

  struct Shared {
    Rows tile;
  };

  static const char* refusal(const Args& args) {
    if (!args.plan) return "a null address";
    if (args.tokens > 0 && !(args.slots && args.rows)) return "a null address";
    if (args.hidden < 1 || args.width < 1) return "hidden and width must be at least 1";
    if (const char* window = window_refusal(args.tokens, args.top_k)) return window;
    return args.tokens == 0 ? nullptr : inputs_refusal<Format>(args.middle, args.middle_q, args.width);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens * args.top_k, args.hidden); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const auto inputs =
        inputs_of<Format>(args.middle, args.middle_q, static_cast<std::int64_t>(args.tokens) * args.top_k, args.width);
    for_expert_tile(
        simt, *args.plan, args.from_host, args.hidden, kTileRows, Rows::kTokens,
        [&](const Group& group, int first, const std::int32_t* entries, int count) STRATA_LAMBDA {
          const std::byte* down = args.slots + group.slot * args.slot_stride + args.down_offset;
          const typename Rows::Place place{{down + row_offset<Format>(first, args.width)}, args.hidden - first};
          shared.tile.multiply(simt, place, inputs, PassRows::of(entries, 1, count));
          simt.barrier();
          const float scale = args.down_scale == nullptr ? 1.0f : args.down_scale[group.slot];
          for (int i = simt.thread(); i < count * kTileRows; i += simt.threads()) {
            const int row = i % kTileRows;
            if (row >= place.rows) continue;
            const float value = shared.tile.product(row, i / kTileRows, args.width) * scale;
            args.rows[static_cast<std::int64_t>(entries[i / kTileRows]) * args.hidden + first + row] = value;
          }
        });
  }
};

}  // namespace strata::device
