// Tiles of 16-bit floats by a target's own instructions, for .cu files; without them those of simt/tile.hpp.
#pragma once

#if defined(__CUDACC__)
#include "strata/simt/tile_cuda.hpp"
#elif defined(__HIP__)
#include "strata/simt/tile_hip.hpp"
#else
#include "strata/simt/tile.hpp"
#endif
