// The kernels of one instruction set as a table of plain addresses: reading it runs none of them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "strata/cpu_features.hpp"
#include "strata/gen/formats.hpp"
#include "strata/gen/knobs.hpp"
#include "strata/kernels/rows_dot.hpp"

namespace strata {

// Most tokens that one call of a micro-kernel takes.
inline constexpr std::size_t kMaxTokens = static_cast<std::size_t>(window_max_tokens);

// Kernels of one format: `rows_dot[n - 1]` takes n tokens.
struct FormatKernels {
  std::array<RowsDot, kMaxTokens> rows_dot;
};

struct LevelKernels {
  const char* name;
  const char* isa;
  CpuFeatures needs;
  void (*silu_multiply)(float* gate, const float* up, std::size_t count);
  void (*quantize_int8)(const float* x, std::size_t first, std::size_t blocks, std::size_t columns, std::byte* row);
  std::array<const FormatKernels*, formats::kCount> formats;  // indexed by formats::Info::id
};

// Levels in the library, weakest first.
std::span<const LevelKernels* const> all_levels();

// The strongest level that this CPU can run. Throws std::runtime_error naming what is missing when there is none.
const LevelKernels& best_level();

// The level of an instruction set by its name. Throws std::invalid_argument when it is not in the library or this CPU
// cannot run it.
const LevelKernels& level_named(std::string_view isa);

// Whether this CPU has all that a level needs.
bool runs_here(const LevelKernels& level);

}  // namespace strata
