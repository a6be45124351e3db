// rows_dot: out[t][r] = dot(weight row r, input vector t), the one micro-kernel behind every linear layer.
//
// The order of operations for one (row, token) is fixed: one set of accumulators, blocks ascending, one horizontal sum.
// Neither the number of tokens in a call nor the tile of rows that a row falls into changes a bit of it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/kernels/format_kernels.hpp"
#include "strata/scalar.hpp"

namespace strata {
namespace kernels {

// Some rows of a matrix, and the inputs of some tokens.
struct TileArgs {
  const std::byte* weights;
  std::size_t row_bytes;
  std::size_t columns;
  const std::byte* const* x;
  float* const* out;  // where the first of the rows goes
  std::size_t row;
};

// Into the second-level cache: rows are too short for hardware to prefetch well, and the next tile follows this one. No
// address faults here, so nothing happens past the end.
template <std::size_t Bytes>
STRATA_INLINE void prefetch(const std::byte* at) {
  for (std::size_t line = 0; line < Bytes; line += 64) __builtin_prefetch(at + line, 0, 2);
  if constexpr (Bytes % 64 > 1) __builtin_prefetch(at + Bytes - 1, 0, 2);
}

template <class Isa>
STRATA_INLINE typename Isa::Float load_values(const std::byte* at, field::F32) {
  return Isa::load(reinterpret_cast<const float*>(at));
}

template <class Isa>
STRATA_INLINE typename Isa::Float load_values(const std::byte* at, field::Bf16) {
  return Isa::load_bf16(at);
}

template <class Isa>
STRATA_INLINE typename Isa::Float load_values(const std::byte* at, field::F16) {
  return Isa::load_f16(at);
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

// Plain floats against float32: a vector holds values of one row.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kFloat> {
  using Float = typename Isa::Float;
  using Value = typename Format::Value;

  // Above this, accumulators of 4 rows do not fit and inputs are read too often.
  static constexpr std::size_t kTokens = Isa::kRegisters >= 32 ? 6 : 4;

  // One accumulator per (row, token), a vector of weights per row, one input.
  static constexpr std::size_t rows(std::size_t tokens) {
    return std::clamp<std::size_t>((Isa::kRegisters - 1) / (tokens + 1), 1, 4);
  }

  template <std::size_t Rows, std::size_t Tokens, bool Prefetch>
  STRATA_INLINE static void run(const TileArgs& args) {
    Float acc[Rows][Tokens];
    unroll<Rows * Tokens>([&](auto i) STRATA_LAMBDA { acc[i / Tokens][i % Tokens] = Isa::zero(); });
    const std::size_t whole = args.columns / Isa::kLanes * Isa::kLanes;
    for (std::size_t column = 0; column < whole; column += Isa::kLanes) {
      Float w[Rows];
      unroll<Rows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = args.weights + r * args.row_bytes + column * Format::kBytes;
        if constexpr (Prefetch) prefetch<Isa::kLanes * Format::kBytes>(at + Rows * args.row_bytes);
        w[r] = load_values<Isa>(at, Value{});
      });
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        const Float x = Isa::load(reinterpret_cast<const float*>(args.x[t]) + column);
        unroll<Rows>([&](auto r) STRATA_LAMBDA { acc[r][t] = Isa::multiply_add(w[r], x, acc[r][t]); });
      });
    }
    if (const std::size_t left = args.columns - whole; left != 0) {
      unroll<Rows>([&](auto r) STRATA_LAMBDA {
        const std::byte* at = args.weights + r * args.row_bytes + whole * Format::kBytes;
        const Float w = load_values_below<Isa, Value>(at, left);
        unroll<Tokens>([&](auto t) STRATA_LAMBDA {
          const Float x = load_values_below<Isa, field::F32>(args.x[t] + whole * sizeof(float), left);
          acc[r][t] = Isa::multiply_add(w, x, acc[r][t]);
        });
      });
    }
    unroll<Rows * Tokens>([&](auto i) STRATA_LAMBDA {
      args.out[i % Tokens][args.row + i / Tokens] = Isa::sum(acc[i / Tokens][i % Tokens]);
    });
  }
};

// Rows of blocks, in groups of as many as one vector holds side by side (Isa::kVectorRows). A tile of a single row
// holds it several times over.
template <class Isa, std::size_t Rows>
struct RowGroups {
  static constexpr std::size_t kWidth = Isa::kVectorRows;
  static constexpr std::size_t kCount = (Rows + kWidth - 1) / kWidth;

  const std::byte* weights;
  std::size_t row_bytes;

  STRATA_INLINE typename Isa::Blocks at(std::size_t group, std::size_t offset) const {
    typename Isa::Blocks blocks;
    unroll<kWidth>([&](auto i) STRATA_LAMBDA {
      const std::size_t row = group * kWidth + i;
      blocks.row[i] = weights + (row < Rows ? row : Rows - 1) * row_bytes + offset;
    });
    return blocks;
  }

  template <std::size_t Bytes>
  STRATA_INLINE void prefetch_next(std::size_t offset) const {
    unroll<Rows>([&](auto row) STRATA_LAMBDA { prefetch<Bytes>(weights + (Rows + row) * row_bytes + offset); });
  }

  // Writes sums[g] of the groups to rows `row` and up of `out`.
  STRATA_INLINE static void store(typename Isa::Float sums, std::size_t group, std::size_t row, float* out) {
    float values[kWidth];
    Isa::sum_rows(sums, values);
    unroll<kWidth>([&](auto i) STRATA_LAMBDA {
      if (group * kWidth + i < Rows) out[row + group * kWidth + i] = values[i];
    });
  }
};

// Blocks of 32 integers and one scale, against Int8Row.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kInt8> {
  using Float = typename Isa::Float;

  static_assert(Format::kBlock == Int8Row::kBlock);
  static constexpr std::size_t kTokens = 4;

  static constexpr std::size_t rows(std::size_t tokens) {
    const std::size_t groups = std::clamp<std::size_t>((Isa::kRegisters - 5) / (tokens + 2), 1, 2);
    return Isa::kVectorRows * groups;
  }

  template <std::size_t Rows, std::size_t Tokens, bool Prefetch>
  STRATA_INLINE static void run(const TileArgs& args) {
    using Groups = RowGroups<Isa, Rows>;
    const Groups groups{args.weights, args.row_bytes};
    Int8Row x[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8Row::at(args.x[t], args.columns); });
    Float acc[Groups::kCount][Tokens];
    unroll<Groups::kCount * Tokens>([&](auto i) STRATA_LAMBDA { acc[i / Tokens][i % Tokens] = Isa::zero(); });
    for (std::size_t block = 0; block < args.columns / Format::kBlock; ++block) {
      typename Isa::SignedWeights w[Groups::kCount];
      Float scale[Groups::kCount];
      if constexpr (Prefetch) groups.template prefetch_next<Format::kBytes>(block * Format::kBytes);
      unroll<Groups::kCount>([&](auto g) STRATA_LAMBDA {
        const auto at = groups.at(g, block * Format::kBytes);
        const typename Format::template Vectors<Isa> vectors(at);
        w[g] = Isa::signed_weights(vectors.template quants<0>());
        scale[g] = Isa::factors(at, Format::kScale, typename Format::Scale{});
      });
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        const auto input = Isa::input(x[t], block);
        unroll<Groups::kCount>([&](auto g) STRATA_LAMBDA {
          const Float both = Isa::multiply(scale[g], x[t].scales[block]);
          acc[g][t] = Isa::multiply_add(Isa::to_float(Isa::dot(w[g], input)), both, acc[g][t]);
        });
      });
    }
    unroll<Groups::kCount * Tokens>([&](auto i) STRATA_LAMBDA {
      Groups::store(acc[i / Tokens][i % Tokens], i / Tokens, args.row, args.out[i % Tokens]);
    });
  }
};

// Blocks of 256 integers whose parts have integer scales, against Int8x256Row. Integers are summed under their scales
// before anything becomes a float.
template <class Format, class Isa>
struct Dot<Format, Isa, Activation::kInt8x256> {
  using Float = typename Isa::Float;
  using Ints = typename Isa::Ints;
  using Scales = typename Isa::Scales;

  static_assert(Format::kBlock == Int8x256Row::kBlock);
  static constexpr std::size_t kSteps = 8;
  static constexpr std::size_t kTokens = Isa::kRegisters >= 32 ? 8 : 4;
  static constexpr bool kHasMinimums = requires { Format::kMinimum; };

  static constexpr std::size_t rows(std::size_t tokens) {
    const std::size_t groups = std::clamp<std::size_t>((Isa::kRegisters - 6) / (2 * tokens + 3), 1, 2);
    return Isa::kVectorRows * groups;
  }

  // What one group of rows has for a block besides its integers.
  struct Block {
    Scales scales;
    Float scale;
    Float minimums;
  };

  STRATA_INLINE static Block read(const typename Isa::Blocks& at) {
    Block block;
    if constexpr (Format::kScales == 16) {
      block.scales = Isa::scales16(at, Format::kScaleBytes);
    } else {
      std::uint64_t words[Isa::kVectorRows];
      unroll<Isa::kVectorRows>([&](auto i) STRATA_LAMBDA { words[i] = Format::scale_bytes(at.row[i]); });
      block.scales = Isa::template scales8<Format::kScaleOffset>(words);
    }
    block.scale = Isa::factors(at, Format::kScale, typename Format::Scale{});
    if constexpr (kHasMinimums) {
      std::uint64_t words[Isa::kVectorRows];
      unroll<Isa::kVectorRows>([&](auto i) STRATA_LAMBDA { words[i] = Format::minimum_bytes(at.row[i]); });
      block.minimums = Isa::products(words, Isa::factors(at, Format::kMinimum, typename Format::Minimum{}));
    }
    return block;
  }

  // What integers start from: those that a kernel sees are `kBias` too large.
  STRATA_INLINE static Ints start(const Scales& scales, const std::int16_t* sums) {
    if constexpr (Format::kSigned || Format::kBias == 0) {
      return Isa::no_ints();
    } else {
      return Isa::dot_sums(Isa::template scales_times<-Format::kBias>(scales), sums);
    }
  }

  STRATA_INLINE static auto weights(typename Isa::Bytes bytes) {
    if constexpr (Format::kSigned) {
      return Isa::signed_pairs(bytes);
    } else {
      return Isa::unsigned_pairs(bytes);
    }
  }

  template <std::size_t Rows, std::size_t Tokens, bool Prefetch>
  STRATA_INLINE static void run(const TileArgs& args) {
    using Groups = RowGroups<Isa, Rows>;
    using Vectors = typename Format::template Vectors<Isa>;
    constexpr std::size_t kGroups = Groups::kCount;
    const Groups groups{args.weights, args.row_bytes};
    Int8x256Row x[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8x256Row::at(args.x[t], args.columns); });
    Float acc[kGroups][Tokens];
    unroll<kGroups * Tokens>([&](auto i) STRATA_LAMBDA { acc[i / Tokens][i % Tokens] = Isa::zero(); });
    for (std::size_t index = 0; index < args.columns / Format::kBlock; ++index) {
      if constexpr (Prefetch) groups.template prefetch_next<Format::kBytes>(index * Format::kBytes);
      Block block[kGroups];
      Ints sums[kGroups][Tokens];
      unroll<kGroups>([&](auto g) STRATA_LAMBDA {
        block[g] = read(groups.at(g, index * Format::kBytes));
        unroll<Tokens>(
            [&](auto t) STRATA_LAMBDA { sums[g][t] = start(block[g].scales, x[t].sums + index * Int8x256Row::kSums); });
      });
      unroll_over_groups<kGroups>(groups, index * Format::kBytes, [&](const Vectors(&vectors)[kGroups]) STRATA_LAMBDA {
        unroll<kSteps>([&](auto step) STRATA_LAMBDA {
          constexpr std::size_t kStep = decltype(step)::value;
          decltype(weights(typename Isa::Bytes{})) w[kGroups];
          Scales scales[kGroups];
          unroll<kGroups>([&](auto g) STRATA_LAMBDA {
            w[g] = weights(vectors[g].template quants<kStep>());
            scales[g] = Isa::template scales_of<kStep>(block[g].scales);
          });
          unroll<Tokens>([&](auto t) STRATA_LAMBDA {
            const auto input = Isa::input_bytes(x[t].values + index * Format::kBlock + kStep * 32);
            unroll<kGroups>([&](auto g)
                                STRATA_LAMBDA { sums[g][t] = Isa::dot_scaled(w[g], input, scales[g], sums[g][t]); });
          });
        });
      });
      unroll<kGroups * Tokens>([&](auto i) STRATA_LAMBDA {
        constexpr std::size_t g = decltype(i)::value / Tokens;
        constexpr std::size_t t = decltype(i)::value % Tokens;
        const Float both = Isa::multiply(block[g].scale, x[t].scales[index]);
        acc[g][t] = Isa::multiply_add(Isa::to_float(sums[g][t]), both, acc[g][t]);
        if constexpr (kHasMinimums) {
          acc[g][t] = Isa::subtract_product(block[g].minimums, x[t].totals + index * Int8x256Row::kTotals, acc[g][t]);
        }
      });
    }
    unroll<kGroups * Tokens>([&](auto i) STRATA_LAMBDA {
      Groups::store(acc[i / Tokens][i % Tokens], i / Tokens, args.row, args.out[i % Tokens]);
    });
  }

 private:
  // Readers have no default state, so an array of them is made in one piece.
  template <std::size_t Count, class Groups, class Body>
  STRATA_INLINE static void unroll_over_groups(const Groups& groups, std::size_t offset, const Body& body) {
    using Vectors = typename Format::template Vectors<Isa>;
    if constexpr (Count == 1) {
      const Vectors vectors[1] = {Vectors(groups.at(0, offset))};
      body(vectors);
    } else {
      const Vectors vectors[2] = {Vectors(groups.at(0, offset)), Vectors(groups.at(1, offset))};
      body(vectors);
    }
  }
};

// One tile. A function of its own: numbers of tokens that are cut into the same passes share it.
template <class Format, class Isa, std::size_t Rows, std::size_t Tokens, bool Prefetch>
[[gnu::noinline]] void dot_tile(const TileArgs& args) {
  Dot<Format, Isa>::template run<Rows, Tokens, Prefetch>(args);
}

// All tokens for some rows, in the fewest passes of at most Dot::kTokens, as even as they come. Later passes find the
// rows in the cache.
template <class Format, class Isa, std::size_t Rows, std::size_t Tokens>
STRATA_INLINE void dot_rows(const RowsDotArgs& args, std::size_t row) {
  constexpr std::size_t kPasses = (Tokens - 1) / Dot<Format, Isa>::kTokens + 1;
  unroll<kPasses>([&](auto pass) STRATA_LAMBDA {
    constexpr std::size_t kFirst = decltype(pass)::value * Tokens / kPasses;
    constexpr std::size_t kEnd = (decltype(pass)::value + 1) * Tokens / kPasses;
    dot_tile<Format, Isa, Rows, kEnd - kFirst, kFirst == 0>(
        {args.weights + row * args.row_bytes, args.row_bytes, args.columns, args.x + kFirst, args.out + kFirst, row});
  });
}

}  // namespace kernels

template <class Format, class Isa, std::size_t Tokens>
void rows_dot(const RowsDotArgs& args) {
  using Dot = kernels::Dot<Format, Isa>;
  constexpr std::size_t kRows = Dot::rows(std::min(Tokens, Dot::kTokens));
  std::size_t row = 0;
  for (; row + kRows <= args.rows; row += kRows) kernels::dot_rows<Format, Isa, kRows, Tokens>(args, row);
  for (; row < args.rows; ++row) kernels::dot_rows<Format, Isa, 1, Tokens>(args, row);
}

}  // namespace strata
