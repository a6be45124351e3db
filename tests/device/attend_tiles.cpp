#include "attend_tiles.hpp"

#include "emulated_tiles.hpp"
#include "strata/device/attend_square_tiles.hpp"
#include "strata/device/attend_tiles.hpp"

namespace strata::device_tests {
namespace {

template <class Launch>
void with_heads(const device::AttendArgs& args, const Launch& launch) {
  if (args.type == device::CacheType::kBf16) {
    launch.template operator()<field::Bf16, 32>();
  } else if (args.shape.dim == 64) {
    launch.template operator()<field::F16, 64>();
  } else {
    launch.template operator()<field::F16, 128>();
  }
}

template <class Lanes>
void attend_square_tiles(const Job& job, const device::AttendArgs& args) {
  with_heads(args, [&]<class Type, int Dim>() {
    emulator::launch<device::AttendSquareTiles<Type, Dim, Lanes>, Lanes::kWave>(args, job.seed);
  });
}

}  // namespace

void attend_tiles(const Job& job, Tiles tiles, const device::AttendArgs& args) {
  switch (tiles) {
    case Tiles::kNone:
      throw std::invalid_argument("no tiles");
    case Tiles::kMma:
      return with_heads(
          args, [&]<class Type, int Dim>() { emulator::launch<device::AttendTiles<Type, Dim>, 32>(args, job.seed); });
    case Tiles::kWmma:
      return attend_square_tiles<simt::Wmma>(job, args);
    case Tiles::kWmmaGfx12:
      return attend_square_tiles<simt::WmmaGfx12>(job, args);
    case Tiles::kMfma:
      return attend_square_tiles<simt::Mfma>(job, args);
  }
}

}  // namespace strata::device_tests
