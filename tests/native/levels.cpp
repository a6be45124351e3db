// The choice of a level on a made-up CPU: the arguments are the features that it has. Kernels end the program.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "strata/kernels/level.hpp"

namespace strata {
namespace {

constexpr std::array<std::pair<const char*, CpuFeatures>, 7> kFeatures{{{"sse4.2", kSse42},
                                                                        {"popcnt", kPopcnt},
                                                                        {"avx2", kAvx2},
                                                                        {"fma", kFma},
                                                                        {"avx512f", kAvx512F},
                                                                        {"avx512bw", kAvx512Bw},
                                                                        {"avx512vnni", kAvx512Vnni}}};

CpuFeatures made_up = 0;

constexpr CpuFeatures kWeakest = kSse42 | kPopcnt;
constexpr CpuFeatures kSecond = kWeakest | kAvx2 | kFma;
constexpr CpuFeatures kThird = kSecond | kAvx512F | kAvx512Bw;

constexpr LevelKernels level(const char* name, const char* isa, CpuFeatures needs) {
  LevelKernels kernels{};
  kernels.name = name;
  kernels.isa = isa;
  kernels.needs = needs;
  kernels.silu_multiply = {"silu_multiply", [](float*, const float*, std::size_t) { std::abort(); }};
  return kernels;
}

constexpr std::array kLevels{level("level 0", "generic", kWeakest), level("level 1", "avx2", kSecond),
                             level("level 2", "avx512", kThird), level("level 3", "avx512vnni", kThird | kAvx512Vnni)};
constexpr std::array<const LevelKernels*, 4> kList{&kLevels[0], &kLevels[1], &kLevels[2], &kLevels[3]};

}  // namespace

CpuFeatures host_features() { return made_up; }

std::string feature_names(CpuFeatures features) {
  std::string names;
  for (const auto& [name, feature] : kFeatures) {
    if ((features & feature) != 0) names += (names.empty() ? "" : " ") + std::string(name);
  }
  return names;
}

std::span<const LevelKernels* const> all_levels() { return kList; }

}  // namespace strata

int main(int count, char** arguments) {
  for (const auto& [name, feature] : strata::kFeatures) {
    for (int i = 1; i < count; ++i) strata::made_up |= std::string(name) == arguments[i] ? feature : 0;
  }
  try {
    std::printf("best: %s\n", strata::best_level().isa);
  } catch (const std::runtime_error& problem) {
    std::printf("best: %s\n", problem.what());
  }
  for (const strata::LevelKernels* level : strata::all_levels()) {
    try {
      const bool is_same = &strata::level_named(level->isa) == level && strata::runs_here(*level);
      std::printf("%s: %s\n", level->isa, is_same ? "runs" : "is confused");
    } catch (const std::invalid_argument& problem) {
      std::printf("%s: %s\n", level->isa, problem.what());
    }
  }
  return 0;
}
