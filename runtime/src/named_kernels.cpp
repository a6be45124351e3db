#include "named_kernels.hpp"

#include <span>
#include <stdexcept>
#include <string>

namespace strata {

const char* NamedKernel::name() const {
  return std::visit([](const auto& kernel) { return kernel.name; }, function);
}

std::vector<NamedKernel> kernels_of(const LevelKernels& level) {
  std::vector<NamedKernel> found{
      {level.attend_span, nullptr, 0, Activation::kFloat},
      {level.quantize_input_int8, nullptr, 0, Activation::kInt8},
      {level.quantize_input_int8_256, nullptr, 0, Activation::kInt8x256},
      {level.silu_multiply, nullptr, 0, Activation::kFloat},
      {level.xor_words, nullptr, 0, Activation::kFloat},
  };
  for (const formats::Info& format : formats::all()) {
    std::size_t tokens = 0;
    for (const RowsDot& kernel : level.formats[format.id]->rows_dot) {
      found.push_back({kernel, &format, ++tokens, format.activation});
    }
    const InterleavedKernels* interleaved = level.formats[format.id]->interleaved;
    if (interleaved == nullptr) continue;
    found.push_back({interleaved->interleave, &format, 0, format.activation, interleaved});
    for (const std::span<const RowsDot> dots :
         {std::span<const RowsDot>(interleaved->interleaved_dot), interleaved->interleaved_dot_ahead}) {
      tokens = 0;
      for (const RowsDot& dot : dots) found.push_back({dot, &format, ++tokens, format.activation, interleaved});
    }
  }
  return found;
}

NamedKernel kernel_named(std::string_view name) {
  std::string lacking;
  for (const LevelKernels* level : all_levels()) {
    for (const NamedKernel& kernel : kernels_of(*level)) {
      if (name != kernel.name()) continue;
      if (runs_here(*level)) return kernel;
      if (lacking.empty()) lacking = feature_names(level->needs & ~host_features());
    }
  }
  throw std::invalid_argument(lacking.empty()
                                  ? "no kernel '" + std::string(name) + "' in this package"
                                  : "this CPU lacks " + lacking + ", which " + std::string(name) + " needs");
}

}  // namespace strata
