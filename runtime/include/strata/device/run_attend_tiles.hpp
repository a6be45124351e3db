// Attention by tiles, on targets that have them.
#pragma once

#include <type_traits>

#include "strata/device/attend_square_tiles.hpp"
#include "strata/device/attend_tiles.hpp"
#include "strata/device/run.hpp"
#include "strata/gen/target.hpp"
#include "strata/scalar.hpp"

namespace strata::device {

// The kernel for a kind of matrix instruction.
template <target::MatrixLanes Lanes, class Type, int Dim>
struct TilesBy {};
template <class Type, int Dim>
struct TilesBy<target::MatrixLanes::kMma, Type, Dim> : std::type_identity<AttendTiles<Type, Dim>> {};
template <class Type, int Dim>
struct TilesBy<target::MatrixLanes::kWmma, Type, Dim> : std::type_identity<AttendSquareTiles<Type, Dim, simt::Wmma>> {};
template <class Type, int Dim>
struct TilesBy<target::MatrixLanes::kWmmaGfx12, Type, Dim>
    : std::type_identity<AttendSquareTiles<Type, Dim, simt::WmmaGfx12>> {};
template <class Type, int Dim>
struct TilesBy<target::MatrixLanes::kMfma, Type, Dim> : std::type_identity<AttendSquareTiles<Type, Dim, simt::Mfma>> {};

// sm_75 has an instruction of that kind too, but for half of the elements.
inline constexpr bool kAttendsByTiles = target::kMatrixLanes != target::MatrixLanes::kNone &&
                                        (target::kBackend != target::Backend::kCuda || target::kHasAsyncCopy);

// Runs the kernel for heads of the size that the arguments say; returns whether there is one.
template <class Type>
bool run_attend_tiles_of(const AttendTilesArgs& args, Stream stream) {
  switch (args.shape.dim) {
    case 32:
      run<typename TilesBy<target::kMatrixLanes, Type, 32>::type>(args, stream);
      return true;
    case 64:
      run<typename TilesBy<target::kMatrixLanes, Type, 64>::type>(args, stream);
      return true;
    case 128:
      run<typename TilesBy<target::kMatrixLanes, Type, 128>::type>(args, stream);
      return true;
    default:
      return false;
  }
}

// The same for any type of cache. Throws as `run` does.
template <bool HasTiles = kAttendsByTiles>
bool run_attend_tiles(const AttendTilesArgs& args, Stream stream) {
  if constexpr (HasTiles) {
    if (args.type == CacheType::kF16) return run_attend_tiles_of<field::F16>(args, stream);
    if (args.type == CacheType::kBf16) return run_attend_tiles_of<field::Bf16>(args, stream);
  }
  return false;
}

}  // namespace strata::device
