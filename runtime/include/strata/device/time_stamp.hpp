// Marks the end of a phase of a window.
#pragma once

#include <cstdint>

#include "strata/gen/launches.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// stamp[0] = nanoseconds of a clock that never goes back, stamp[1] = phase.
struct TimeStamp {
  using Launch = gen::TimeStampLaunch;

  struct Args {
    std::uint64_t* stamp;
    int phase;
  };

  struct Shared {};

  static const char* refusal(const Args& args) { return args.stamp ? nullptr : "a null address"; }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    if (simt.thread() != 0) return;
    args.stamp[0] = simt.nanoseconds();
    args.stamp[1] = static_cast<std::uint64_t>(args.phase);
  }
};

}  // namespace strata::device
