// The kernels that exist for every format, and what makes their inputs.
#include <type_traits>

#include "jobs.hpp"
#include "strata/device/expert_down.hpp"
#include "strata/device/expert_gate_up.hpp"
#include "strata/device/quantize_rows.hpp"
#include "strata/device/to_floats.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device_tests {
namespace {

// Every format is emulated in `window_linear`, which is all of its own code; in other kernels formats differ by whether
// they are quantised, and by parts of 16 or 32 columns.
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
                                                 .q = job.array<const std::byte>(5),
                                                 .middle = job.array<float>(6),
                                                 .middle_q = job.array<std::byte>(7),
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
                                               .middle_q = job.array<const std::byte>(4),
                                               .rows = job.array<float>(5),
                                               .slot_stride = job.integer(1),
                                               .down_offset = job.integer(2),
                                               .tokens = job.integer(3),
                                               .top_k = job.integer(4),
                                               .hidden = job.integer(5),
                                               .width = job.integer(6)});
}

template <class Format>
void decoded(const Job& job) {
  run_format<device::ToFloats, Format>(job, {.matrix = job.array<const std::byte>(0),
                                             .matrices = nullptr,
                                             .scales = nullptr,
                                             .out = job.array<std::byte>(1),
                                             .scale = static_cast<float>(job.number(4)),
                                             .count = 1,
                                             .rows = job.integer(1),
                                             .columns = job.integer(2),
                                             .type = static_cast<device::FloatType>(job.integer(3))});
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

void to_floats(const Job& job) {
  formats::visit(static_cast<std::size_t>(job.number(0)),
                 [&](auto type) { decoded<typename decltype(type)::type>(job); });
}

void quantize_rows(const Job& job) {
  run<device::QuantizeRows>(job, {.x = job.array<const float>(0),
                                  .q = job.array<std::byte>(1),
                                  .rows = job.integer(0),
                                  .columns = job.integer(1)});
}

}  // namespace strata::device_tests
