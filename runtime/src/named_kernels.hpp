// Instances of micro-kernels by their canonical names: what tests and benchmarks call a single one through.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/formats.hpp"
#include "strata/kernels/level.hpp"

namespace strata {

// One entry of a level's tables. `format` is null and `tokens` 0 for kernels that no format or number tells apart;
// `activation` is the form that a kernel takes or makes, `interleaved` the compute layout that it reads or makes.
struct NamedKernel {
  std::variant<RowsDot, AttendSpanKernel, Quantize, SiluMultiply, XorWords, Interleave> function;
  const formats::Info* format = nullptr;
  std::size_t tokens = 0;
  Activation activation = Activation::kFloat;
  const InterleavedKernels* interleaved = nullptr;

  const char* name() const;
};

// What a level uses, as its tables have it. Some instances are of a weaker level, which serves for both.
std::vector<NamedKernel> kernels_of(const LevelKernels& level);

// The instance `name`. Throws std::invalid_argument when no level of this package uses it, and when this CPU runs none
// of those that do.
NamedKernel kernel_named(std::string_view name);

}  // namespace strata
