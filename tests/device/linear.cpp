// Products of whole matrices: in a file of its own, because it takes long to compile.
#include <type_traits>

#include "jobs.hpp"
#include "strata/device/window_linear.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device_tests {
namespace {

// Waves of 64 lanes meet a format in its parts of 16 or 32 columns, its minimums, bits, codes or floats.
template <class Format>
inline constexpr bool kIsWide =
    std::is_same_v<Format, formats::F32Format> || std::is_same_v<Format, formats::Iq4_xsFormat> ||
    std::is_same_v<Format, formats::Q4_kFormat> || std::is_same_v<Format, formats::Q5_0Format> ||
    std::is_same_v<Format, formats::Q6_kFormat>;

template <class Format>
void run_format(const Job& job, const device::WindowLinearCommon::Args& args) {
  using Kernel = device::WindowLinear<Format>;
  if constexpr (kIsWide<Format>) {
    run<Kernel>(job, args);
  } else if (job.wave == 32) {
    emulator::launch<Kernel, 32>(args, job.seed);
  } else if (job.wave == 1) {
    simt::run_inline<Kernel>(args);
  } else {
    throw std::invalid_argument("this format is not emulated with 64 lanes");
  }
}

}  // namespace

// Numbers: format, tokens, columns, accumulate, then rows and scale of each matrix; arrays: x, q, then weights and
// outputs of each.
void window_linear(const Job& job) {
  device::WindowLinearCommon::Args args{};
  args.x = job.array<const float>(0);
  args.q = job.array<const std::byte>(1);
  args.tokens = job.integer(1);
  args.columns = job.integer(2);
  args.accumulate = job.integer(3) != 0;
  args.matrices = static_cast<int>((job.arrays.size() - 2) / 2);
  for (std::size_t m = 0; m < static_cast<std::size_t>(args.matrices); ++m) {
    args.rows[m] = job.integer(4 + 2 * m);
    args.scale[m] = static_cast<float>(job.number(5 + 2 * m));
    args.weights[m] = job.array<const std::byte>(2 + 2 * m);
    args.out[m] = job.array<float>(3 + 2 * m);
  }
  formats::visit(static_cast<std::size_t>(job.number(0)),
                 [&](auto type) { run_format<typename decltype(type)::type>(job, args); });
}

}  // namespace strata::device_tests
