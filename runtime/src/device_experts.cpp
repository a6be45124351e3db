#include "strata/device/run_experts.hpp"
#include "strata/gen/format_types.hpp"
#include "strata/simt/inline.hpp"

namespace strata::device {

void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args) {
  formats::visit(format.id, [&](auto type) { simt::run_inline<ExpertGateUp<typename decltype(type)::type>>(args); });
}

void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args) {
  formats::visit(format.id, [&](auto type) { simt::run_inline<ExpertDown<typename decltype(type)::type>>(args); });
}

}  // namespace strata::device
