// What the device hands to the host for one layer: the doorbell block, in memory that both share.
#pragma once

#include <cstddef>

#include "strata/device/limits.hpp"
#include "strata/gen/protocol/doorbell.hpp"
#include "strata/inline.hpp"

namespace strata::device {

// Followed by the activations, float [tokens, hidden]. Complete once the sequence word has been raised.
using protocol::Doorbell;

static_assert(sizeof(Doorbell::ids) == kMaxEntries * sizeof(std::int32_t));
static_assert(protocol::DoorbellLayout::of(1).activations == sizeof(Doorbell));

constexpr std::size_t doorbell_bytes(std::size_t hidden) { return protocol::DoorbellLayout::of(hidden).bytes; }

STRATA_INLINE float* activations_of(Doorbell* doorbell) { return reinterpret_cast<float*>(doorbell + 1); }

}  // namespace strata::device
