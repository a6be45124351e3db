// The first half of resident experts: silu(gate(x)) * up(x) of every entry that the plan gives to the device.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/expert_tiles.hpp"
#include "strata/device/products.hpp"
#include "strata/device/quantized_rows.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"

namespace strata::device {

// ExpertGateUp without what depends on the format.
struct ExpertGateUpCommon {
  using Launch = gen::ExpertGateUpLaunch;

  static constexpr int kBlocksAtOnce = 2;

  struct Args {
    const Plan* plan;
    const std::byte* slots;   // slot s at slots + s * slot_stride
    const float* gate_scale;  // [slots], or null
    const float* up_scale;    // [slots], or null
    const float* x;           // [tokens, hidden], for formats of floats
    const std::byte* q;       // the same quantised, for all others
    float* middle;            // [tokens * top_k, width], by entry
    std::byte* middle_q;      // the same quantised, or null
    std::int64_t slot_stride;
    std::int64_t gate_offset;
    std::int64_t up_offset;
    int tokens;
    int top_k;
    int hidden;
    int width;
    bool from_host = false;  // slots are experts in the host's memory, and the plan's groups of it are meant
  };
};

// Gate and up are [width, hidden] in one format. Scales are by slot and multiply products; null is 1.
template <class Format>
struct ExpertGateUp : ExpertGateUpCommon {
  // A block quantises what it makes, so it has whole blocks of it.
  static constexpr int kTileRows = Launch::kWidthPerBlock;
  static_assert(kTileRows == QuantizedOutput::kBlock);
  using Rows = Tile<Format, kTileRows, 2>;

  struct Shared {
    Rows tile;
  };

  static const char* refusal(const Args& args) {
    if (!args.plan) return "a null address";
    if (args.tokens > 0 && !(args.slots && args.middle)) return "a null address";
    if (args.hidden < 1 || args.width < 1) return "hidden and width must be at least 1";
    if (const char* window = window_refusal(args.tokens, args.top_k)) return window;
    if (args.middle_q != nullptr) {
      if (const char* output = QuantizedRows::refusal(args.middle_q, args.width)) return output;
    }
    return args.tokens == 0 ? nullptr : inputs_refusal<Format>(args.x, args.q, args.hidden);
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens * args.top_k, args.width); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const auto inputs = inputs_of<Format>(args.x, args.q, args.tokens, args.hidden);
    for_expert_tile(
        simt, *args.plan, args.from_host, args.width, kTileRows, Rows::kTokens,
        [&](const Group& group, int first, const std::int32_t* entries, int count) STRATA_LAMBDA {
          const std::byte* slot = args.slots + group.slot * args.slot_stride + row_offset<Format>(first, args.hidden);
          const typename Rows::Place place{{slot + args.gate_offset, slot + args.up_offset}, args.width - first};
          shared.tile.multiply(simt, place, inputs, PassRows::of(entries, args.top_k, count));
          simt.barrier();
          simt::for_team(simt, count, [&](int token, bool is_there) STRATA_LAMBDA {
            store(simt, shared.tile, args, group.slot, first, token, entries[token], is_there);
          });
        });
  }

 private:
  // 32 columns of an entry, by one team.
  template <simt::Simt S>
  STRATA_INLINE static void store(const S& simt, const Rows& tile, const Args& args, std::int32_t slot, int first,
                                  int token, std::int64_t entry, bool is_there) {
    const float gate_scale = args.gate_scale == nullptr ? 1.0f : args.gate_scale[slot];
    const float up_scale = args.up_scale == nullptr ? 1.0f : args.up_scale[slot];
    float values[simt::kTeamValues<S>];
    for (int i = 0; i < simt::kTeamValues<S>; ++i) {
      const int row = simt::team_lane(simt) + i;
      values[i] = 0.0f;
      if (first + row >= args.width) continue;
      const float gate = tile.product(row, token, args.hidden, 0) * gate_scale;
      const float silu = gate / (1.0f + kernels::exp_clamped(-gate));
      values[i] = silu * (tile.product(row, token, args.hidden, 1) * up_scale);
      if (is_there) args.middle[entry * args.width + first + row] = values[i];
    }
    if (args.middle_q == nullptr) return;
    const std::int64_t entries = static_cast<std::int64_t>(args.tokens) * args.top_k;
    const QuantizedOutput to = QuantizedOutput::at(args.middle_q, entries, args.width);
    store_quantized(simt, to, entry, first / kTileRows, values, is_there);
  }
};

}  // namespace strata::device
