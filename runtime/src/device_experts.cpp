#include "strata/device/run_experts.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device {

void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args, Stream stream) {
  formats::visit(format.id, [&](auto type) { run<ExpertGateUp<typename decltype(type)::type>>(args, stream); });
}

void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args, Stream stream) {
  formats::visit(format.id, [&](auto type) { run<ExpertDown<typename decltype(type)::type>>(args, stream); });
}

}  // namespace strata::device
