#include <stdexcept>
#include <string>

#include "strata/kernels/level.hpp"

namespace strata {
namespace {

std::string missing(const LevelKernels& level) { return feature_names(level.needs & ~host_features()); }

}  // namespace

const LevelKernels& best_level() {
  const auto levels = all_levels();
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    if (missing(**level).empty()) return **level;
  }
  throw std::runtime_error("this CPU lacks " + missing(*levels.front()) +
                           ", which the weakest kernels of this package (" + levels.front()->name + ") need");
}

const LevelKernels& level_named(std::string_view isa) {
  std::string known;
  for (const LevelKernels* level : all_levels()) {
    if (isa == level->isa) {
      if (missing(*level).empty()) return *level;
      throw std::invalid_argument("this CPU lacks " + missing(*level) + ", which the " + level->isa + " kernels need");
    }
    known += (known.empty() ? "" : ", ") + std::string(level->isa);
  }
  throw std::invalid_argument("no kernels for '" + std::string(isa) + "': this package has " + known);
}

bool runs_here(const LevelKernels& level) { return missing(level).empty(); }

}  // namespace strata
