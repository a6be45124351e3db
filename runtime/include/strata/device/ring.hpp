// Values of the words that device and host wait on.
#pragma once

#include <cstdint>

#include "strata/inline.hpp"

namespace strata::device {

// What a word is raised to, or waited for: `offset` (of a layer and group) above the window's base, which a captured
// kernel reads anew each time. A null base counts as 0.
STRATA_INLINE std::uint32_t ring_value(const std::uint32_t* base, std::uint32_t offset) {
  return base == nullptr ? offset : *base + offset;
}

}  // namespace strata::device
