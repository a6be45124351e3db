#include <pybind11/stl.h>

#include <chrono>
#include <tuple>

#include "bindings.hpp"
#include "strata/hybrid/host_half.hpp"

namespace strata {
namespace {

// Signal, kind, ring value, delay in nanoseconds.
using FaultArguments = std::tuple<std::string, std::string, std::uint32_t, std::int64_t>;

// A layer's experts, and the addresses of its slots by expert and of what is told of them.
using LayerArguments = std::tuple<py::object, std::uintptr_t, std::uintptr_t>;

// A host half, and the Python objects that its layers lie in.
class OwnedHostHalf {
 public:
  OwnedHostHalf(std::unique_ptr<HostHalf> half, py::object owner) : half_(std::move(half)), owner_(std::move(owner)) {}
  OwnedHostHalf(const OwnedHostHalf&) = delete;
  OwnedHostHalf& operator=(const OwnedHostHalf&) = delete;

  ~OwnedHostHalf() {
    bool has_ended;
    {
      const py::gil_scoped_release release;
      has_ended = half_->end();
      half_.reset();
    }
    // A thread that is stuck in the pool may still read the weights.
    if (!has_ended) owner_.release();
  }

  HostHalf& operator*() const { return *half_; }

  bool stop(std::chrono::nanoseconds patience) const {
    const py::gil_scoped_release release;
    return half_->stop(patience);
  }

 private:
  std::unique_ptr<HostHalf> half_;
  py::object owner_;
};

std::unique_ptr<OwnedHostHalf> make_host_half(std::shared_ptr<Runner> pool, const std::vector<LayerArguments>& layers,
                                              int slots, py::object owner, std::int64_t hidden,
                                              std::optional<float> heavy_from, std::int64_t timeout,
                                              const std::vector<std::string>& present, std::uintptr_t pcie_share,
                                              std::uintptr_t entries, const std::vector<FaultArguments>& faults,
                                              int wedge) {
  HostHalfOptions options{.hidden = size(hidden, "hidden"),
                          .slots = slots,
                          .pcie_share = pointer<const std::int32_t>(pcie_share),
                          .entries = pointer<std::int64_t>(entries),
                          .heavy_from = heavy_from,
                          .timeout = std::chrono::nanoseconds(timeout),
                          .present = {},
                          .faults = {},
                          .wedge = wedge};
  for (const std::string& name : present) options.present.push_back(signal_named(name));
  for (const auto& [signal, kind, ring, delay] : faults) {
    options.faults.push_back({signal_named(signal), fault_named(kind), ring, std::chrono::nanoseconds(delay)});
  }
  std::vector<HybridLayer> hybrid;
  py::list kept;
  for (const auto& [experts, slot_of_expert, asked] : layers) {
    hybrid.push_back({&experts.cast<const OwnedExperts&>().experts, pointer<const std::int32_t>(slot_of_expert),
                      pointer<std::uint8_t>(asked)});
    kept.append(experts);
  }
  auto half = std::make_unique<HostHalf>(std::move(pool), std::move(hybrid), std::move(options));
  return std::make_unique<OwnedHostHalf>(std::move(half), py::make_tuple(kept, std::move(owner)));
}

Routed routed_from(int layer, int tokens, int top_k, std::uintptr_t x, std::uintptr_t ids, std::uintptr_t weights) {
  return {
      layer, tokens, top_k, pointer<const float>(x), pointer<const std::int32_t>(ids), pointer<const float>(weights)};
}

template <class Type>
std::uintptr_t address(const Type* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

}  // namespace

void bind_hybrid(py::module_& module) {
  using py::arg;
  const auto& stall = py::register_local_exception<StallError>(module, "StallError", PyExc_RuntimeError);
  py::register_local_exception<PoolBusy>(module, "PoolBusy", stall);
  py::class_<OwnedHostHalf>(module, "HostHalf", py::module_local())
      .def_property_readonly("plan", [](const OwnedHostHalf& self) { return address(&(*self).plan()); })
      .def_property_readonly("rows", [](const OwnedHostHalf& self) { return address((*self).rows()); })
      .def_property_readonly("ring", [](const OwnedHostHalf& self) { return (*self).ring(); })
      .def(
          "make_plan",
          [](const OwnedHostHalf& self, int layer, int tokens, int top_k, bool all_resident, std::uintptr_t ids,
             std::uintptr_t weights) {
            (*self).make_plan(routed_from(layer, tokens, top_k, 0, ids, weights), all_resident);
          },
          arg("layer"), arg("tokens"), arg("top_k"), arg("all_resident"), arg("ids"), arg("weights"))
      .def(
          "publish",
          [](const OwnedHostHalf& self, int layer, int tokens, int top_k, std::uintptr_t x, std::uintptr_t ids,
             std::uintptr_t weights) {
            const py::gil_scoped_release release;
            return (*self).publish(routed_from(layer, tokens, top_k, x, ids, weights));
          },
          arg("layer"), arg("tokens"), arg("top_k"), arg("x"), arg("ids"), arg("weights"))
      .def(
          "wait",
          [](const OwnedHostHalf& self, const std::string& signal, std::uint32_t ring) {
            const py::gil_scoped_release release;
            (*self).wait(signal_named(signal), ring);
          },
          arg("signal"), arg("ring"))
      .def(
          "stop",
          [](const OwnedHostHalf& self, double seconds) {
            return self.stop(
                std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
          },
          arg("seconds") = 2.0)
      .def_property_readonly("memory",
                             [](const OwnedHostHalf& self) {
                               std::vector<std::pair<std::uintptr_t, std::size_t>> found;
                               for (const auto& [at, bytes] : (*self).memory()) {
                                 found.emplace_back(reinterpret_cast<std::uintptr_t>(at), bytes);
                               }
                               return found;
                             })
      .def_property_readonly(
          "doorbell", [](const OwnedHostHalf& self) { return reinterpret_cast<std::uintptr_t>((*self).doorbell()); })
      .def(
          "word",
          [](const OwnedHostHalf& self, const std::string& signal) {
            return address((*self).word(signal_named(signal)));
          },
          arg("signal"))
      .def(
          "number",
          [](const OwnedHostHalf&, const std::string& signal) { return static_cast<int>(signal_named(signal)); },
          arg("signal"))
      .def(
          "stamp",
          [](const OwnedHostHalf& self, const std::string& signal) {
            return address((*self).stamp(signal_named(signal)));
          },
          arg("signal"))
      .def("begin_window", [](const OwnedHostHalf& self) { (*self).begin_window(); })
      .def(
          "await_answers",
          [](const OwnedHostHalf& self, std::uint32_t rings) {
            const py::gil_scoped_release release;
            (*self).await_answers(rings);
          },
          arg("rings"))
      .def(
          "end_window", [](const OwnedHostHalf& self, std::uint32_t rings) { (*self).end_window(rings); }, arg("rings"))
      .def("report", [](const OwnedHostHalf& self) { return (*self).report(); });
  module.def("make_host_half", make_host_half, arg("pool"), arg("layers"), arg("slots"), arg("owner"), arg("hidden"),
             arg("heavy_from"), arg("timeout"), arg("present"), arg("pcie_share") = std::uintptr_t{0},
             arg("entries") = std::uintptr_t{0}, arg("faults") = std::vector<FaultArguments>{}, arg("wedge") = -1);
}

}  // namespace strata
