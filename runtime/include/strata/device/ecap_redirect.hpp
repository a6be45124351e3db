// Caps the expert entries of a window: what is dropped goes to a kept expert with weight 0.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/order.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Token 0 keeps all its picks; the tail behind it keeps its cap - top_k best entries by weight, equals by the lower
// entry. Every other entry of the tail is redirected with weight exactly 0, the first to the first kept expert, the
// next to the next, and round again: no expert is read for it, nothing is added, and no expert gets them all. Kept
// experts are in the order in which kept entries first name them. An id of -1 is no entry, and stays.
//
// A cap of at least tokens * top_k, or one token, changes nothing; a cap of at most top_k keeps no entry of the tail.
struct EcapRedirect {
  using Launch = gen::EcapRedirectLaunch;

  struct Args {
    std::int32_t* ids;  // [tokens, top_k]
    float* weights;     // [tokens, top_k]
    int tokens;
    int top_k;
    int cap;
  };

  struct Shared {
    std::int32_t ids[kMaxEntries];
    std::uint64_t orders[kMaxEntries];
    std::int32_t keeps[kMaxEntries];       // 1 or 0
    std::int32_t introduces[kMaxEntries];  // 1: kept, and the first to name its expert
    std::int32_t experts[kMaxEntries];     // the kept ones
  };

  static const char* refusal(const Args& args) {
    if (args.cap < 1) return "the cap must be at least 1";
    if (args.tokens > 0 && !(args.ids && args.weights)) return "a null address";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const int entries = args.tokens * args.top_k;
    if (args.tokens <= 1 || args.cap >= entries) return;
    const int tail = args.top_k;
    const int room = args.cap > tail ? args.cap - tail : 0;

    for_entries(simt, 0, entries, [&](int entry) {
      shared.ids[entry] = args.ids[entry];
      shared.orders[entry] = shared.ids[entry] < 0 ? 0 : order_of(args.weights[entry], entry);
    });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) {
      const std::uint64_t own = shared.orders[entry];
      const int better = entry < tail ? 0 : count_if(tail, entries, [&](int i) { return shared.orders[i] > own; });
      shared.keeps[entry] = own != 0 && (entry < tail || better < room) ? 1 : 0;
    });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) {
      const std::int32_t own = shared.ids[entry];
      const int before = count_if(0, entry, [&](int i) { return (shared.keeps[i] & (shared.ids[i] == own)) != 0; });
      shared.introduces[entry] = shared.keeps[entry] != 0 && before == 0 ? 1 : 0;
    });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) {
      if (shared.introduces[entry] == 0) return;
      shared.experts[count_if(0, entry, [&](int i) { return shared.introduces[i] != 0; })] = shared.ids[entry];
    });
    simt.barrier();
    const int kept = count_if(0, entries, [&](int i) { return shared.introduces[i] != 0; });
    for_entries(simt, tail, entries, [&](int entry) {
      if (shared.keeps[entry] != 0 || shared.orders[entry] == 0) return;
      const int dropped = count_if(tail, entry, [&](int i) { return shared.keeps[i] == 0 && shared.orders[i] != 0; });
      args.ids[entry] = kept == 0 ? -1 : shared.experts[dropped % kept];
      args.weights[entry] = 0.0f;
    });
  }
};

}  // namespace strata::device
