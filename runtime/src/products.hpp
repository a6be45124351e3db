// Products of some rows of a matrix with a few prepared inputs, whatever layout the rows have.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "strata/ops.hpp"

namespace strata {

// Rows that stand side by side must do so as the kernels of `level` expect.
inline void require_layout(const LevelKernels& level, const Matrix& matrix) {
  if (matrix.interleaved() == nullptr) return;
  if (level.formats[matrix.format().id]->interleaved == matrix.interleaved()) return;
  throw std::invalid_argument("a matrix was arranged for other kernels than those of " + std::string(level.isa));
}

// Writes to to[t][i] the product of row `first` + i with input t, for the rows [first, last) and the inputs [0,
// tokens), tokens at most kMaxTokens. `first` is a multiple of the rows of a group.
inline void products(const Runner& runner, const Matrix& matrix, std::size_t first, std::size_t last,
                     std::size_t tokens, const std::byte* const* from, float* const* to) {
  const FormatKernels& kernels = *runner.kernels.formats[matrix.format().id];
  const std::size_t middle = std::clamp(matrix.grouped_rows(), first, last);
  if (first < middle) {
    const InterleavedKernels& interleaved = *kernels.interleaved;
    const bool by_hand = runner.fetches_ahead && tokens <= interleaved.interleaved_dot_ahead.size();
    const RowsDot& dot = (by_hand ? interleaved.interleaved_dot_ahead
                                  : std::span<const RowsDot>(interleaved.interleaved_dot))[tokens - 1];
    dot({matrix.group(first), matrix.group_bytes(), middle - first, matrix.columns(), from, to});
  }
  if (middle < last) {
    std::array<float*, kMaxTokens> rest;
    for (std::size_t t = 0; t < tokens; ++t) rest[t] = to[t] + (middle - first);
    kernels.rows_dot[tokens - 1](
        {matrix.row(middle), matrix.row_bytes(), last - middle, matrix.columns(), from, rest.data()});
  }
  for (std::size_t t = 0; t < tokens; ++t) matrix.apply_scale(to[t], last - first);
}

}  // namespace strata
