// Rings the doorbell: a layer's ids and activations for the host, then the sequence word.
#pragma once

#include <cstdint>

#include "strata/device/doorbell.hpp"
#include "strata/device/entries.hpp"
#include "strata/device/ring.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// One block, so that its barrier orders every store before the word.
struct Publish {
  using Launch = gen::PublishLaunch;

  struct Args {
    const float* x;           // [tokens, hidden]
    const std::int32_t* ids;  // [tokens, top_k]
    const float* weights;     // [tokens, top_k], or null: not published
    const std::uint32_t* base;
    Doorbell* doorbell;
    std::uint32_t* sequence;
    std::uint32_t offset;
    int layer;
    int tokens;
    int top_k;
    int hidden;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (!(args.doorbell && args.sequence)) return "a null address";
    if (args.tokens > 0 && !(args.x && args.ids)) return "a null address";
    if (args.hidden < 1) return "hidden must be at least 1";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    Doorbell& doorbell = *args.doorbell;
    const int entries = args.tokens * args.top_k;
    copy(simt, activations_of(args.doorbell), args.x, args.tokens * args.hidden);
    copy(simt, doorbell.ids, args.ids, entries);
    if (args.weights != nullptr) copy(simt, doorbell.weights, args.weights, entries);
    if (simt.thread() == 0) {
      simt.store_mapped(&doorbell.layer, args.layer);
      simt.store_mapped(&doorbell.tokens, args.tokens);
      simt.store_mapped(&doorbell.top_k, args.top_k);
      simt.store_mapped(&doorbell.has_weights, args.weights == nullptr ? 0 : 1);
    }
    simt.fence_system();
    simt.barrier();
    if (simt.thread() != 0) return;
    const std::uint32_t ring = ring_value(args.base, args.offset);
    simt.release(&doorbell.published, ring);
    simt.release(args.sequence, ring);
  }

 private:
  template <simt::Simt S, class Value>
  STRATA_INLINE static void copy(const S& simt, Value* to, const Value* from, int count) {
    for (int i = simt.thread(); i < count; i += simt.threads()) simt.store_mapped(to + i, from[i]);
  }
};

}  // namespace strata::device
