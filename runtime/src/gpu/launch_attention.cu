// Launches of attention by tiles, on targets that have them.
#include <type_traits>

#include "strata/device/attend_square_tiles.hpp"
#include "strata/device/attend_tiles.hpp"
#include "strata/device/run.hpp"
#include "strata/device/run_attend_tiles.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/launch_gpu.hpp"
#include "strata/simt/tile_gpu.hpp"

namespace strata::device {
namespace {

using target::MatrixLanes;

// The kernel for a kind of matrix instruction.
template <MatrixLanes Lanes, class Type, int Dim>
struct TilesBy;
template <class Type, int Dim>
struct TilesBy<MatrixLanes::kMma, Type, Dim> : std::type_identity<AttendTiles<Type, Dim>> {};
template <class Type, int Dim>
struct TilesBy<MatrixLanes::kWmma, Type, Dim> : std::type_identity<AttendSquareTiles<Type, Dim, simt::Wmma>> {};
template <class Type, int Dim>
struct TilesBy<MatrixLanes::kWmmaGfx12, Type, Dim> : std::type_identity<AttendSquareTiles<Type, Dim, simt::WmmaGfx12>> {
};
template <class Type, int Dim>
struct TilesBy<MatrixLanes::kMfma, Type, Dim> : std::type_identity<AttendSquareTiles<Type, Dim, simt::Mfma>> {};

template <MatrixLanes Lanes, class Type>
bool run_type(const AttendArgs& args, Stream stream) {
  switch (args.shape.dim) {
    case 32:
      run<typename TilesBy<Lanes, Type, 32>::type>(args, stream);
      return true;
    case 64:
      run<typename TilesBy<Lanes, Type, 64>::type>(args, stream);
      return true;
    case 128:
      run<typename TilesBy<Lanes, Type, 128>::type>(args, stream);
      return true;
    default:
      return false;
  }
}

template <MatrixLanes Lanes, bool HasTiles>
bool run_tiles(const AttendArgs& args, Stream stream) {
  if constexpr (HasTiles) {
    if (args.type == CacheType::kF16) return run_type<Lanes, field::F16>(args, stream);
    if (args.type == CacheType::kBf16) return run_type<Lanes, field::Bf16>(args, stream);
  }
  return false;
}

}  // namespace

bool run_attend_tiles(const AttendArgs& args, Stream stream) {
  return run_tiles<target::kMatrixLanes, kAttendsByTiles>(args, stream);
}

}  // namespace strata::device
