// Sizes that device kernels are compiled for.
#pragma once

#include <cstdint>

#include "strata/gen/knobs.hpp"

namespace strata::device {

inline constexpr int kMaxTokens = static_cast<int>(window_max_tokens);
inline constexpr int kMaxTopK = static_cast<int>(window_max_top_k);
inline constexpr int kMaxExperts = static_cast<int>(window_max_experts);

// An entry is one (token, pick) of a window: number token * top_k + pick.
inline constexpr int kMaxEntries = kMaxTokens * kMaxTopK;

}  // namespace strata::device
