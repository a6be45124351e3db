// The kernels that exist for every format.
#include <type_traits>

#include "jobs.hpp"
#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device_tests {
namespace {

// Lanes meet a format in how many neighbours share its scale, and in whether it has a minimum: these have all of it.
template <class Format>
inline constexpr bool kIsEmulated =
    std::is_same_v<Format, formats::F32Format> || std::is_same_v<Format, formats::Q4_kFormat> ||
    std::is_same_v<Format, formats::Q6_kFormat>;

template <template <class> class Kernel, class Format>
void run_format(const Job& job, const typename Kernel<Format>::Args& args) {
  if constexpr (kIsEmulated<Format>) {
    run<Kernel<Format>>(job, args);
  } else {
    if (job.wave != 1) throw std::invalid_argument("this format is not emulated");
    simt::run_inline<Kernel<Format>>(args);
  }
}

template <class Format>
void gate_up(const Job& job) {
  run_format<device::ExpertGateUp, Format>(job, {.plan = job.array<const device::Plan>(0),
                                                 .slots = job.array<const std::byte>(1),
                                                 .gate_scale = job.array<const float>(2),
                                                 .up_scale = job.array<const float>(3),
                                                 .x = job.array<const float>(4),
                                                 .middle = job.array<float>(5),
                                                 .slot_stride = job.integer(1),
                                                 .gate_offset = job.integer(2),
                                                 .up_offset = job.integer(3),
                                                 .tokens = job.integer(4),
                                                 .top_k = job.integer(5),
                                                 .hidden = job.integer(6),
                                                 .width = job.integer(7)});
}

template <class Format>
void down(const Job& job) {
  run_format<device::ExpertDown, Format>(job, {.plan = job.array<const device::Plan>(0),
                                               .slots = job.array<const std::byte>(1),
                                               .down_scale = job.array<const float>(2),
                                               .middle = job.array<const float>(3),
                                               .rows = job.array<float>(4),
                                               .slot_stride = job.integer(1),
                                               .down_offset = job.integer(2),
                                               .tokens = job.integer(3),
                                               .top_k = job.integer(4),
                                               .hidden = job.integer(5),
                                               .width = job.integer(6)});
}

}  // namespace

// The first number is the format's id.
void expert_gate_up(const Job& job) {
  formats::visit(static_cast<std::size_t>(job.number(0)),
                 [&](auto type) { gate_up<typename decltype(type)::type>(job); });
}

void expert_down(const Job& job) {
  formats::visit(static_cast<std::size_t>(job.number(0)), [&](auto type) { down<typename decltype(type)::type>(job); });
}

}  // namespace strata::device_tests
