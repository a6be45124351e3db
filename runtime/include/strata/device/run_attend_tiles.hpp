// Attention by tiles, on targets that have them.
#pragma once

#include "strata/device/attend_tiles.hpp"
#include "strata/device/run.hpp"
#include "strata/gen/target.hpp"
#include "strata/scalar.hpp"

namespace strata::device {

inline constexpr bool kAttendsByTiles = target::kBackend == target::Backend::kCuda && target::kHasAsyncCopy;

// Runs the kernel for heads of the size that the arguments say; returns whether there is one.
template <class Type>
bool run_attend_tiles_of(const AttendTilesCommon::Args& args, Stream stream) {
  switch (args.shape.dim) {
    case 32:
      run<AttendTiles<Type, 32>>(args, stream);
      return true;
    case 64:
      run<AttendTiles<Type, 64>>(args, stream);
      return true;
    case 128:
      run<AttendTiles<Type, 128>>(args, stream);
      return true;
    default:
      return false;
  }
}

// The same for any type of cache. Throws as `run` does.
template <bool HasTiles = kAttendsByTiles>
bool run_attend_tiles(const AttendTilesCommon::Args& args, Stream stream) {
  if constexpr (HasTiles) {
    if (args.type == CacheType::kF16) return run_attend_tiles_of<field::F16>(args, stream);
    if (args.type == CacheType::kBf16) return run_attend_tiles_of<field::Bf16>(args, stream);
  }
  return false;
}

}  // namespace strata::device
