// Attention of a window: what its queries find in every span, and the spans together.
#pragma once

#include <cstddef>

#include "strata/device/attend_join.hpp"
#include "strata/device/attend_window.hpp"
#include "strata/device/run.hpp"
#include "strata/device/run_attend_tiles.hpp"

namespace strata::device {

// out[tokens, heads, dim]; `q` is its quantised form, or null. Throws as `run` does.
inline void run_attend(const AttendArgs& args, float* out, std::byte* q, Stream stream) {
  bool is_done = false;
  if constexpr (kAttendsByTiles) is_done = run_attend_tiles(args, stream);
  if (!is_done) run<AttendWindow>(args, stream);
  run<AttendJoin>({.partials = args.partials, .position = args.position, .out = out, .q = q, .shape = args.shape},
                  stream);
}

}  // namespace strata::device
