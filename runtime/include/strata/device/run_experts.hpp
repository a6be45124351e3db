// Resident experts: the kernels of a format that is known when it runs.
#pragma once

#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/device/run.hpp"
#include "strata/formats.hpp"

namespace strata::device {

// Throw as `run` does.
void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args, Stream stream);
void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args, Stream stream);

}  // namespace strata::device
