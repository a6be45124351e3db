// Sets of a window's entries as bits in a block's shared memory.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

struct EntrySet {
  static constexpr int kBits = 32;
  static constexpr int kWords = (kMaxEntries + 63) / 64 * 2;

  std::uint32_t words[kWords];

  // The entries below `entries` that the predicate holds for. Every thread calls it; a barrier makes the set known.
  template <simt::Simt S, class Predicate>
  STRATA_INLINE void fill(const S& simt, int entries, const Predicate& predicate) {
    if constexpr (S::kWave == 1) {
      for (int word = 0; word < kWords; ++word) words[word] = 0;
      for (int entry = 0; entry < entries; ++entry) {
        words[entry / kBits] |= static_cast<std::uint32_t>(predicate(entry) ? 1 : 0) << (entry % kBits);
      }
    } else {
      const int wave = simt.thread() / S::kWave * S::kWave;
      for (int first = wave; first < kWords * kBits; first += simt.threads()) {
        const int entry = first + simt.lane();
        const std::uint64_t members = simt.ballot(entry < entries && predicate(entry));
        if (simt.lane() != 0) continue;
        for (int i = 0; i < S::kWave / kBits; ++i) {
          words[first / kBits + i] = static_cast<std::uint32_t>(members >> (i * kBits));
        }
      }
    }
  }

  // The empty set, likewise.
  template <simt::Simt S>
  STRATA_INLINE void clear(const S& simt) {
    for (int word = simt.thread(); word < kWords; word += simt.threads()) words[word] = 0;
  }

  STRATA_INLINE bool has(int entry) const { return (words[entry / kBits] >> (entry % kBits) & 1u) != 0; }
  STRATA_INLINE int count() const { return count_below(kWords * kBits); }
  STRATA_INLINE int count_below(int entry) const {
    int count = 0;
    for (int word = 0; word < kWords; ++word) {
      const int left = entry - word * kBits;
      const std::uint32_t below = left >= kBits ? ~0u : left <= 0 ? 0u : (1u << left) - 1u;
      count += __builtin_popcount(words[word] & below);
    }
    return count;
  }
  // The lowest entry of a set that has one.
  STRATA_INLINE int first() const {
    int entry = 0;
    while (!has(entry)) ++entry;
    return entry;
  }
};

}  // namespace strata::device
