// Device kernels: on a CPU each runs inline, on the calling thread, without the GIL; on a GPU it is launched.
#include "bindings.hpp"
#include "strata/device/doorbell.hpp"
#include "strata/device/ecap_redirect.hpp"
#include "strata/device/flag_wait.hpp"
#include "strata/device/late_add.hpp"
#include "strata/device/publish.hpp"
#include "strata/device/query.hpp"
#include "strata/device/resident_plan.hpp"
#include "strata/device/router_topk.hpp"
#include "strata/device/rows_copy.hpp"
#include "strata/device/run.hpp"
#include "strata/device/tail_skip.hpp"
#include "strata/device/time_stamp.hpp"
#include "strata/weights.hpp"

namespace py = pybind11;

namespace strata {
namespace {

using device::Owner;
using device::Plan;
using device::run;
using device::Stream;
using Address = std::uintptr_t;

device::Which which_rows(const std::string& name) {
  if (name == "all") return device::Which::kAll;
  if (name == "at_least") return device::Which::kAtLeast;
  if (name == "below") return device::Which::kBelow;
  throw std::invalid_argument("rows are 'all', 'at_least' or 'below', not '" + name + "'");
}

void router_topk(int tokens, int experts, int top_k, Address logits, Address bias, bool sigmoid, bool normalised,
                 float scale, Address ids, Address weights, Stream stream) {
  run<device::RouterTopk>({.logits = pointer<const float>(logits),
                           .bias = pointer<const float>(bias),
                           .ids = pointer<std::int32_t>(ids),
                           .weights = pointer<float>(weights),
                           .tokens = tokens,
                           .experts = experts,
                           .top_k = top_k,
                           .sigmoid = sigmoid,
                           .normalised = normalised,
                           .scale = scale},
                          stream);
}

void ecap_redirect(int tokens, int top_k, int cap, Address ids, Address weights, Stream stream) {
  run<device::EcapRedirect>({.ids = pointer<std::int32_t>(ids),
                             .weights = pointer<float>(weights),
                             .tokens = tokens,
                             .top_k = top_k,
                             .cap = cap},
                            stream);
}

void tail_skip(int tokens, int top_k, int experts, int rank, Address slot_of_expert, Address ids, Address weights,
               Stream stream) {
  run<device::TailSkip>({.ids = pointer<std::int32_t>(ids),
                         .weights = pointer<float>(weights),
                         .slot_of_expert = pointer<const std::int32_t>(slot_of_expert),
                         .tokens = tokens,
                         .top_k = top_k,
                         .experts = experts,
                         .rank = rank},
                        stream);
}

void resident_plan(int tokens, int top_k, int experts, int slots, bool all_resident, Address ids, Address weights,
                   Address slot_of_expert, Address plan, Address error, Stream stream, Address pcie_share) {
  run<device::ResidentPlan>({.ids = pointer<const std::int32_t>(ids),
                             .weights = pointer<const float>(weights),
                             .slot_of_expert = pointer<const std::int32_t>(slot_of_expert),
                             .plan = pointer<Plan>(plan),
                             .error = pointer<std::uint32_t>(error),
                             .tokens = tokens,
                             .top_k = top_k,
                             .experts = experts,
                             .slots = slots,
                             .all_resident = all_resident,
                             .pcie_share = pointer<const std::int32_t>(pcie_share)},
                            stream);
}

void publish(int layer, int tokens, int top_k, int hidden, Address x, Address ids, Address weights, Address doorbell,
             Address sequence, Address base, std::uint32_t offset, Stream stream) {
  run<device::Publish>({.x = pointer<const float>(x),
                        .ids = pointer<const std::int32_t>(ids),
                        .weights = pointer<const float>(weights),
                        .base = pointer<const std::uint32_t>(base),
                        .doorbell = pointer<device::Doorbell>(doorbell),
                        .sequence = pointer<std::uint32_t>(sequence),
                        .offset = offset,
                        .layer = layer,
                        .tokens = tokens,
                        .top_k = top_k,
                        .hidden = hidden},
                       stream);
}

void flag_wait(Address word, Address base, std::uint32_t offset, Address stamp, Address error,
               std::uint32_t error_value, std::uint64_t looks, std::uint64_t nanoseconds, Stream stream,
               Address waited) {
  run<device::FlagWait>({.word = pointer<const std::uint32_t>(word),
                         .base = pointer<const std::uint32_t>(base),
                         .stamp = pointer<const std::uint32_t>(stamp),
                         .error = pointer<std::uint32_t>(error),
                         .offset = offset,
                         .error_value = error_value,
                         .looks = looks,
                         .nanoseconds = nanoseconds,
                         .waited = pointer<std::uint64_t>(waited)},
                        stream);
}

void time_stamp(Address stamp, int phase, Stream stream) {
  run<device::TimeStamp>({.stamp = pointer<std::uint64_t>(stamp), .phase = phase}, stream);
}

void rows_copy(int entries, int hidden, const std::string& which, float threshold, bool zero_others, Address from,
               Address owner, Address weights, Address to, Stream stream) {
  run<device::RowsCopy>({.from = pointer<const float>(from),
                         .owner = pointer<const Owner>(owner),
                         .weights = pointer<const float>(weights),
                         .to = pointer<float>(to),
                         .entries = entries,
                         .hidden = hidden,
                         .which = which_rows(which),
                         .threshold = threshold,
                         .zero_others = zero_others},
                        stream);
}

void late_add(int tokens, int top_k, int hidden, const std::string& which, float threshold, Address rows, Address owner,
              Address weights, Address residual, Stream stream) {
  run<device::LateAdd>({.rows = pointer<const float>(rows),
                        .owner = pointer<const Owner>(owner),
                        .weights = pointer<const float>(weights),
                        .residual = pointer<float>(residual),
                        .tokens = tokens,
                        .top_k = top_k,
                        .hidden = hidden,
                        .which = which_rows(which),
                        .threshold = threshold},
                       stream);
}

py::tuple query(int number) {
  if constexpr (target::kBackend == target::Backend::kCpu) {
    throw std::runtime_error(std::string("this package is for CPUs (") + target::kName + "), and knows no GPU");
  } else {
    const auto facts = [&] {
      const py::gil_scoped_release released;
      return device::query(number);
    }();
    return py::make_tuple(facts.count, facts.name, facts.arch, facts.free_bytes, facts.total_bytes, facts.driver,
                          facts.runtime);
  }
}

}  // namespace

void bind_device(py::module_& module) {
  using py::arg;
  py::module_ device = module.def_submodule("device", "Device kernels; see strata_runtime.native_device.");
  device.attr("PLAN_BYTES") = sizeof(Plan);
  device.attr("OWNER_OFFSET") = offsetof(Plan, owner);
  device.attr("DOORBELL_BYTES") = sizeof(device::Doorbell);
  device.def("query", query, arg("number"));
  const py::call_guard<py::gil_scoped_release> released;
  device.def("router_topk", router_topk, released, arg("tokens"), arg("experts"), arg("top_k"), arg("logits"),
             arg("bias"), arg("sigmoid"), arg("normalised"), arg("scale"), arg("ids"), arg("weights"), arg("stream"));
  device.def("ecap_redirect", ecap_redirect, released, arg("tokens"), arg("top_k"), arg("cap"), arg("ids"),
             arg("weights"), arg("stream"));
  device.def("tail_skip", tail_skip, released, arg("tokens"), arg("top_k"), arg("experts"), arg("rank"),
             arg("slot_of_expert"), arg("ids"), arg("weights"), arg("stream"));
  device.def("resident_plan", resident_plan, released, arg("tokens"), arg("top_k"), arg("experts"), arg("slots"),
             arg("all_resident"), arg("ids"), arg("weights"), arg("slot_of_expert"), arg("plan"), arg("error"),
             arg("stream"), arg("pcie_share") = Address{0});
  device.def("publish", publish, released, arg("layer"), arg("tokens"), arg("top_k"), arg("hidden"), arg("x"),
             arg("ids"), arg("weights"), arg("doorbell"), arg("sequence"), arg("base"), arg("offset"), arg("stream"));
  device.def("flag_wait", flag_wait, released, arg("word"), arg("base"), arg("offset"), arg("stamp"), arg("error"),
             arg("error_value"), arg("looks"), arg("nanoseconds"), arg("stream"), arg("waited") = Address{0});
  device.def("time_stamp", time_stamp, released, arg("stamp"), arg("phase"), arg("stream"));
  device.def("rows_copy", rows_copy, released, arg("entries"), arg("hidden"), arg("which"), arg("threshold"),
             arg("zero_others"), arg("source"), arg("owner"), arg("weights"), arg("to"), arg("stream"));
  device.def("late_add", late_add, released, arg("tokens"), arg("top_k"), arg("hidden"), arg("which"), arg("threshold"),
             arg("rows"), arg("owner"), arg("weights"), arg("residual"), arg("stream"));
  bind_device_layers(device);
  bind_device_linear(device);
}

}  // namespace strata
