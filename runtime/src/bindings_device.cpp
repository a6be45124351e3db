// Device kernels on a CPU target: each runs inline, on the calling thread, without the GIL.
#include "bindings.hpp"
#include "strata/device/ecap_redirect.hpp"
#include "strata/device/router_topk.hpp"
#include "strata/simt/inline.hpp"

namespace py = pybind11;

namespace strata {
namespace {

void router_topk(int tokens, int experts, int top_k, std::uintptr_t logits, std::uintptr_t bias, bool sigmoid,
                 bool normalised, float scale, std::uintptr_t ids, std::uintptr_t weights) {
  simt::run_inline<device::RouterTopk>({.logits = pointer<const float>(logits),
                                        .bias = pointer<const float>(bias),
                                        .ids = pointer<std::int32_t>(ids),
                                        .weights = pointer<float>(weights),
                                        .tokens = tokens,
                                        .experts = experts,
                                        .top_k = top_k,
                                        .sigmoid = sigmoid,
                                        .normalised = normalised,
                                        .scale = scale});
}

void ecap_redirect(int tokens, int top_k, int cap, std::uintptr_t ids, std::uintptr_t weights) {
  simt::run_inline<device::EcapRedirect>({.ids = pointer<std::int32_t>(ids),
                                          .weights = pointer<float>(weights),
                                          .tokens = tokens,
                                          .top_k = top_k,
                                          .cap = cap});
}

}  // namespace

void bind_device(py::module_& module) {
  py::module_ device = module.def_submodule("device", "Device kernels; see strata_runtime.native.DeviceKernels.");
  const py::call_guard<py::gil_scoped_release> released;
  device.def("router_topk", router_topk, released, py::arg("tokens"), py::arg("experts"), py::arg("top_k"),
             py::arg("logits"), py::arg("bias"), py::arg("sigmoid"), py::arg("normalised"), py::arg("scale"),
             py::arg("ids"), py::arg("weights"));
  device.def("ecap_redirect", ecap_redirect, released, py::arg("tokens"), py::arg("top_k"), py::arg("cap"),
             py::arg("ids"), py::arg("weights"));
}

}  // namespace strata
