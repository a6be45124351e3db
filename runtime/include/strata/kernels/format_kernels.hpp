// What every instance of the micro-kernel looks like from outside.
#pragma once

#include <array>
#include <cstddef>
#include <span>

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

// Makes a group of rows side by side from as many stored rows of `blocks` blocks, which are `row_bytes` apart.
using Interleave = Named<void(const std::byte* weights, std::size_t row_bytes, std::size_t blocks, std::byte* out)>;

// Kernels of one format in its compute layout: matrices whose rows stand side by side in groups of `rows`.
//
// `interleave` makes one group. `interleaved_dot[n - 1]` takes n tokens and whole groups, `row_bytes` being those of a
// group; so does `interleaved_dot_ahead[n - 1]`, which there is for few tokens: the same bits, fetched by hand.
struct InterleavedKernels {
  std::size_t rows;
  std::size_t block_bytes;  // of one block of each of the rows
  Interleave interleave;
  std::array<RowsDot, kMaxTokens> interleaved_dot;
  std::span<const RowsDot> interleaved_dot_ahead;
};

// Kernels of one format: `rows_dot[n - 1]` takes n tokens. `interleaved` is null where blocks are read as stored.
struct FormatKernels {
  std::array<RowsDot, kMaxTokens> rows_dot;
  const InterleavedKernels* interleaved;
};

}  // namespace strata
