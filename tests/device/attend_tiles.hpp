// Attention by tiles: which kernel a job is for.
#pragma once

#include "jobs.hpp"
#include "strata/device/attend_block.hpp"

namespace strata::device_tests {

// The kinds of a job, in the order of target::MatrixLanes.
enum class Tiles { kNone, kMma, kWmma, kWmmaGfx12, kMfma };

// Runs the kernel at its own width of waves. Some types and sizes are emulated.
void attend_tiles(const Job& job, Tiles tiles, const device::AttendArgs& args);

}  // namespace strata::device_tests
