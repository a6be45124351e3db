// Device kernels between the products of a layer.
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "strata/device/add_rows.hpp"
#include "strata/device/append_heads.hpp"
#include "strata/device/argmax_rows.hpp"
#include "strata/device/combine.hpp"
#include "strata/device/norm_rows.hpp"
#include "strata/device/run.hpp"
#include "strata/device/run_attention.hpp"
#include "strata/device/run_embed.hpp"
#include "strata/device/silu_rows.hpp"
#include "strata/weights.hpp"

namespace py = pybind11;

namespace strata {
namespace {

using device::CacheType;
using device::run;
using device::Stream;
using Address = std::uintptr_t;

// Query heads, heads of keys and values, elements of a head.
using Shape = std::tuple<int, int, int>;
// Weights of the queries' and the keys' norm, its epsilon, the scale of queries, rotated elements.
using Rules = std::tuple<Address, Address, float, float, int>;
// Address, stored type, capacity.
using Cache = std::tuple<Address, std::string, int>;

CacheType cache_type(const std::string& name) {
  if (name == "f32") return CacheType::kF32;
  if (name == "f16") return CacheType::kF16;
  if (name == "bf16") return CacheType::kBf16;
  throw std::invalid_argument("a cache is of 'f32', 'f16' or 'bf16', not '" + name + "'");
}

device::Heads heads_of(const Shape& shape, int tokens, int capacity) {
  const auto& [heads, kv_heads, dim] = shape;
  return {.tokens = tokens, .heads = heads, .kv_heads = kv_heads, .dim = dim, .capacity = capacity};
}

// Blocks of bytes that kernels read and write several at a time.
struct alignas(16) Line {
  std::byte bytes[16];
};

std::byte* lines(Address address) { return reinterpret_cast<std::byte*>(pointer<Line>(address)); }

void norm_rows(int rows, int columns, Address x, Address weight, float eps, Address out, Address q, Stream stream) {
  run<device::NormRows>({.x = pointer<const float>(x),
                         .weight = pointer<const float>(weight),
                         .out = pointer<float>(out),
                         .q = lines(q),
                         .eps = eps,
                         .rows = rows,
                         .columns = columns},
                        stream);
}

void silu_rows(int rows, int columns, Address gate, Address up, Address out, Address q, Stream stream) {
  run<device::SiluRows>({.gate = pointer<const float>(gate),
                         .up = pointer<const float>(up),
                         .out = pointer<float>(out),
                         .q = lines(q),
                         .rows = rows,
                         .columns = columns},
                        stream);
}

void add(int count, Address x, Address out, Stream stream) {
  run<device::AddRows>({.x = pointer<const float>(x), .out = pointer<float>(out), .count = count}, stream);
}

void argmax(int rows, int columns, Address x, Address out, Stream stream) {
  run<device::ArgmaxRows>(
      {.x = pointer<const float>(x), .out = pointer<std::int32_t>(out), .rows = rows, .columns = columns}, stream);
}

void embed(const std::string& format, int columns, Address table, Address ids, int tokens, Address out, Stream stream) {
  device::run_embed(format_named(format),
                    {.table = pointer<const std::byte>(table),
                     .ids = pointer<const std::int32_t>(ids),
                     .out = pointer<float>(out),
                     .tokens = tokens,
                     .columns = columns},
                    stream);
}

void combine(int tokens, int top_k, int hidden, Address rows, Address weights, Address residual, Stream stream) {
  run<device::Combine>({.rows = pointer<const float>(rows),
                        .weights = pointer<const float>(weights),
                        .residual = pointer<float>(residual),
                        .tokens = tokens,
                        .top_k = top_k,
                        .hidden = hidden},
                       stream);
}

void append_heads(const Shape& shape, const Rules& rules, const Cache& cache, int tokens, Address position,
                  Address angles, Address queries, Address keys, Address values, Stream stream) {
  const auto& [query_norm, key_norm, eps, scale, rope_dim] = rules;
  const auto& [address, type, capacity] = cache;
  run<device::AppendHeads>({.query_norm = pointer<const float>(query_norm),
                            .key_norm = pointer<const float>(key_norm),
                            .angles = pointer<const float>(angles),
                            .position = pointer<const std::int32_t>(position),
                            .cache = lines(address),
                            .queries = pointer<float>(queries),
                            .keys = pointer<const float>(keys),
                            .values = pointer<const float>(values),
                            .shape = heads_of(shape, tokens, capacity),
                            .type = cache_type(type),
                            .eps = eps,
                            .scale = scale,
                            .rope_dim = rope_dim},
                           stream);
}

void attend_window(const Shape& shape, const Cache& cache, int tokens, Address position, Address queries, Address out,
                   Address out_q, Address workspace, Stream stream) {
  const auto& [address, type, capacity] = cache;
  device::run_attend({.cache = lines(address),
                      .position = pointer<const std::int32_t>(position),
                      .queries = pointer<const float>(queries),
                      .partials = pointer<float>(workspace),
                      .shape = heads_of(shape, tokens, capacity),
                      .type = cache_type(type)},
                     pointer<float>(out), lines(out_q), stream);
}

std::int64_t attend_workspace(const Shape& shape, int tokens, int capacity) {
  const device::Heads heads = heads_of(shape, tokens, capacity);
  if (const char* reason = heads.refusal()) throw std::invalid_argument(std::string("attend_workspace: ") + reason);
  return device::Partials::bytes(heads);
}

}  // namespace

void bind_device_layers(py::module_& device) {
  using py::arg;
  const py::call_guard<py::gil_scoped_release> released;
  device.def("rms_norm", norm_rows, released, arg("rows"), arg("columns"), arg("x"), arg("weight"), arg("eps"),
             arg("out"), arg("q"), arg("stream"));
  device.def("silu_multiply", silu_rows, released, arg("rows"), arg("columns"), arg("gate"), arg("up"), arg("out"),
             arg("q"), arg("stream"));
  device.def("add", add, released, arg("count"), arg("x"), arg("out"), arg("stream"));
  device.def("argmax", argmax, released, arg("rows"), arg("columns"), arg("x"), arg("out"), arg("stream"));
  device.def("embed", embed, released, arg("format"), arg("columns"), arg("table"), arg("ids"), arg("tokens"),
             arg("out"), arg("stream"));
  device.def("combine", combine, released, arg("tokens"), arg("top_k"), arg("hidden"), arg("rows"), arg("weights"),
             arg("residual"), arg("stream"));
  device.def("prepare_heads", append_heads, released, arg("shape"), arg("rules"), arg("cache"), arg("tokens"),
             arg("position"), arg("angles"), arg("queries"), arg("keys"), arg("values"), arg("stream"));
  device.def("attend", attend_window, released, arg("shape"), arg("cache"), arg("tokens"), arg("position"),
             arg("queries"), arg("out"), arg("out_q"), arg("workspace"), arg("stream"));
  device.def("attend_workspace", attend_workspace, arg("shape"), arg("tokens"), arg("capacity"));
}

}  // namespace strata
