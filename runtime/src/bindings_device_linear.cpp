// Device kernels that read weights; see bindings_device.cpp.
#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include "bindings.hpp"
#include "strata/device/quantize_rows.hpp"
#include "strata/device/run_products.hpp"
#include "strata/weights.hpp"

namespace py = pybind11;

namespace strata {
namespace {

using device::Plan;
using device::Stream;
using Address = std::uintptr_t;

// As in strata_runtime.native_device: format, rows, columns, address, scale.
using DeviceMatrix = std::tuple<std::string, int, int, Address, float>;

// Launches as few kernels as formats and columns allow, in the order in which they first appear.
void window_linear(const std::vector<std::pair<DeviceMatrix, Address>>& matrices, int tokens, Address x, Address q,
                   bool accumulate, Stream stream) {
  using Args = device::WindowLinearCommon::Args;
  std::vector<std::pair<const formats::Info*, Args>> launches;
  for (const auto& [matrix, out] : matrices) {
    const auto& [name, rows, columns, address, scale] = matrix;
    const formats::Info& format = format_named(name);
    const auto fits = [&, columns = columns](const auto& launch) {
      return launch.first == &format && launch.second.columns == columns &&
             launch.second.matrices < device::WindowLinearCommon::kMatrices;
    };
    auto found = std::find_if(launches.begin(), launches.end(), fits);
    if (found == launches.end()) {
      launches.push_back({&format,
                          {.x = pointer<const float>(x),
                           .q = pointer<const std::byte>(q),
                           .tokens = tokens,
                           .columns = columns,
                           .accumulate = accumulate}});
      found = launches.end() - 1;
    }
    Args& args = found->second;
    args.weights[args.matrices] = pointer<const std::byte>(address);
    args.out[args.matrices] = pointer<float>(out);
    args.rows[args.matrices] = rows;
    args.scale[args.matrices] = scale;
    ++args.matrices;
  }
  for (const auto& [format, args] : launches) device::run_window_linear(*format, args, stream);
}

void expert_gate_up(const std::string& format, int tokens, int top_k, int hidden, int width, Address plan,
                    Address slots, std::int64_t slot_stride, std::int64_t gate_offset, std::int64_t up_offset,
                    Address gate_scale, Address up_scale, Address x, Address q, Address middle, Address middle_q,
                    Stream stream, bool from_host) {
  device::run_expert_gate_up(format_named(format),
                             {.plan = pointer<const Plan>(plan),
                              .slots = pointer<const std::byte>(slots),
                              .gate_scale = pointer<const float>(gate_scale),
                              .up_scale = pointer<const float>(up_scale),
                              .x = pointer<const float>(x),
                              .q = pointer<const std::byte>(q),
                              .middle = pointer<float>(middle),
                              .middle_q = pointer<std::byte>(middle_q),
                              .slot_stride = slot_stride,
                              .gate_offset = gate_offset,
                              .up_offset = up_offset,
                              .tokens = tokens,
                              .top_k = top_k,
                              .hidden = hidden,
                              .width = width,
                              .from_host = from_host},
                             stream);
}

void expert_down(const std::string& format, int tokens, int top_k, int hidden, int width, Address plan, Address slots,
                 std::int64_t slot_stride, std::int64_t down_offset, Address down_scale, Address middle,
                 Address middle_q, Address rows, Stream stream, bool from_host) {
  device::run_expert_down(format_named(format),
                          {.plan = pointer<const Plan>(plan),
                           .slots = pointer<const std::byte>(slots),
                           .down_scale = pointer<const float>(down_scale),
                           .middle = pointer<const float>(middle),
                           .middle_q = pointer<const std::byte>(middle_q),
                           .rows = pointer<float>(rows),
                           .slot_stride = slot_stride,
                           .down_offset = down_offset,
                           .tokens = tokens,
                           .top_k = top_k,
                           .hidden = hidden,
                           .width = width,
                           .from_host = from_host},
                          stream);
}

void quantize_rows(int rows, int columns, Address x, Address q, Stream stream) {
  device::run<device::QuantizeRows>(
      {.x = pointer<const float>(x), .q = pointer<std::byte>(q), .rows = rows, .columns = columns}, stream);
}

device::FloatType float_type(const std::string& name) {
  if (name == "f32") return device::FloatType::kF32;
  if (name == "bf16") return device::FloatType::kBf16;
  if (name == "f16") return device::FloatType::kF16;
  throw std::invalid_argument("floats are 'f32', 'bf16' or 'f16', not '" + name + "'");
}

void to_floats(const DeviceMatrix& matrix, const std::string& dtype, Address out, Stream stream) {
  const auto& [name, rows, columns, address, scale] = matrix;
  device::run_to_floats(format_named(name),
                        {.matrix = pointer<const std::byte>(address),
                         .out = reinterpret_cast<void*>(out),
                         .scale = scale,
                         .count = 1,
                         .rows = rows,
                         .columns = columns,
                         .type = float_type(dtype)},
                        stream);
}

void to_floats_many(const std::string& format, int rows, int columns, Address addresses, int count, Address scales,
                    const std::string& dtype, Address out, Stream stream) {
  device::run_to_floats(format_named(format),
                        {.matrices = pointer<const std::int64_t>(addresses),
                         .scales = pointer<const float>(scales),
                         .out = reinterpret_cast<void*>(out),
                         .scale = 1.0f,
                         .count = count,
                         .rows = rows,
                         .columns = columns,
                         .type = float_type(dtype)},
                        stream);
}

std::size_t matrix_bytes(const std::string& format, std::int64_t rows, std::int64_t columns) {
  return device::device_matrix_bytes(format_named(format), size(rows, "rows"), size(columns, "columns"));
}

void arrange_matrix(const std::string& format, std::int64_t rows, std::int64_t columns, Address stored, Address out) {
  device::arrange_device_matrix(format_named(format), size(rows, "rows"), size(columns, "columns"),
                                pointer<const std::byte>(stored), pointer<std::byte>(out));
}

}  // namespace

void bind_device_linear(py::module_& device) {
  using py::arg;
  const py::call_guard<py::gil_scoped_release> released;
  device.def("linear", window_linear, released, arg("matrices"), arg("tokens"), arg("x"), arg("q"), arg("accumulate"),
             arg("stream"));
  device.def("expert_gate_up", expert_gate_up, released, arg("format"), arg("tokens"), arg("top_k"), arg("hidden"),
             arg("width"), arg("plan"), arg("slots"), arg("slot_stride"), arg("gate_offset"), arg("up_offset"),
             arg("gate_scale"), arg("up_scale"), arg("x"), arg("q"), arg("middle"), arg("middle_q"), arg("stream"),
             arg("from_host") = false);
  device.def("expert_down", expert_down, released, arg("format"), arg("tokens"), arg("top_k"), arg("hidden"),
             arg("width"), arg("plan"), arg("slots"), arg("slot_stride"), arg("down_offset"), arg("down_scale"),
             arg("middle"), arg("middle_q"), arg("rows"), arg("stream"), arg("from_host") = false);
  device.def("quantize_rows", quantize_rows, released, arg("rows"), arg("columns"), arg("x"), arg("q"), arg("stream"));
  device.def("to_floats", to_floats, released, arg("matrix"), arg("dtype"), arg("out"), arg("stream"));
  device.def("to_floats_many", to_floats_many, released, arg("format"), arg("rows"), arg("columns"), arg("addresses"),
             arg("count"), arg("scales"), arg("dtype"), arg("out"), arg("stream"));
  device.def("matrix_bytes", matrix_bytes, arg("format"), arg("rows"), arg("columns"));
  device.def("arrange", arrange_matrix, released, arg("format"), arg("rows"), arg("columns"), arg("stored"),
             arg("out"));
}

}  // namespace strata
