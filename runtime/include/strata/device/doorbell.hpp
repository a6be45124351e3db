// What the device hands to the host for one layer: the doorbell block, in memory that both share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/inline.hpp"

namespace strata::device {

// Followed by the activations, float [tokens, hidden]. Complete once the sequence word has been raised.
struct alignas(64) Doorbell {
  std::int32_t tokens;
  std::int32_t top_k;
  std::int32_t has_weights;  // 1 or 0
  std::int32_t ids[kMaxEntries];
  float weights[kMaxEntries];
};

constexpr std::size_t doorbell_bytes(std::size_t hidden) {
  return sizeof(Doorbell) + static_cast<std::size_t>(kMaxTokens) * hidden * sizeof(float);
}

STRATA_INLINE float* activations_of(Doorbell* doorbell) { return reinterpret_cast<float*>(doorbell + 1); }

}  // namespace strata::device
