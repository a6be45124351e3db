// The entries of a window in a block's shared memory, where each is compared with all others.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// One block does a window's entries: thread i those numbered i, i + threads, ....
template <simt::Simt S, class Body>
STRATA_INLINE void for_entries(const S& simt, int first, int count, const Body& body) {
  for (int entry = first + simt.thread(); entry < count; entry += simt.threads()) body(entry);
}

// How many of [first, last) the predicate holds for. Without branches: loops over a few dozen entries are vectorised.
template <class Predicate>
STRATA_INLINE int count_if(int first, int last, const Predicate& predicate) {
  int count = 0;
  for (int i = first; i < last; ++i) count += predicate(i) ? 1 : 0;
  return count;
}

// Why sizes do not fit a window; null when they do.
inline const char* window_refusal(int tokens, int top_k) {
  if (tokens < 0 || tokens > kMaxTokens) return "a window has from 0 to window.max_tokens tokens";
  if (top_k < 1 || top_k > kMaxTopK) return "top_k must be from 1 to window.max_top_k";
  return nullptr;
}

}  // namespace strata::device
