// Who computes the entries of a window: the plan block, in memory that device and host share.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"

namespace strata::device {

enum class Owner : std::uint8_t {
  kNobody,  // no expert (-1), or a weight of exactly 0: its row is never read
  kDevice,
  kCpu,
};

// Entries of one resident expert: Plan::entries[first] up to first + count, ascending.
struct Group {
  std::int32_t slot;
  std::int32_t first;
  std::int32_t count;
  std::int32_t expert;
};

// Every entry has one owner, so that device_entries + cpu_entries + dropped = tokens * top_k.
struct Plan {
  std::int32_t groups;
  std::int32_t device_entries;
  std::int32_t cpu_entries;
  std::int32_t dropped;
  Group group[kMaxEntries];           // by first appearance
  std::int32_t entries[kMaxEntries];  // the device's, by group
  std::int32_t cpu[kMaxEntries];      // the CPU's, ascending
  Owner owner[kMaxEntries];
};

// Why a plan is empty. The error word holds the problem in its lowest byte and the entry above it; of several entries
// the lowest.
enum class PlanProblem : std::uint8_t { kNone, kNotResident, kBadId, kBadSlot };

constexpr std::uint32_t plan_error(PlanProblem problem, int entry) {
  return static_cast<std::uint32_t>(entry) << 8 | static_cast<std::uint32_t>(problem);
}

}  // namespace strata::device
