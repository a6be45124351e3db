// Points that a format's integers are looked up in, four values each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

// `points` holds a value per byte, the first one lowest. `pairs` holds the same values, which are below 16, two a byte:
// pairs[0] the first and the second, pairs[1] the third and the fourth. `codes` holds, a byte each, which of the grid's
// levels a value is.
struct Grid {
  static constexpr std::size_t kPoints = 512;

  alignas(64) std::uint32_t points[kPoints];
  alignas(64) std::uint8_t pairs[2][kPoints];
  alignas(64) std::uint32_t codes[kPoints];
};

// Points as constants, for copies inside functions: compilers for GPUs give a function's own constants to both sides.
struct GridPoints {
  std::uint32_t value[Grid::kPoints];
};

template <std::size_t Levels>
consteval Grid make_grid(const std::uint8_t (&levels)[Levels], const std::uint32_t (&points)[Grid::kPoints]) {
  Grid grid{};
  for (std::size_t i = 0; i < Grid::kPoints; ++i) {
    grid.points[i] = points[i];
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint32_t two = points[i] >> (16 * half);
      grid.pairs[half][i] = static_cast<std::uint8_t>((two & 0xfu) | (two >> 4 & 0xf0u));
    }
    for (std::size_t corner = 0; corner < 4; ++corner) {
      std::uint32_t code = 0;
      while (levels[code] != (points[i] >> (8 * corner) & 0xffu)) ++code;
      grid.codes[i] |= code << (8 * corner);
    }
  }
  return grid;
}

}  // namespace strata
