// Micro-kernels one at a time, by their canonical names: for tests and benchmarks.
#include <array>
#include <string>
#include <variant>

#include "bindings.hpp"
#include "inputs.hpp"
#include "named_kernels.hpp"
#include "strata/weights.hpp"

namespace py = pybind11;

namespace strata {
namespace {

// Names of the micro-kernels that each level uses, by instruction set; also of levels that this CPU cannot run.
py::dict kernel_names() {
  py::dict names;
  for (const LevelKernels* level : all_levels()) {
    py::list own;
    for (const NamedKernel& kernel : kernels_of(*level)) own.append(kernel.name());
    names[level->isa] = py::tuple(own);
  }
  return names;
}

template <class Function>
Function function_of(const NamedKernel& kernel, const char* what) {
  if (const auto* function = std::get_if<Function>(&kernel.function)) return *function;
  throw std::invalid_argument(std::string(kernel.name()) + " is no instance of " + what);
}

void bind_rows_dot(const std::string& name, std::int64_t rows, std::int64_t columns, std::uintptr_t weights,
                   std::uintptr_t x, std::uintptr_t out) {
  const NamedKernel kernel = kernel_named(name);
  const auto rows_dot = function_of<RowsDot>(kernel, "rows_dot");
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const Inputs inputs{pointer<const std::byte>(x), input_bytes(kernel.activation, wide)};
  std::array<const std::byte*, kMaxTokens> from{};
  std::array<float*, kMaxTokens> to{};
  for (std::size_t token = 0; token < kernel.tokens; ++token) {
    from[token] = inputs[token];
    to[token] = pointer<float>(out) + token * count;
  }
  const py::gil_scoped_release release;
  rows_dot({pointer<const std::byte>(weights), row_bytes(*kernel.format, wide), count, wide, from.data(), to.data()});
}

// Returns the bytes of a prepared input; writes it unless `out` is 0.
std::size_t bind_quantize_input(const std::string& name, std::int64_t columns, std::uintptr_t x, std::uintptr_t out) {
  const NamedKernel kernel = kernel_named(name);
  const auto quantize_input = function_of<Quantize>(kernel, "quantize_input");
  const std::size_t wide = size(columns, "columns");
  const std::size_t block = input_block(kernel.activation);
  if (wide % block != 0) throw std::invalid_argument(name + ": blocks of " + std::to_string(block) + " values");
  const py::gil_scoped_release release;
  if (out != 0) quantize_input(pointer<const float>(x), 0, wide / block, wide, pointer<std::byte>(out));
  return input_bytes(kernel.activation, wide);
}

void bind_silu_multiply(const std::string& name, std::int64_t count, std::uintptr_t gate, std::uintptr_t up) {
  const auto silu_multiply = function_of<SiluMultiply>(kernel_named(name), "silu_multiply");
  const std::size_t values = size(count, "count");
  const py::gil_scoped_release release;
  silu_multiply(pointer<float>(gate), pointer<const float>(up), values);
}

}  // namespace

void bind_kernels(py::module_& module) {
  module.def("kernel_names", kernel_names);
  module.def("rows_dot", bind_rows_dot, py::arg("name"), py::arg("rows"), py::arg("columns"), py::arg("weights"),
             py::arg("x"), py::arg("out"));
  module.def("quantize_input", bind_quantize_input, py::arg("name"), py::arg("columns"), py::arg("x"), py::arg("out"));
  module.def("silu_multiply", bind_silu_multiply, py::arg("name"), py::arg("count"), py::arg("gate"), py::arg("up"));
}

}  // namespace strata
