// Blocks of resident experts: which tile of which group of the plan one does, with how many of its entries at a time.
#pragma once

#include <cstdint>

#include "strata/device/plan.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Calls body(group, first row, entries, count) with up to `pass` entries of its group at a time. Blocks are groups
// times tiles of `tile` rows; those of groups that the plan has not do nothing. `from_host`: the groups of experts that
// are read from the host's memory, instead of those in slots.
template <simt::Simt S, class Body>
STRATA_INLINE void for_expert_tile(const S& simt, const Plan& plan, bool from_host, int rows, int tile, int pass,
                                   const Body& body) {
  const int tiles = (rows + tile - 1) / tile;
  const int number = simt.block() / tiles;
  if (number >= (from_host ? plan.pcie_groups : plan.groups)) return;
  const Group group = plan.group[from_host ? plan.groups + number : number];
  for (int done = 0; done < group.count; done += pass) {
    if (done > 0) simt.barrier();
    const int count = group.count - done < pass ? group.count - done : pass;
    body(group, simt.block() % tiles * tile, plan.entries + group.first + done, count);
  }
}

}  // namespace strata::device
