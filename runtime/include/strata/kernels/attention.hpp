// Attention of a few queries over a span of positions, which they share one head of keys and values for.
#pragma once

#include <cstddef>

#include "strata/inline.hpp"
#include "strata/kernels/elementwise.hpp"

namespace strata {

// Most positions of a span: keys and values of one head stay in the second-level cache while all queries use them.
inline constexpr std::size_t kSpan = 256;

struct AttendSpanArgs {
  const float* queries;  // [group, dim], with the scale of the scores in them
  const float* keys;     // [positions, dim]
  const float* values;   // [positions, dim]
  std::size_t group;
  std::size_t dim;
  std::size_t positions;  // from 1 to kSpan
  float* maxima;          // [group]: each query's largest score
  float* sums;            // [group]: sum of exp(score - maximum)
  float* out;             // [group, dim]: sum of exp(score - maximum) * value
};

namespace kernels {

STRATA_INLINE std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }

// The first `count` of a vector's floats, the rest zeros.
template <class Isa>
STRATA_INLINE typename Isa::Float load_floats(const float* at, std::size_t count) {
  alignas(64) float padded[Isa::kLanes] = {};
  __builtin_memcpy(padded, at, count * sizeof(float));
  return Isa::load(padded);
}

template <class Isa>
STRATA_INLINE void store_floats(float* to, typename Isa::Float v, std::size_t count) {
  alignas(64) float padded[Isa::kLanes];
  Isa::store(padded, v);
  __builtin_memcpy(to, padded, count * sizeof(float));
}

template <class Isa>
struct AttendSpan {
  using Float = typename Isa::Float;
  using Lanes = float __attribute__((vector_size(64)));  // as wide at every level, so sums have the same order

  static constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);
  static constexpr std::size_t kQueries = 8;  // whose scores are held at a time
  static constexpr std::size_t kRows = 8;     // keys that are multiplied together
  static constexpr std::size_t kCached = 32;  // positions whose values stay in the first-level cache
  static constexpr std::size_t kTile = 4;     // queries that a value is loaded for once
  static constexpr std::size_t kVectors = Isa::kRegisters >= 32 ? 4 : 2;

  using Scores = float[kSpan];

  // Products of one query with kRows keys; `last` is the last of them that there is, and stands for those behind it.
  STRATA_INLINE static void score(const float* query, const float* keys, std::size_t last, std::size_t dim,
                                  float* scores) {
    const float* rows[kRows];
    unroll<kRows>([&](auto r) STRATA_LAMBDA { rows[r] = keys + (r < last ? r : last) * dim; });
    Float acc[kRows];
    unroll<kRows>([&](auto r) STRATA_LAMBDA { acc[r] = Isa::zero(); });
    const std::size_t whole = dim / Isa::kLanes * Isa::kLanes;
    for (std::size_t i = 0; i < whole; i += Isa::kLanes) {
      const Float q = Isa::load(query + i);
      unroll<kRows>([&](auto r) STRATA_LAMBDA { acc[r] = Isa::multiply_add(q, Isa::load(rows[r] + i), acc[r]); });
    }
    if (const std::size_t left = dim - whole; left != 0) {
      const Float q = load_floats<Isa>(query + whole, left);
      unroll<kRows>([&](auto r) STRATA_LAMBDA {
        acc[r] = Isa::multiply_add(q, load_floats<Isa>(rows[r] + whole, left), acc[r]);
      });
    }
    Isa::sum8(acc, scores);
  }

  STRATA_INLINE static void read(Lanes& v, const float* at) { __builtin_memcpy(&v, at, sizeof v); }

  // Scores become exp(score - maximum). A score that is no number, or infinite, makes the sum a NaN.
  STRATA_INLINE static void soften(Scores& scores, std::size_t positions, float& maximum, float& sum) {
    const std::size_t padded = (positions + kLanes - 1) / kLanes * kLanes;
    for (std::size_t i = positions; i < padded; ++i) scores[i] = scores[0];
    Lanes most, next;
    read(most, scores);
    for (std::size_t i = kLanes; i < padded; i += kLanes) {
      read(next, scores + i);
      most = next > most ? next : most;
    }
    maximum = most[0];
    for (std::size_t i = 1; i < kLanes; ++i) maximum = most[i] > maximum ? most[i] : maximum;
    for (std::size_t i = 0; i < positions; ++i) {
      const float below = scores[i] - maximum;
      scores[i] = exp_clamped(below) + (below - below);
    }
    for (std::size_t i = positions; i < padded; ++i) scores[i] = 0.0f;
    Lanes total{};
    for (std::size_t i = 0; i < padded; i += kLanes) {
      read(next, scores + i);
      total += next;
    }
    sum = 0.0f;
    for (std::size_t i = 0; i < kLanes; ++i) sum += total[i];
  }

  // Adds weighted values to some elements of some queries' results: to Vectors whole vectors, or to `left` floats.
  template <std::size_t Queries, std::size_t Vectors, bool Whole>
  STRATA_INLINE static void add_values(const Scores* weights, std::size_t first, std::size_t last, const float* values,
                                       std::size_t dim, float* out, std::size_t left) {
    const auto load = [&](const float* at) STRATA_LAMBDA {
      if constexpr (Whole) return Isa::load(at);
      return load_floats<Isa>(at, left);
    };
    Float acc[Queries][Vectors];
    unroll<Queries * Vectors>([&](auto i) STRATA_LAMBDA {
      acc[i / Vectors][i % Vectors] = load(out + i / Vectors * dim + i % Vectors * Isa::kLanes);
    });
    for (std::size_t position = first; position < last; ++position) {
      Float value[Vectors];
      unroll<Vectors>([&](auto v) STRATA_LAMBDA { value[v] = load(values + position * dim + v * Isa::kLanes); });
      unroll<Queries>([&](auto q) STRATA_LAMBDA {
        const Float weight = Isa::broadcast(weights[q][position]);
        unroll<Vectors>([&](auto v) STRATA_LAMBDA { acc[q][v] = Isa::multiply_add(weight, value[v], acc[q][v]); });
      });
    }
    unroll<Queries * Vectors>([&](auto i) STRATA_LAMBDA {
      float* to = out + i / Vectors * dim + i % Vectors * Isa::kLanes;
      if constexpr (Whole) {
        Isa::store(to, acc[i / Vectors][i % Vectors]);
      } else {
        store_floats<Isa>(to, acc[i / Vectors][i % Vectors], left);
      }
    });
  }

  template <std::size_t Queries>
  STRATA_INLINE static void add_rows(const Scores* weights, std::size_t first, std::size_t last, const float* values,
                                     std::size_t dim, float* out) {
    std::size_t i = 0;
    for (; i + kVectors * Isa::kLanes <= dim; i += kVectors * Isa::kLanes) {
      add_values<Queries, kVectors, true>(weights, first, last, values + i, dim, out + i, 0);
    }
    for (; i + Isa::kLanes <= dim; i += Isa::kLanes) {
      add_values<Queries, 1, true>(weights, first, last, values + i, dim, out + i, 0);
    }
    if (i < dim) add_values<Queries, 1, false>(weights, first, last, values + i, dim, out + i, dim - i);
  }

  // At most kQueries queries.
  STRATA_INLINE static void run(const AttendSpanArgs& args) {
    alignas(64) Scores scores[kQueries];
    const std::size_t dim = args.dim;
    for (std::size_t position = 0; position < args.positions; position += kRows) {
      const float* keys = args.keys + position * dim;
      for (std::size_t q = 0; q < args.group; ++q) {
        score(args.queries + q * dim, keys, args.positions - position - 1, dim, scores[q] + position);
      }
    }
    for (std::size_t q = 0; q < args.group; ++q) soften(scores[q], args.positions, args.maxima[q], args.sums[q]);
    for (std::size_t i = 0; i < args.group * dim; ++i) args.out[i] = 0.0f;
    for (std::size_t first = 0; first < args.positions; first += kCached) {
      const std::size_t last = least(args.positions, first + kCached);
      std::size_t q = 0;
      for (; q + kTile <= args.group; q += kTile) {
        add_rows<kTile>(scores + q, first, last, args.values, dim, args.out + q * dim);
      }
      for (; q < args.group; ++q) add_rows<1>(scores + q, first, last, args.values, dim, args.out + q * dim);
    }
  }
};

// Each query's part of attention over one span. A query's bits depend on nothing but it and the span.
template <class Isa>
void attend_span(const AttendSpanArgs& args) {
  constexpr std::size_t kQueries = AttendSpan<Isa>::kQueries;
  for (std::size_t first = 0; first < args.group; first += kQueries) {
    AttendSpanArgs part = args;
    part.group = least(kQueries, args.group - first);
    part.queries += first * args.dim;
    part.maxima += first;
    part.sums += first;
    part.out += first * args.dim;
    AttendSpan<Isa>::run(part);
  }
}

}  // namespace kernels
}  // namespace strata
