// Which rows of the CPU are meant: all of them, those of a large weight, or the others.
#pragma once

#include <cstdint>

#include "strata/device/plan.hpp"
#include "strata/inline.hpp"

namespace strata::device {

enum class Which : std::uint8_t { kAll, kAtLeast, kBelow };

// A weight that is no number is below every threshold, so that each row is in exactly one of the two parts.
STRATA_INLINE bool is_meant(Which which, float weight, float threshold) {
  const bool is_heavy = weight >= threshold;
  return which == Which::kAll || is_heavy == (which == Which::kAtLeast);
}

// Whether an entry's row comes from the CPU and is meant; without owners every row comes from there. `args` has
// `owner`, `weights`, `which` and `threshold`.
template <class Args>
STRATA_INLINE bool selects(const Args& args, int entry) {
  if (args.owner != nullptr && args.owner[entry] != Owner::kCpu) return false;
  return args.which == Which::kAll || is_meant(args.which, args.weights[entry], args.threshold);
}

}  // namespace strata::device
