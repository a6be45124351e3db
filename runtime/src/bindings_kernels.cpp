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

// Rows as they are stored for rows_dot, whole groups in the compute layout for the others.
void bind_dot(const std::string& name, std::int64_t rows, std::int64_t columns, std::uintptr_t weights,
              std::uintptr_t x, std::uintptr_t out) {
  const NamedKernel kernel = kernel_named(name);
  const auto dot = function_of<RowsDot>(kernel, "a dot kernel");
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const Inputs inputs{pointer<const std::byte>(x), input_bytes(kernel.activation, wide)};
  std::array<const std::byte*, kMaxTokens> from{};
  std::array<float*, kMaxTokens> to{};
  for (std::size_t token = 0; token < kernel.tokens; ++token) {
    from[token] = inputs[token];
    to[token] = pointer<float>(out) + token * count;
  }
  std::size_t bytes = row_bytes(*kernel.format, wide);
  if (kernel.interleaved != nullptr) {
    if (count % kernel.interleaved->rows != 0) throw std::invalid_argument(name + " takes whole groups of rows");
    bytes = bytes / kernel.format->bytes * kernel.interleaved->block_bytes;
  }
  const py::gil_scoped_release release;
  dot({pointer<const std::byte>(weights), bytes, count, wide, from.data(), to.data()});
}

void bind_interleave(const std::string& name, std::int64_t columns, std::uintptr_t blocks, std::uintptr_t out) {
  const NamedKernel kernel = kernel_named(name);
  const auto interleave = function_of<Interleave>(kernel, "interleave");
  const std::size_t bytes = row_bytes(*kernel.format, size(columns, "columns"));
  const py::gil_scoped_release release;
  interleave(pointer<const std::byte>(blocks), bytes, bytes / kernel.format->bytes, pointer<std::byte>(out));
}

std::uint64_t bind_xor_words(const std::string& name, std::uintptr_t data, std::uint64_t words) {
  const auto xor_words = function_of<XorWords>(kernel_named(name), "xor_words");
  const py::gil_scoped_release release;
  std::uint64_t result;
  xor_words(pointer<const std::byte>(data), words, &result);
  return result;
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

// Parts of attention over one span: maxima and sums [group], out [group, dim].
void bind_attend_span(const std::string& name, std::int64_t group, std::int64_t dim, std::int64_t positions,
                      std::uintptr_t queries, std::uintptr_t keys, std::uintptr_t values, std::uintptr_t maxima,
                      std::uintptr_t sums, std::uintptr_t out) {
  const auto attend_span = function_of<AttendSpanKernel>(kernel_named(name), "attend_span");
  if (positions < 1 || static_cast<std::size_t>(positions) > kSpan) {
    throw std::invalid_argument(name + ": from 1 to " + std::to_string(kSpan) + " positions");
  }
  const AttendSpanArgs args{pointer<const float>(queries), pointer<const float>(keys), pointer<const float>(values),
                            size(group, "group"),          size(dim, "dim"),           size(positions, "positions"),
                            pointer<float>(maxima),        pointer<float>(sums),       pointer<float>(out)};
  const py::gil_scoped_release release;
  attend_span(args);
}

}  // namespace

void bind_kernels(py::module_& module) {
  module.def("kernel_names", kernel_names);
  for (const char* kernel : {"rows_dot", "interleaved_dot", "interleaved_dot_ahead"}) {
    module.def(kernel, bind_dot, py::arg("name"), py::arg("rows"), py::arg("columns"), py::arg("weights"), py::arg("x"),
               py::arg("out"));
  }
  module.def("interleave", bind_interleave, py::arg("name"), py::arg("columns"), py::arg("blocks"), py::arg("out"));
  module.def("xor_words", bind_xor_words, py::arg("name"), py::arg("data"), py::arg("words"));
  module.def("quantize_input", bind_quantize_input, py::arg("name"), py::arg("columns"), py::arg("x"), py::arg("out"));
  module.def("attend_span", bind_attend_span, py::arg("name"), py::arg("group"), py::arg("dim"), py::arg("positions"),
             py::arg("queries"), py::arg("keys"), py::arg("values"), py::arg("maxima"), py::arg("sums"),
             py::arg("out"));
  module.def("silu_multiply", bind_silu_multiply, py::arg("name"), py::arg("count"), py::arg("gate"), py::arg("up"));
}

}  // namespace strata
