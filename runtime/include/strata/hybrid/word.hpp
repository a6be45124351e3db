// One signal: a 32-bit number on a cache line of its own, in memory that both halves of a window see.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::protocol {

enum class WordKind : unsigned char {
  kRing,   // the ring value of the last layer that it was raised for; never decreases
  kError,  // 0, or what went wrong
};

enum class Side : unsigned char { kDevice, kHost };

struct alignas(64) Word {
  std::uint32_t value = 0;
};

// What a ring word holds once nobody is to wait for it any more.
inline constexpr std::uint32_t kReleased = UINT32_MAX;

}  // namespace strata::protocol
