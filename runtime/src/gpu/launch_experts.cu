// Launches of the kernels of resident experts.
#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/gen/format_types.hpp"
#include "strata/simt/launch_cuda.hpp"

namespace strata::simt {

// A table of the host gives the integers of this format.
template <>
void launch<device::ExpertGateUp<formats::Iq3_sFormat>>(const device::ExpertGateUpCommon::Args&, Stream) {
  throw std::invalid_argument("expert_gate_up: a GPU has no kernel for iq3_s");
}
template <>
void launch<device::ExpertDown<formats::Iq3_sFormat>>(const device::ExpertDownCommon::Args&, Stream) {
  throw std::invalid_argument("expert_down: a GPU has no kernel for iq3_s");
}

}  // namespace strata::simt

#define STRATA_LAUNCH_EXPERTS(Format)                                   \
  STRATA_LAUNCH(strata::device::ExpertGateUp<strata::formats::Format>); \
  STRATA_LAUNCH(strata::device::ExpertDown<strata::formats::Format>)

STRATA_LAUNCH_EXPERTS(Bf16Format);
STRATA_LAUNCH_EXPERTS(F16Format);
STRATA_LAUNCH_EXPERTS(F32Format);
STRATA_LAUNCH_EXPERTS(Iq4_xsFormat);
STRATA_LAUNCH_EXPERTS(Mxfp4Format);
STRATA_LAUNCH_EXPERTS(Q4_0Format);
STRATA_LAUNCH_EXPERTS(Q4_kFormat);
STRATA_LAUNCH_EXPERTS(Q5_0Format);
STRATA_LAUNCH_EXPERTS(Q6_kFormat);
STRATA_LAUNCH_EXPERTS(Q8_0Format);
