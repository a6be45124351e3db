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
constexpr std::size_t fitting_rows(std::size_t tokens, std::size_t registers_per_row, std::size_t scratch) {
  const std::size_t fit = (Isa::kRegisters - scratch) / (tokens + registers_per_row);
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

  // Above this, accumulators of 4 rows do not fit and inputs are read too often.
  static constexpr std::size_t kTokens = Isa::kRegisters >= 32 ? 6 : 4;

  static constexpr std::size_t rows(std::size_t tokens) { return fitting_rows<Isa>(tokens, 1, 1); }

  template <class Tile>
  STRATA_INLINE static void run(const RowsDotArgs& args, const std::byte* weights, Tile& tile) {
    const std::size_t whole = args.columns / Isa::kLanes * Isa::kLanes;
    for (std::size_t column = 0; column < whole; column += Isa::kLanes) {
      Float w[Tile::kRows];
      unroll<Tile::kRows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = weights + r * args.row_bytes + column * Format::kBytes;
        tile.template prefetch_next<Isa::kLanes * Format::kBytes>(at, args.row_bytes);
        w[r] = load_values<Isa>(at, Quant{});
      });
      unroll<Tile::kTokens>([&](auto t) STRATA_LAMBDA {
        const Float x = Isa::load(reinterpret_cast<const float*>(args.x[Tile::kFirst + t]) + column);
        unroll<Tile::kRows>([&](auto r) STRATA_LAMBDA { tile.acc[r][t] = Isa::multiply_add(w[r], x, tile.acc[r][t]); });
      });
    }
    const std::size_t left = args.columns - whole;
    if (left == 0) return;
    unroll<Tile::kRows>([&](auto r) STRATA_LAMBDA {
      const std::byte* at = weights + r * args.row_bytes + whole * Format::kBytes;
      const Float w = load_values_below<Isa, Quant>(at, left);
      unroll<Tile::kTokens>([&](auto t) STRATA_LAMBDA {
        const Float x = load_values_below<Isa, field::F32>(args.x[Tile::kFirst + t] + whole * sizeof(float), left);
        tile.acc[r][t] = Isa::multiply_add(w, x, tile.acc[r][t]);
      });
    });
  }
};

// Formats of 32 signed bytes and one scale, against Int8Row.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kInt8> {
  static_assert(Format::kBlock == Int8Row::kBlock);
  using Weights = typename Isa::Weights;

  // Unpacking an input's scale costs about as much as a product, so it pays to share it among 4 rows.
  static constexpr std::size_t kTokens = 4;

  static constexpr std::size_t rows(std::size_t tokens) { return fitting_rows<Isa>(tokens, 2, 5); }

  template <class Tile>
  STRATA_INLINE static void run(const RowsDotArgs& args, const std::byte* weights, Tile& tile) {
    const std::size_t blocks = args.columns / Format::kBlock;
    Int8Row x[Tile::kTokens];
    unroll<Tile::kTokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8Row::at(args.x[Tile::kFirst + t], args.columns); });
    std::size_t block = 0;
    for (; block + Isa::kStep <= blocks; block += Isa::kStep) {
      Weights w[Tile::kRows];
      unroll<Tile::kRows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = weights + r * args.row_bytes + block * Format::kBytes;
        tile.template prefetch_next<Isa::kStep * Format::kBytes>(at, args.row_bytes);
        w[r] = Isa::template load_weights<Format>(at);
      });
      unroll<Tile::kTokens>([&](auto t) STRATA_LAMBDA {
        unroll<Tile::kRows>([&](auto r)
                                STRATA_LAMBDA { tile.acc[r][t] = Isa::dot_add(w[r], x[t], block, tile.acc[r][t]); });
      });
    }
    if constexpr (Isa::kStep == 2) {
      if (block == blocks) return;
      unroll<Tile::kRows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = weights + r * args.row_bytes + block * Format::kBytes;
        const Weights w = Isa::template load_last_weights<Format>(at);
        unroll<Tile::kTokens>(
            [&](auto t) STRATA_LAMBDA { tile.acc[r][t] = Isa::dot_add_last(w, x[t], block, tile.acc[r][t]); });
      });
    }
  }
};

// Accumulators of `Rows` rows for the tokens from `First` on.
template <class Isa, std::size_t Rows, std::size_t First, std::size_t Tokens>
struct Tile {
  static constexpr std::size_t kRows = Rows;
  static constexpr std::size_t kFirst = First;
  static constexpr std::size_t kTokens = Tokens;

  typename Isa::Float acc[Rows][Tokens];

  // Into the second-level cache: rows are too short for hardware to prefetch well, and the next tile follows this one.
  // No address faults here, so nothing happens past the end. Later tokens find the rows in the cache.
  template <std::size_t Bytes>
  STRATA_INLINE static void prefetch_next(const std::byte* at, std::size_t row_bytes) {
    if constexpr (First == 0) __builtin_prefetch(at + Rows * row_bytes, 0, 2);
    if constexpr (First == 0 && Bytes > 64) __builtin_prefetch(at + Rows * row_bytes + Bytes - 1, 0, 2);
  }
};

template <class Format, class Isa, std::size_t Rows, std::size_t First, std::size_t Tokens>
STRATA_INLINE void dot_tile(const RowsDotArgs& args, std::size_t row) {
  Tile<Isa, Rows, First, Tokens> tile;
  unroll<Rows * Tokens>([&](auto i) STRATA_LAMBDA { tile.acc[i / Tokens][i % Tokens] = Isa::zero(); });
  Dot<Format, Isa>::run(args, args.weights + row * args.row_bytes, tile);
  unroll<Rows * Tokens>([&](auto i) STRATA_LAMBDA {
    args.out[First + i % Tokens][row + i / Tokens] = Isa::sum(tile.acc[i / Tokens][i % Tokens]);
  });
}

// All tokens for some rows, in the fewest passes of at most Dot::kTokens, as even as they come.
template <class Format, class Isa, std::size_t Rows, std::size_t Tokens>
STRATA_INLINE void dot_rows(const RowsDotArgs& args, std::size_t row) {
  constexpr std::size_t kPasses = (Tokens - 1) / Dot<Format, Isa>::kTokens + 1;
  unroll<kPasses>([&](auto pass) STRATA_LAMBDA {
    constexpr std::size_t kFirst = decltype(pass)::value * Tokens / kPasses;
    constexpr std::size_t kEnd = (decltype(pass)::value + 1) * Tokens / kPasses;
    dot_tile<Format, Isa, Rows, kFirst, kEnd - kFirst>(args, row);
  });
}

}  // namespace kernels

template <class Format, class Isa, std::size_t Tokens>
void rows_dot(const RowsDotArgs& args) {
  using Dot = kernels::Dot<Format, Isa>;
  constexpr std::size_t kRows = Dot::rows(Tokens < Dot::kTokens ? Tokens : Dot::kTokens);
  std::size_t row = 0;
  for (; row + kRows <= args.rows; row += kRows) kernels::dot_rows<Format, Isa, kRows, Tokens>(args, row);
  for (; row < args.rows; ++row) kernels::dot_rows<Format, Isa, 1, Tokens>(args, row);
}

}  // namespace strata
