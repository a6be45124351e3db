// Attention by tiles, on targets that have them.
#pragma once

#include "strata/device/attention.hpp"
#include "strata/gen/target.hpp"
#include "strata/simt/launch.hpp"

namespace strata::device {

// sm_75 has an instruction of NVIDIA's kind too, but for half of the elements.
inline constexpr bool kAttendsByTiles = target::kMatrixLanes != target::MatrixLanes::kNone &&
                                        (target::kBackend != target::Backend::kCuda || target::kHasAsyncCopy);

// Runs the kernel for the arguments' type and size of heads; returns whether there is one. Throws as `run` does. Who
// compiles for the GPU defines it, where there are tiles.
bool run_attend_tiles(const AttendArgs& args, simt::Stream stream);

}  // namespace strata::device
