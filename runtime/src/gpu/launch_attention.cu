// Launches of attention by tiles, on targets that have them.
#include "strata/device/run_attend_tiles.hpp"
#include "strata/simt/launch_gpu.hpp"
#include "strata/simt/tile_gpu.hpp"

// Its calls are what needs them.
template bool strata::device::run_attend_tiles<>(const AttendTilesArgs& args, Stream stream);
