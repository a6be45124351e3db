// Who computes the entries of a window: the plan block, in memory that device and host share.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/gen/protocol/plan.hpp"

namespace strata::device {

// Every entry has one owner, so that device_entries + cpu_entries + dropped = tokens * top_k. Nobody's are entries
// without expert (-1) and those of a weight of exactly 0: their rows are never read. The device's are those of `groups`
// and `pcie_groups` together.
using protocol::Plan;
using Owner = protocol::PlanOwner;
using Group = protocol::PlanGroup;

static_assert(sizeof(Plan::entries) == kMaxEntries * sizeof(std::int32_t));

// A share of the experts without slots, in parts of kWholeShare.
inline constexpr std::int32_t kWholeShare = 1024;

// Why a plan is empty. The error word holds the problem in its lowest byte and the entry above it; of several entries
// the lowest.
enum class PlanProblem : std::uint8_t { kNone, kNotResident, kBadId, kBadSlot };

constexpr std::uint32_t plan_error(PlanProblem problem, int entry) {
  return static_cast<std::uint32_t>(entry) << 8 | static_cast<std::uint32_t>(problem);
}

}  // namespace strata::device
