// Input vectors in the form that a format's kernels take.
#pragma once

#include <algorithm>
#include <cstddef>

#include "strata/activation.hpp"
#include "strata/formats.hpp"
#include "strata/kernels/level.hpp"
#include "strata/pool.hpp"

namespace strata {

constexpr std::size_t rounded_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr std::size_t at_least_one(std::size_t value) { return value == 0 ? 1 : value; }

// Bytes of one prepared input.
inline std::size_t input_bytes(Activation activation, std::size_t columns) {
  switch (activation) {
    case Activation::kInt8:
      return Int8Row::bytes(columns);
    case Activation::kInt8x256:
      return Int8x256Row::bytes(columns);
    case Activation::kFloat:
      break;
  }
  return columns * sizeof(float);
}

// Values that share one scale.
constexpr std::size_t input_block(Activation activation) {
  return activation == Activation::kInt8x256 ? Int8x256Row::kBlock
         : activation == Activation::kInt8   ? Int8Row::kBlock
                                             : 1;
}

inline Quantize quantizer(const LevelKernels& kernels, Activation activation) {
  return activation == Activation::kInt8x256 ? kernels.quantize_input_int8_256 : kernels.quantize_input_int8;
}

// `tokens` prepared inputs, `stride` bytes apart.
struct Inputs {
  const std::byte* first;
  std::size_t stride;

  const std::byte* operator[](std::size_t token) const { return first + token * stride; }
};

// Prepares inputs: float formats read them in place, others quantise into `scratch` (tokens * input_bytes bytes).
inline Inputs prepare_inputs(Pool::Session& session, const LevelKernels& kernels, Activation activation,
                             std::size_t tokens, std::size_t columns, const float* x, std::byte* scratch) {
  if (activation == Activation::kFloat) {
    return {reinterpret_cast<const std::byte*>(x), columns * sizeof(float)};
  }
  constexpr std::size_t kValuesPerChunk = 1 << 16;  // less is done sooner than another thread wakes up
  const std::size_t stride = input_bytes(activation, columns);
  const std::size_t blocks = columns / input_block(activation);
  const Quantize quantize = quantizer(kernels, activation);
  const std::size_t grain = at_least_one(kValuesPerChunk / columns);
  session.run(tokens, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      quantize(x + token * columns, 0, blocks, columns, scratch + token * stride);
    }
  });
  return {scratch, stride};
}

// Output rows per claim: `claim_rows` when it is not 0, else a few claims per worker, each worth waking a thread for
// and not so large that its weights leave the second-level cache while many tokens pass over them.
inline std::size_t claim_grain(std::size_t claim_rows, std::size_t rows, std::size_t row_bytes, std::size_t tokens,
                               int workers) {
  constexpr std::size_t kWorthWaking = 1 << 17;  // bytes of weights times tokens
  constexpr std::size_t kCacheBytes = 1 << 18;
  constexpr std::size_t kClaimsPerWorker = 4;
  constexpr std::size_t kMultiple = 32;
  if (claim_rows != 0) return claim_rows;
  const std::size_t row_work = at_least_one(row_bytes * tokens);
  const std::size_t least = rounded_up((kWorthWaking + row_work - 1) / row_work, kMultiple);
  const std::size_t share = rounded_up(rows / (kClaimsPerWorker * static_cast<std::size_t>(workers)), kMultiple);
  const std::size_t cached = rounded_up(at_least_one(kCacheBytes / at_least_one(row_bytes)), kMultiple);
  return std::max(least, std::min(at_least_one(share), cached));
}

}  // namespace strata
