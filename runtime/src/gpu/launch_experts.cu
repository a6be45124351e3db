// Launches of the kernels of resident experts.
#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/gen/format_types.hpp"
#include "strata/simt/launch_cuda.hpp"

#define STRATA_LAUNCH_EXPERTS(Format)                  \
  STRATA_LAUNCH(strata::device::ExpertGateUp<Format>); \
  STRATA_LAUNCH(strata::device::ExpertDown<Format>);

STRATA_FOR_EACH_FORMAT(STRATA_LAUNCH_EXPERTS)
