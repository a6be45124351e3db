// The point of a grid that is nearest to four numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/grid.hpp"
#include "strata/quants.hpp"

namespace strata::quants {

// Which points can be the nearest one, for every cell of a lattice over the positive numbers.
//
// `levels` in ascending order are what points are made of. Number i of four lies in the slot of the level nearest to
// it, and four slots are a cell; a point is no candidate when another one is nearer all over the cell.
class GridCells {
 public:
  GridCells(const Grid& grid, const std::vector<float>& levels);

  // The number of a point that is nearest to `x`, which is not negative.
  STRATA_INLINE std::size_t nearest(Float4 x) const {
    Int4 slots{};
    for (const float end : ends_) slots -= x > all(end);
    const auto count = static_cast<std::int32_t>(ends_.size() + 1);
    const std::int32_t cell = ((slots[0] * count + slots[1]) * count + slots[2]) * count + slots[3];
    std::uint32_t at = begins_[static_cast<std::size_t>(cell)];
    const std::uint32_t end = begins_[static_cast<std::size_t>(cell) + 1];
    std::size_t best = candidates_[at];
    float least = distance(x, best);
    for (++at; at < end; ++at) {
      const float other = distance(x, candidates_[at]);
      if (other < least) best = candidates_[at], least = other;
    }
    return best;
  }

  Float4 point(std::size_t index) const { return points_[index]; }

 private:
  STRATA_INLINE float distance(Float4 x, std::size_t point) const {
    const Float4 apart = x - points_[point];
    return sum(apart * apart);
  }

  std::vector<float> ends_;
  std::array<Float4, Grid::kPoints> points_;
  std::vector<std::uint32_t> begins_;
  std::vector<std::uint16_t> candidates_;
};

// Points of `kGrid`, whose values are among kLevels (ascending), with a sign for every value.
template <const Grid& kGrid, int... kLevels>
class Points {
 public:
  static constexpr std::array<int, sizeof...(kLevels)> kList{kLevels...};
  static constexpr float kExtreme = kList.back();
  static constexpr float kBeyond = 2 * kList.back() - kList[kList.size() - 2];

  STRATA_INLINE Float4 nearest(Float4 x) const {
    const Int4 signs = bit_cast<Int4>(x) & INT32_MIN;
    const Float4 point = cells_.point(cells_.nearest(bit_cast<Float4>(bit_cast<Int4>(x) & INT32_MAX)));
    return bit_cast<Float4>(bit_cast<Int4>(point) | signs);
  }

  template <class Encoder>
  void store(std::byte* block, std::size_t first, Float4 x) const {
    const std::size_t point = cells_.nearest(bit_cast<Float4>(bit_cast<Int4>(x) & INT32_MAX));
    Encoder::store_quant(block, first, static_cast<unsigned>(point));
    for (std::size_t lane = 0; lane < 4; ++lane) Encoder::store_sign(block, first + lane, x[lane] < 0 ? 1u : 0u);
  }

 private:
  static const GridCells& cells() {
    static const GridCells made(kGrid, {static_cast<float>(kLevels)...});
    return made;
  }

  const GridCells& cells_ = cells();
};

}  // namespace strata::quants
