#include "strata/grid_quants.hpp"

#include <algorithm>
#include <limits>

namespace strata::quants {
namespace {

// The numbers that belong to one level.
struct Slot {
  float low;
  float middle;
  float high;
};

using Cell = std::array<Slot, 4>;

float distance(const Cell& cell, Float4 point) {
  float total = 0;
  for (std::size_t i = 0; i < 4; ++i) total += (cell[i].middle - point[i]) * (cell[i].middle - point[i]);
  return total;
}

// Whether no number in the cell is nearer to `other` than to `point`.
bool rules_out(const Cell& cell, Float4 point, Float4 other) {
  float most = 0;  // of the difference of the squared distances over the cell: it is linear in each number
  for (std::size_t i = 0; i < 4; ++i) {
    const float apart = 2 * (other[i] - point[i]);
    const float at = apart > 0 ? cell[i].high : cell[i].low;
    if (apart != 0) most += at * apart + (point[i] * point[i] - other[i] * other[i]);
  }
  return most <= 0;
}

std::vector<std::uint16_t> candidates(const Cell& cell, const std::array<Float4, Grid::kPoints>& points) {
  std::uint16_t middle = 0;  // nearest to the cell's middle: rules out most of the others
  std::vector<std::uint16_t> few;
  for (std::uint16_t i = 0; i < points.size(); ++i) {
    if (distance(cell, points[i]) < distance(cell, points[middle])) middle = i;
  }
  for (std::uint16_t i = 0; i < points.size(); ++i) {
    if (i == middle || !rules_out(cell, points[middle], points[i])) few.push_back(i);
  }
  std::vector<std::uint16_t> found;
  for (const std::uint16_t one : few) {
    const bool beaten = std::any_of(few.begin(), few.end(), [&](std::uint16_t other) {
      if (other == one || !rules_out(cell, points[other], points[one])) return false;
      return other < one || !rules_out(cell, points[one], points[other]);
    });
    if (!beaten) found.push_back(one);
  }
  return found;
}

}  // namespace

GridCells::GridCells(const Grid& grid, const std::vector<float>& levels) {
  for (std::size_t i = 0; i < Grid::kPoints; ++i) {
    for (std::size_t k = 0; k < 4; ++k) points_[i][k] = static_cast<float>(grid.points[i] >> (8 * k) & 0xffu);
  }
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) ends_.push_back(0.5f * (levels[i] + levels[i + 1]));
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const float high = i < ends_.size() ? ends_[i] : std::numeric_limits<float>::infinity();
    slots.push_back({i > 0 ? ends_[i - 1] : 0.0f, levels[i], high});
  }
  begins_.push_back(0);
  for (const Slot& a : slots) {
    for (const Slot& b : slots) {
      for (const Slot& c : slots) {
        for (const Slot& d : slots) {
          const std::vector<std::uint16_t> found = candidates({a, b, c, d}, points_);
          candidates_.insert(candidates_.end(), found.begin(), found.end());
          begins_.push_back(static_cast<std::uint32_t>(candidates_.size()));
        }
      }
    }
  }
}

}  // namespace strata::quants
