// Brings the CPU's rows to the device.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/selection.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Copies the meant rows of the CPU. The other rows that are not the device's own become zeros with `zero_others`, and
// are left alone without.
struct RowsCopy {
  using Launch = gen::RowsCopyLaunch;

  struct Args {
    const float* from;     // [entries, hidden], mapped
    const Owner* owner;    // [entries], or null: all are the CPU's
    const float* weights;  // [entries]; null with Which::kAll only
    float* to;             // [entries, hidden]
    int entries;
    int hidden;
    Which which;
    float threshold;
    bool zero_others;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.entries < 0 || args.hidden < 1) return "entries or hidden out of range";
    if (args.entries > 0 && !(args.from && args.to)) return "a null address";
    if (args.entries > 0 && args.which != Which::kAll && !args.weights) return "a choice by weight needs weights";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.entries, args.hidden); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const int tiles = Launch::blocks(1, args.hidden);
    const int entry = simt.block() / tiles;
    const bool is_selected = selects(args, entry);
    const bool is_own = args.owner != nullptr && args.owner[entry] == Owner::kDevice;
    if (!is_selected && (is_own || !args.zero_others)) return;
    const int first = simt.block() % tiles * Launch::kHiddenPerBlock;
    const int count = args.hidden - first < Launch::kHiddenPerBlock ? args.hidden - first : Launch::kHiddenPerBlock;
    const std::int64_t at = static_cast<std::int64_t>(entry) * args.hidden + first;
    const float* from = args.from + at;
    float* to = args.to + at;
    for (int i = simt.thread(); i < count; i += simt.threads()) to[i] = is_selected ? simt.load_mapped(from + i) : 0.0f;
  }
};

}  // namespace strata::device
