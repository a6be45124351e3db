// rows_dot: out[t][r] = dot(weight row r, input vector t), the one micro-kernel behind every linear layer.
//
// The order of operations for one (row, token) is fixed: one vector accumulator, blocks ascending, one horizontal sum.
// Neither the number of tokens in a call nor the tile of rows that a row falls into changes a bit of it.
#pragma once

#include <cstddef>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata {

struct RowsDotArgs {
  const std::byte* weights;  // first row
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t columns;
  const std::byte* const* x;  // one input per token, in the format's activation form
  float* const* out;          // one array of `rows` per token
};

using RowsDot = void (*)(const RowsDotArgs&);

namespace kernels {

// Rows per tile: as many as fit into the registers with one accumulator per (row, token), at most 4.
template <class Isa>
constexpr std::size_t tile_rows(std::size_t tokens, std::size_t registers_per_row, std::size_t scratch) {
  const std::size_t free = Isa::kRegisters - scratch;
  const std::size_t fit = free / (tokens + registers_per_row);
  return fit < 1 ? 1 : fit > 4 ? 4 : fit;
}

template <class Isa>
STRATA_INLINE typename Isa::Float load_values(const std::byte* at, field::F32) {
  return Isa::load(reinterpret_cast<const float*>(at));
}

template <class Isa>
STRATA_INLINE typename Isa::Float load_values(const std::byte* at, field::Bf16) {
  return Isa::load_bf16(at);
}

// Fewer than a vector's values, the rest zeros.
template <class Isa, class Type>
STRATA_INLINE typename Isa::Float load_values_below(const std::byte* at, std::size_t count) {
  alignas(64) std::byte padded[Isa::kLanes * sizeof(typename Type::Stored)] = {};
  __builtin_memcpy(padded, at, count * sizeof(typename Type::Stored));
  return load_values<Isa>(padded, Type{});
}

template <class Format, class Isa, Activation = Format::kActivation>
struct Dot;

// Unscaled formats of one value per block, against float32.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kFloat> {
  using Float = typename Isa::Float;
  using Quant = typename Format::Quant;

  static constexpr std::size_t rows(std::size_t tokens) { return tile_rows<Isa>(tokens, 1, 1); }

  template <std::size_t Rows, std::size_t Tokens>
  STRATA_INLINE static void tile(const RowsDotArgs& args, const std::byte* weights, Float (&acc)[Rows][Tokens]) {
    const std::size_t whole = args.columns / Isa::kLanes * Isa::kLanes;
    for (std::size_t column = 0; column < whole; column += Isa::kLanes) {
      Float w[Rows];
      unroll<Rows>([&](auto r) STRATA_LAMBDA {
        w[r] = load_values<Isa>(weights + r * args.row_bytes + column * Format::kBytes, Quant{});
      });
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        const Float x = Isa::load(reinterpret_cast<const float*>(args.x[t]) + column);
        unroll<Rows>([&](auto r) STRATA_LAMBDA { acc[r][t] = Isa::multiply_add(w[r], x, acc[r][t]); });
      });
    }
    if (const std::size_t left = args.columns - whole; left != 0) {
      unroll<Rows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = weights + r * args.row_bytes + whole * Format::kBytes;
        const Float w = load_values_below<Isa, Quant>(at, left);
        unroll<Tokens>([&](auto t) STRATA_LAMBDA {
          const Float x = load_values_below<Isa, field::F32>(args.x[t] + whole * sizeof(float), left);
          acc[r][t] = Isa::multiply_add(w, x, acc[r][t]);
        });
      });
    }
  }
};

// Formats of 32 signed bytes and one scale, against Int8Row.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kInt8> {
  static_assert(Format::kBlock == Int8Row::kBlock);
  using Float = typename Isa::Float;
  using Weights = typename Isa::Weights;

  static constexpr std::size_t rows(std::size_t tokens) { return tile_rows<Isa>(tokens, 2, 5); }

  template <std::size_t Rows, std::size_t Tokens>
  STRATA_INLINE static void tile(const RowsDotArgs& args, const std::byte* weights, Float (&acc)[Rows][Tokens]) {
    const std::size_t blocks = args.columns / Format::kBlock;
    Int8Row x[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8Row::at(args.x[t], args.columns); });
    std::size_t block = 0;
    for (; block + Isa::kStep <= blocks; block += Isa::kStep) {
      Weights w[Rows];
      unroll<Rows>([&](auto r) STRATA_LAMBDA {
        w[r] = Isa::template load_weights<Format>(weights + r * args.row_bytes + block * Format::kBytes);
      });
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        unroll<Rows>([&](auto r) STRATA_LAMBDA { acc[r][t] = Isa::dot_add(w[r], x[t], block, acc[r][t]); });
      });
    }
    if constexpr (Isa::kStep == 2) {
      if (block < blocks) {
        unroll<Rows>([&](auto r) STRATA_LAMBDA {
          const std::byte* at = weights + r * args.row_bytes + block * Format::kBytes;
          const Weights w = Isa::template load_last_weights<Format>(at);
          unroll<Tokens>([&](auto t) STRATA_LAMBDA { acc[r][t] = Isa::dot_add_last(w, x[t], block, acc[r][t]); });
        });
      }
    }
  }
};

template <class Format, class Isa, std::size_t Rows, std::size_t Tokens>
STRATA_INLINE void dot_tile(const RowsDotArgs& args, std::size_t row) {
  typename Isa::Float acc[Rows][Tokens];
  unroll<Rows * Tokens>([&](auto i) STRATA_LAMBDA { acc[i / Tokens][i % Tokens] = Isa::zero(); });
  Dot<Format, Isa>::template tile<Rows, Tokens>(args, args.weights + row * args.row_bytes, acc);
  unroll<Rows * Tokens>(
      [&](auto i) STRATA_LAMBDA { args.out[i % Tokens][row + i / Tokens] = Isa::sum(acc[i / Tokens][i % Tokens]); });
}

}  // namespace kernels

template <class Format, class Isa, std::size_t Tokens>
void rows_dot(const RowsDotArgs& args) {
  constexpr std::size_t kRows = kernels::Dot<Format, Isa>::rows(Tokens);
  std::size_t row = 0;
  for (; row + kRows <= args.rows; row += kRows) kernels::dot_tile<Format, Isa, kRows, Tokens>(args, row);
  for (; row < args.rows; ++row) kernels::dot_tile<Format, Isa, 1, Tokens>(args, row);
}

}  // namespace strata
