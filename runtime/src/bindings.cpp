// The Python module: converts arguments, checks what C++ cannot, and releases the GIL while the pool works.
#include "bindings.hpp"

#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/conversion.hpp"
#include "strata/device/combine.hpp"
#include "strata/gen/knobs.hpp"
#include "strata/kernels/level.hpp"
#include "strata/simt/inline.hpp"

namespace strata {
namespace {

// Version of the protocol in strata_runtime/native.py.
constexpr int kAbiVersion = 14;

PoolOptions pool_options(const Knobs& knobs) {
  const Pinning pinning = knobs.pool_pin == PoolPin::kOn    ? Pinning::kOn
                          : knobs.pool_pin == PoolPin::kOff ? Pinning::kOff
                                                            : Pinning::kAuto;
  return {static_cast<int>(knobs.pool_threads), std::chrono::nanoseconds(knobs.pool_spin), pinning,
          std::chrono::nanoseconds(knobs.verify_timeout)};
}

// Instruction sets that have kernels in this package and run on this CPU, weakest first.
py::tuple runnable_isas() {
  py::list isas;
  for (const LevelKernels* level : all_levels()) {
    if (runs_here(*level)) isas.append(level->isa);
  }
  return py::tuple(isas);
}

std::string parse_knob(const std::string& name, const std::string& text) {
  Knobs knobs;
  parse(name, text, knobs);
  return print(name, knobs);
}

// The compute layout of one format for the kernels of one pool.
struct Layout {
  const formats::Info* format;
  const InterleavedKernels* interleaved;

  std::size_t bytes(std::int64_t rows, std::int64_t columns) const {
    return interleaved_bytes(*format, *interleaved, size(rows, "rows"), size(columns, "columns"));
  }
};

std::optional<Layout> layout_of(const Runner& pool, const std::string& format) {
  const formats::Info& info = format_named(format);
  const InterleavedKernels* interleaved = pool.kernels.formats[info.id]->interleaved;
  if (interleaved == nullptr) return std::nullopt;
  return Layout{&info, interleaved};
}

// The kernels that read `layout`, which is of `format`; null for rows as they are stored.
const InterleavedKernels* interleaved_of(const Layout* layout, const formats::Info& format) {
  if (layout == nullptr) return nullptr;
  if (layout->format != &format) {
    throw std::invalid_argument("a matrix in " + std::string(format.name) + " cannot have the layout of " +
                                std::string(layout->format->name));
  }
  return layout->interleaved;
}

void bind_arrange(Runner& pool, const Layout& layout, std::int64_t rows, std::int64_t columns, std::uintptr_t blocks,
                  std::uintptr_t out) {
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const py::gil_scoped_release release;
  arrange(pool, *layout.format, count, wide, pointer<const std::byte>(blocks), pointer<std::byte>(out));
}

// Weights keep the Python object alive that owns their memory.
struct OwnedMatrix {
  Matrix matrix;
  py::object owner;
};

std::unique_ptr<OwnedMatrix> make_matrix(const std::string& format, std::int64_t rows, std::int64_t columns,
                                         std::uintptr_t address, std::uint64_t bytes, py::object owner, float scale,
                                         const Layout* layout) {
  const formats::Info& info = format_named(format);
  return std::make_unique<OwnedMatrix>(
      OwnedMatrix{Matrix(info, size(rows, "rows"), size(columns, "columns"), pointer<const std::byte>(address), bytes,
                         scale, interleaved_of(layout, info)),
                  std::move(owner)});
}

// Name of the format, address of each expert's matrix, scale of each or none, their layout or null.
using PartArguments = std::tuple<std::string, std::vector<std::uintptr_t>, std::vector<float>, const Layout*>;

ExpertPart expert_part(const PartArguments& arguments) {
  const auto& [format, addresses, scales, layout] = arguments;
  const formats::Info& info = format_named(format);
  std::vector<const std::byte*> blocks;
  blocks.reserve(addresses.size());
  for (const std::uintptr_t address : addresses) blocks.push_back(pointer<const std::byte>(address));
  return {info, std::move(blocks), scales, interleaved_of(layout, info)};
}

std::unique_ptr<OwnedExperts> make_experts(std::int64_t hidden, std::int64_t width, const PartArguments& gate,
                                           const PartArguments& up, const PartArguments& down, py::object owner) {
  return std::make_unique<OwnedExperts>(OwnedExperts{
      Experts(size(hidden, "hidden"), size(width, "width"), expert_part(gate), expert_part(up), expert_part(down)),
      std::move(owner)});
}

void bind_linear(Runner& pool, const OwnedMatrix& matrix, std::int64_t tokens, std::uintptr_t x, std::uintptr_t out) {
  const std::size_t count = size(tokens, "tokens");
  const py::gil_scoped_release release;
  linear(pool, matrix.matrix, count, pointer<const float>(x), pointer<float>(out));
}

void bind_experts(Runner& pool, const OwnedExperts& layer, std::int64_t tokens, std::int64_t top_k, std::uintptr_t x,
                  std::uintptr_t ids, std::uintptr_t out) {
  const std::size_t count = size(tokens, "tokens");
  const std::size_t picks = size(top_k, "top_k");
  const py::gil_scoped_release release;
  run_experts(pool, layer.experts, count, picks, pointer<const float>(x), pointer<const std::int32_t>(ids),
              pointer<float>(out));
}

void bind_combine(std::int64_t tokens, std::int64_t top_k, std::int64_t hidden, std::uintptr_t rows,
                  std::uintptr_t weights, std::uintptr_t out) {
  const device::Combine::Args args{.rows = pointer<const float>(rows),
                                   .weights = pointer<const float>(weights),
                                   .residual = pointer<float>(out),
                                   .tokens = static_cast<int>(size(tokens, "tokens")),
                                   .top_k = static_cast<int>(size(top_k, "top_k")),
                                   .hidden = static_cast<int>(size(hidden, "hidden"))};
  const py::gil_scoped_release release;
  simt::run_inline<device::Combine>(args);
}

void bind_rms_norm(Runner& pool, std::int64_t rows, std::int64_t columns, std::uintptr_t x, std::uintptr_t weight,
                   float eps, std::uintptr_t out) {
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const py::gil_scoped_release release;
  rms_norm(pool, count, wide, pointer<const float>(x), pointer<const float>(weight), eps, pointer<float>(out));
}

// Query heads, heads of keys and values, elements of a head.
using ShapeArguments = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

HeadShape head_shape(const ShapeArguments& arguments) {
  const auto& [heads, kv_heads, dim] = arguments;
  return {size(heads, "heads"), size(kv_heads, "kv_heads"), size(dim, "dim")};
}

// Address, capacity, filled positions.
using CacheArguments = std::tuple<std::uintptr_t, std::int64_t, std::int64_t>;

LayerCache layer_cache(const CacheArguments& arguments) {
  const auto& [data, capacity, length] = arguments;
  return {pointer<float>(data), size(capacity, "capacity"), size(length, "length")};
}

// Weights of the queries' and the keys' norm, their epsilon, scale of the queries, rotated elements.
using RuleArguments = std::tuple<std::uintptr_t, std::uintptr_t, float, float, std::int64_t>;

HeadRules head_rules(const RuleArguments& arguments, std::uintptr_t angles) {
  const auto& [query_norm, key_norm, eps, scale, rope_dim] = arguments;
  return {pointer<const float>(query_norm), pointer<const float>(key_norm), eps, scale,
          size(rope_dim, "rope_dim"),       pointer<const float>(angles)};
}

void bind_prepare_heads(Runner& pool, const ShapeArguments& shape, const RuleArguments& rules,
                        const CacheArguments& cache, std::int64_t tokens, std::uintptr_t angles, std::uintptr_t queries,
                        std::uintptr_t keys, std::uintptr_t values) {
  const std::size_t count = size(tokens, "tokens");
  const py::gil_scoped_release release;
  prepare_heads(pool, head_shape(shape), head_rules(rules, angles), layer_cache(cache), count, pointer<float>(queries),
                pointer<const float>(keys), pointer<const float>(values));
}

void bind_attend(Runner& pool, const ShapeArguments& shape, const CacheArguments& cache, std::int64_t tokens,
                 std::uintptr_t queries, std::uintptr_t out) {
  const std::size_t count = size(tokens, "tokens");
  const py::gil_scoped_release release;
  attend(pool, head_shape(shape), layer_cache(cache), count, pointer<const float>(queries), pointer<float>(out));
}

Pool* pool_of(Runner* runner) { return runner == nullptr ? nullptr : &runner->pool; }

void bind_quantize(const std::string& format, std::int64_t rows, std::int64_t columns, std::uintptr_t x,
                   std::uintptr_t out, Runner* pool) {
  const formats::Info& info = format_named(format);
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const py::gil_scoped_release release;
  quantize(pool_of(pool), info, count, wide, pointer<const float>(x), pointer<std::byte>(out));
}

void bind_dequantize(const std::string& format, std::int64_t rows, std::int64_t columns, std::uintptr_t blocks,
                     std::uintptr_t out, Runner* pool) {
  const formats::Info& info = format_named(format);
  const std::size_t count = size(rows, "rows");
  const std::size_t wide = size(columns, "columns");
  const py::gil_scoped_release release;
  dequantize(pool_of(pool), info, count, wide, pointer<const std::byte>(blocks), pointer<float>(out));
}

std::uint64_t bind_checksum(Runner& pool, std::uintptr_t data, std::uint64_t bytes) {
  const py::gil_scoped_release release;
  return checksum(pool, pointer<const std::byte>(data), bytes);
}

std::shared_ptr<Runner> make_pool(const KnobTexts& texts, const std::optional<std::string>& isa) {
  Knobs knobs;
  for (const auto& [name, text] : texts) parse(name, text, knobs);
  const LevelKernels& kernels = isa ? level_named(*isa) : best_level();
  const py::gil_scoped_release release;
  auto pool = std::make_shared<Runner>(kernels, pool_options(knobs), static_cast<std::size_t>(knobs.pool_claim_rows));
  pool->fetches_ahead = knobs.pool_fetch_ahead == PoolFetchAhead::kAuto ? fetching_ahead_pays(*pool)
                                                                        : knobs.pool_fetch_ahead == PoolFetchAhead::kOn;
  return pool;
}

}  // namespace
}  // namespace strata

PYBIND11_MODULE(_native, module) {
  using namespace strata;
  module.doc() = "Kernels of this package on the CPU pool; see strata_runtime.native.";
  module.attr("ABI_VERSION") = kAbiVersion;
  module.attr("ISA") = best_level().isa;
  module.attr("ISAS") = runnable_isas();

  // Local: several kernels packages can be loaded side by side, and each has classes of these names.
  py::class_<Runner, std::shared_ptr<Runner>>(module, "Pool", py::module_local())
      .def_property_readonly("threads", [](const Runner& pool) { return pool.pool.threads(); })
      .def_property_readonly("fetches_ahead", [](const Runner& pool) { return pool.fetches_ahead; })
      .def_property_readonly("isa", [](const Runner& pool) { return pool.kernels.isa; })
      .def_property_readonly("cpus", [](const Runner& pool) { return pool.pool.pinned(); })
      .def("behind", [](const Runner& pool) { return std::make_shared<Runner>(pool.behind()); })
      .def(
          "hold", [](Runner& pool) { pool.pool.hold(); }, py::call_guard<py::gil_scoped_release>())
      .def(
          "let_go", [](Runner& pool) { pool.pool.let_go(); }, py::call_guard<py::gil_scoped_release>())
      .def("close", [](Runner& pool) { pool.pool.close(); }, py::call_guard<py::gil_scoped_release>());
  py::class_<Layout>(module, "Layout", py::module_local())
      .def_property_readonly("rows", [](const Layout& self) { return self.interleaved->rows; })
      .def("bytes", &Layout::bytes, py::arg("rows"), py::arg("columns"));
  py::class_<OwnedMatrix>(module, "Matrix", py::module_local())
      .def_property_readonly("rows", [](const OwnedMatrix& self) { return self.matrix.rows(); })
      .def_property_readonly("columns", [](const OwnedMatrix& self) { return self.matrix.columns(); });
  py::class_<OwnedExperts>(module, "Experts", py::module_local())
      .def_property_readonly("count", [](const OwnedExperts& self) { return self.experts.all.size(); });

  module.def("make_pool", make_pool, py::arg("knobs"), py::arg("isa") = std::nullopt);
  module.def("layout", layout_of, py::arg("pool"), py::arg("format"));
  module.def("arrange", bind_arrange, py::arg("pool"), py::arg("layout"), py::arg("rows"), py::arg("columns"),
             py::arg("blocks"), py::arg("out"));
  module.def("make_matrix", make_matrix, py::arg("format"), py::arg("rows"), py::arg("columns"), py::arg("address"),
             py::arg("bytes"), py::arg("owner"), py::arg("scale") = 1.0f, py::arg("layout") = nullptr);
  module.def("make_experts", make_experts, py::arg("hidden"), py::arg("width"), py::arg("gate"), py::arg("up"),
             py::arg("down"), py::arg("owner"));
  module.def("linear", bind_linear, py::arg("pool"), py::arg("matrix"), py::arg("tokens"), py::arg("x"),
             py::arg("out"));
  module.def("experts", bind_experts, py::arg("pool"), py::arg("layer"), py::arg("tokens"), py::arg("top_k"),
             py::arg("x"), py::arg("ids"), py::arg("out"));
  module.def("combine", bind_combine, py::arg("tokens"), py::arg("top_k"), py::arg("hidden"), py::arg("rows"),
             py::arg("weights"), py::arg("out"));
  module.def("rms_norm", bind_rms_norm, py::arg("pool"), py::arg("rows"), py::arg("columns"), py::arg("x"),
             py::arg("weight"), py::arg("eps"), py::arg("out"));
  module.def("prepare_heads", bind_prepare_heads, py::arg("pool"), py::arg("shape"), py::arg("rules"), py::arg("cache"),
             py::arg("tokens"), py::arg("angles"), py::arg("queries"), py::arg("keys"), py::arg("values"));
  module.def("attend", bind_attend, py::arg("pool"), py::arg("shape"), py::arg("cache"), py::arg("tokens"),
             py::arg("queries"), py::arg("out"));
  module.def("quantize", bind_quantize, py::arg("format"), py::arg("rows"), py::arg("columns"), py::arg("x"),
             py::arg("out"), py::arg("pool") = nullptr);
  module.def("dequantize", bind_dequantize, py::arg("format"), py::arg("rows"), py::arg("columns"), py::arg("blocks"),
             py::arg("out"), py::arg("pool") = nullptr);
  module.def("checksum", bind_checksum, py::arg("pool"), py::arg("data"), py::arg("bytes"));
  bind_device(module);
  bind_kernels(module);
  bind_hybrid(module);
  module.def("parse_knob", parse_knob, py::arg("name"), py::arg("text"));
}
