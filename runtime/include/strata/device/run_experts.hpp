// Resident experts on a CPU: the kernels of a format that is known when it runs.
#pragma once

#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/formats.hpp"

namespace strata::device {

// Throw std::invalid_argument for arguments that the kernel cannot take.
void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args);
void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args);

}  // namespace strata::device
