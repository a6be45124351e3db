// Teams: blocks of threads as groups of 32 lanes, whatever the wave. A CPU's one thread is a team, and all its lanes.
#pragma once

#include <cstdint>

#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::simt {

inline constexpr int kTeam = 32;

// How many values of a team's 32 one thread has.
template <Simt S>
inline constexpr int kTeamValues = S::kWave == 1 ? kTeam : 1;

template <Simt S>
STRATA_INLINE int team(const S& simt) {
  return simt.thread() / kTeam;
}

template <Simt S>
STRATA_INLINE int teams(const S& simt) {
  return S::kWave == 1 ? 1 : simt.threads() / kTeam;
}

template <Simt S>
STRATA_INLINE int team_lane(const S& simt) {
  return simt.thread() % kTeam;
}

// Calls body(item, is_there) with the items that a team does of [0, count). Where a wave has several teams they all
// call it equally often, with the last item and false in the end, so that `body` may have operations of the wave.
template <Simt S, class Body>
STRATA_INLINE void for_team(const S& simt, int count, const Body& body) {
  const int step = teams(simt);
  for (int first = 0; first < count; first += step) {
    const int item = first + team(simt);
    if constexpr (S::kWave <= kTeam) {
      if (item < count) body(item, true);
    } else {
      body(item < count ? item : count - 1, item < count);
    }
  }
}

// What `join` makes of the 4-byte values of all lanes of a team, in every lane; in which order is left open.
template <Simt S, class Value, class Join>
STRATA_INLINE Value team_reduce(const S& simt, Value value, const Join& join) {
  static_assert(S::kWave >= kTeam);
  for (int distance = kTeam / 2; distance > 0; distance /= 2) {
    value = join(value, bit_cast<Value>(simt.shuffle_xor(bit_cast<float>(value), distance)));
  }
  return value;
}

}  // namespace strata::simt
