// What every instance of the micro-kernel looks like from outside.
#pragma once

#include <array>
#include <cstddef>

#include "strata/gen/knobs.hpp"
#include "strata/kernels/named.hpp"

namespace strata {

// Most tokens that one call of a micro-kernel takes.
inline constexpr std::size_t kMaxTokens = static_cast<std::size_t>(window_max_tokens);

struct RowsDotArgs {
  const std::byte* weights;  // first row
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t columns;
  const std::byte* const* x;  // one input per token, in the format's activation form
  float* const* out;          // one array of `rows` per token
};

using RowsDot = Named<void(const RowsDotArgs&)>;

// Kernels of one format: `rows_dot[n - 1]` takes n tokens.
struct FormatKernels {
  std::array<RowsDot, kMaxTokens> rows_dot;
};

}  // namespace strata
