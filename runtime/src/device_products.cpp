#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/device/run_products.hpp"
#include "strata/gen/format_types.hpp"
#include "strata/kernels/interleaved.hpp"
#include "strata/weights.hpp"

namespace strata::device {
namespace {

// body(std::type_identity<Format>) for a format that device kernels can read.
template <class Body>
decltype(auto) visit(const formats::Info& format, const Body& body) {
  return formats::visit(format.id, [&](auto type) {
    if constexpr (kHasDeviceForm<typename decltype(type)::type>) {
      return body(type);
    } else {
      throw std::invalid_argument("device kernels cannot read " + std::string(format.name) +
                                  ": it has no compute layout");
      return decltype(body(std::type_identity<formats::F32Format>{}))();
    }
  });
}

}  // namespace

void run_window_linear(const formats::Info& format, const WindowLinearCommon::Args& args, Stream stream) {
  visit(format, [&](auto type) { run<WindowLinear<typename decltype(type)::type>>(args, stream); });
}

void run_expert_gate_up(const formats::Info& format, const ExpertGateUpCommon::Args& args, Stream stream) {
  visit(format, [&](auto type) { run<ExpertGateUp<typename decltype(type)::type>>(args, stream); });
}

void run_expert_down(const formats::Info& format, const ExpertDownCommon::Args& args, Stream stream) {
  visit(format, [&](auto type) { run<ExpertDown<typename decltype(type)::type>>(args, stream); });
}

void run_to_floats(const formats::Info& format, const ToFloatsCommon::Args& args, Stream stream) {
  visit(format, [&](auto type) { run<ToFloats<typename decltype(type)::type>>(args, stream); });
}

std::size_t device_matrix_bytes(const formats::Info& format, std::size_t rows, std::size_t columns) {
  require_countable(rows, columns);
  row_bytes(format, columns);
  return visit(format, [&](auto type) {
    using Format = typename decltype(type)::type;
    return static_cast<std::size_t>(matrix_bytes<Format>(static_cast<std::int64_t>(rows), static_cast<int>(columns)));
  });
}

void arrange_device_matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* stored,
                           std::byte* out) {
  const std::size_t bytes = device_matrix_bytes(format, rows, columns);
  if (bytes == 0) return;
  require_address(stored, "stored rows");
  require_address(out, "device matrix");
  const std::size_t row = row_bytes(format, columns);
  visit(format, [&](auto type) {
    using Format = typename decltype(type)::type;
    if constexpr (!kIsQuantized<Format>) {
      std::copy_n(stored, bytes, out);
    } else {
      const std::vector<std::byte> nothing(Format::kBytes);
      for (std::size_t first = 0; first < rows; first += kGroupRows) {
        for (std::size_t block = 0; block < columns / Format::kBlock; ++block) {
          const std::byte* from[kGroupRows];
          for (std::size_t r = 0; r < kGroupRows; ++r) {
            from[r] = first + r < rows ? stored + (first + r) * row + block * Format::kBytes : nothing.data();
          }
          kernels::interleave_block<Format, kGroupRows>(from, out);
          out += GroupLayout<Format>::kBytes;
        }
      }
    }
  });
}

}  // namespace strata::device
