// Blocks of resident experts: which tile of which group of the plan one does, with how many of its entries at a time.
#pragma once

#include <cstdint>

#include "strata/device/plan.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Calls body(group, first row, entries, count) with up to `pass` entries of its group at a time. Blocks are groups
// times tiles of `tile` rows; those of groups that the plan has not do nothing.
template <simt::Simt S, class Body>
STRATA_INLINE void for_expert_tile(const S& simt, const Plan& plan, int rows, int tile, int pass, const Body& body) {
  const int tiles = (rows + tile - 1) / tile;
  const int number = simt.block() / tiles;
  if (number >= plan.groups) return;
  const Group group = plan.group[number];
  for (int done = 0; done < group.count; done += pass) {
    if (done > 0) simt.barrier();
    const int count = group.count - done < pass ? group.count - done : pass;
    body(group, simt.block() % tiles * tile, plan.entries + group.first + done, count);
  }
}

}  // namespace strata::device
