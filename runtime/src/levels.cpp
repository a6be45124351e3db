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

const LevelKernels& level_named(const std::string& name) {
  std::string known;
  for (const LevelKernels* level : all_levels()) {
    if (name == level->name) {
      if (missing(*level).empty()) return *level;
      throw std::invalid_argument("this CPU lacks " + missing(*level) + ", which kernels of level " + name + " need");
    }
    known += (known.empty() ? "" : ", ") + std::string(level->name);
  }
  throw std::invalid_argument("unknown kernel level '" + name + "': this package has " + known);
}

}  // namespace strata
