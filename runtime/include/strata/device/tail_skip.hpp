// Leaves out experts that are not resident and that no token of a window ranks high.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/order.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Ranks are by weight inside a token, from 0, equals by the lower pick. An expert without a slot that every token which
// picks it ranks `rank` or lower loses its entries: their ids become -1 and their weights 0. An id of -1 is no entry
// and has no rank. Rank 0 turns it off.
struct TailSkip {
  using Launch = gen::TailSkipLaunch;

  struct Args {
    std::int32_t* ids;                   // [tokens, top_k]
    float* weights;                      // [tokens, top_k]
    const std::int32_t* slot_of_expert;  // [experts], -1: not resident
    int tokens;
    int top_k;
    int experts;
    int rank;
  };

  struct Shared {
    std::int32_t ids[kMaxEntries];
    std::uint64_t orders[kMaxEntries];
    std::int32_t is_high[kMaxEntries];  // 1: ranked above `rank`
  };

  static const char* refusal(const Args& args) {
    if (args.tokens > 0 && !(args.ids && args.weights && args.slot_of_expert)) return "a null address";
    if (args.rank < 0 || args.rank >= args.top_k) return "the rank must be from 0 to top_k - 1";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    if (args.rank == 0) return;
    const int entries = args.tokens * args.top_k;
    for_entries(simt, 0, entries, [&](int entry) {
      shared.ids[entry] = args.ids[entry];
      shared.orders[entry] = shared.ids[entry] < 0 ? 0 : order_of(args.weights[entry], entry);
    });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) {
      const int first = entry / args.top_k * args.top_k;
      const std::uint64_t own = shared.orders[entry];
      const int better = count_if(first, first + args.top_k, [&](int i) { return shared.orders[i] > own; });
      shared.is_high[entry] = better < args.rank ? 1 : 0;
    });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) {
      const std::int32_t id = shared.ids[entry];
      if (id < 0 || id >= args.experts || args.slot_of_expert[id] >= 0) return;
      if (count_if(0, entries, [&](int i) { return (shared.is_high[i] & (shared.ids[i] == id)) != 0; }) != 0) return;
      args.ids[entry] = -1;
      args.weights[entry] = 0.0f;
    });
  }
};

}  // namespace strata::device
