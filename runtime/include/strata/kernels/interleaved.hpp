// Dot products over the compute layout: rows side by side, a lane of a vector for each, so that nothing is summed
// across lanes.
//
// The order of operations for one (row, token) is fixed: blocks ascending, in a block parts ascending. Neither the
// number of tokens in a call nor the groups of a call change a bit of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/kernels/format_kernels.hpp"

namespace strata {
namespace kernels {

// Four of 32 elements are in one lane.
inline constexpr std::size_t kLanesPerStep = 8;

// The hardware fetches memory ahead as fast as it comes while little is done to each byte, and is in the way of nobody
// then. With several tokens the core gets to fewer loads at a time, and memory would wait: from about four dot
// instructions a cache line on, lines are fetched by hand, into the second-level cache and a few at a time. On some
// CPUs that pays with less work too: `Always` does it whatever the work.
template <class Layout, std::size_t Lanes, std::size_t Tokens, bool Always>
struct Ahead {
  static constexpr std::size_t kBytes = 6144;
  static constexpr std::size_t kLine = 64;
  static constexpr bool kByHand = Always || 5 * Lanes * Tokens * kLine >= 18 * Layout::kBytes;

  // Fetches what is read in `Share` of `Shares` equal parts of `Size` bytes, `kBytes` later. No address faults here.
  template <std::size_t Share, std::size_t Shares, std::size_t Size>
  STRATA_INLINE static void fetch(const std::byte* at) {
    if constexpr (kByHand) {
      constexpr std::size_t kLines = (Size + kLine - 1) / kLine;
      constexpr std::size_t kFirst = kLines * Share / Shares;
      unroll<kLines*(Share + 1) / Shares - kFirst>(
          [&](auto line) STRATA_LAMBDA { __builtin_prefetch(at + kBytes + kLine * (kFirst + line), 0, 2); });
    }
  }
};

template <class Format, class Isa, Activation = Format::kActivation>
struct GroupDot;

// Blocks of 32 integers and one scale, against Int8Row.
template <class Format, class Isa>
struct GroupDot<Format, Isa, Activation::kInt8> {
  using Float = typename Isa::Float;
  using Ints = typename Isa::Ints;
  using Layout = typename Format::template Interleaved<Isa::kInterleaved>;

  template <std::size_t Tokens, bool Always>
  STRATA_INLINE static void run(const std::byte* group, std::size_t columns, const std::byte* const* inputs,
                                float* const* out) {
    Int8Row x[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8Row::at(inputs[t], columns); });
    Float acc[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { acc[t] = Isa::zero(); });
    for (std::size_t block = 0; block < columns / Format::kBlock; ++block) {
      const std::byte* at = group + block * Layout::kBytes;
      Ints sums[Tokens];
      unroll<Tokens>([&](auto t) STRATA_LAMBDA { sums[t] = Isa::template start<Layout::kBias>(x[t].starts + block); });
      unroll<kLanesPerStep>([&](auto lane) STRATA_LAMBDA {
        const auto w = Layout::template quants<Isa, 0, decltype(lane)::value>(at);
        Ahead<Layout, kLanesPerStep, Tokens, Always>::template fetch<decltype(lane)::value, kLanesPerStep,
                                                                     Layout::kBytes>(at);
        unroll<Tokens>([&](auto t) STRATA_LAMBDA {
          sums[t] = Isa::add_products(sums[t], w, x[t].values + block * Format::kBlock + 4 * lane);
        });
      });
      const Float scale = Isa::load_factors(at + Layout::kScale, typename Format::Scale{});
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        const Float both = Isa::multiply(scale, x[t].scales[block]);
        acc[t] = Isa::multiply_add(Isa::to_float(sums[t]), both, acc[t]);
      });
    }
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { Isa::store(out[t], acc[t]); });
  }
};

// Blocks of 256 integers whose parts have integer scales, against Int8x256Row. Sums of a part are exact; they become
// floats under the part's scale.
template <class Format, class Isa>
struct GroupDot<Format, Isa, Activation::kInt8x256> {
  using Float = typename Isa::Float;
  using Ints = typename Isa::Ints;
  using Layout = typename Format::template Interleaved<Isa::kInterleaved>;

  static constexpr std::size_t kRows = Isa::kInterleaved;
  static constexpr std::size_t kParts = Layout::kParts;
  static constexpr std::size_t kLanes = Format::kBlock / 4;
  static constexpr std::size_t kPartLanes = kLanes / kParts;
  static constexpr std::size_t kRounds = Format::kBlock / 32 / Layout::kSteps;
  static constexpr std::size_t kRoundParts = kParts / kRounds;
  static constexpr std::size_t kPairs = 4;  // of minimums

  template <std::size_t Tokens, bool Always>
  STRATA_INLINE static void run(const std::byte* group, std::size_t columns, const std::byte* const* inputs,
                                float* const* out) {
    Int8x256Row x[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { x[t] = Int8x256Row::at(inputs[t], columns); });
    Float acc[Tokens];
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { acc[t] = Isa::zero(); });
    for (std::size_t block = 0; block < columns / Format::kBlock; ++block) {
      const std::byte* at = group + block * Layout::kBytes;
      Float totals[Tokens];
      unroll<Tokens>([&](auto t) STRATA_LAMBDA { totals[t] = Isa::zero(); });
      for (std::size_t round = 0; round < kRounds; ++round) {
        const std::byte* quants = at + round * Layout::kStepsBytes;
        const std::size_t first = block * kParts + round * kRoundParts;
        unroll<kRoundParts>([&](auto part) STRATA_LAMBDA {
          constexpr std::size_t kFirstLane = decltype(part)::value * kPartLanes;
          Ints sums[Tokens];
          unroll<Tokens>([&](auto t) STRATA_LAMBDA {
            const std::int32_t* starts = kParts == Int8x256Row::kSums ? x[t].half_starts : x[t].starts;
            sums[t] = Isa::template start<Layout::kBias>(starts + first + part);
          });
          unroll<kPartLanes>([&](auto i) STRATA_LAMBDA {
            constexpr std::size_t kLane = kFirstLane + decltype(i)::value;
            const auto w = Layout::template quants<Isa, kLane / kLanesPerStep, kLane % kLanesPerStep>(quants);
            Ahead<Layout, kLanes, Tokens, Always>::template fetch<kLane, kLanes / kRounds, Layout::kBytes / kRounds>(
                at + round * (Layout::kBytes / kRounds));
            unroll<Tokens>([&](auto t) STRATA_LAMBDA {
              sums[t] = Isa::add_products(sums[t], w, x[t].values + first * (4 * kPartLanes) + 4 * kLane);
            });
          });
          const Float scale = Isa::load_signed(at + Layout::kScales + kRows * (round * kRoundParts + part));
          unroll<Tokens>(
              [&](auto t) STRATA_LAMBDA { totals[t] = Isa::multiply_add(Isa::to_float(sums[t]), scale, totals[t]); });
        });
      }
      const Float scale = Isa::load_factors(at + Layout::kScale, typename Format::Scale{});
      unroll<Tokens>([&](auto t) STRATA_LAMBDA {
        acc[t] = Isa::multiply_add(totals[t], Isa::multiply(scale, x[t].scales[block]), acc[t]);
      });
      if constexpr (requires { Layout::kMinimum; }) {
        static_assert(kParts == 2 * kPairs);
        Ints sums[Tokens];
        unroll<Tokens>([&](auto t) STRATA_LAMBDA { sums[t] = Isa::no_ints(); });
        unroll<kPairs>([&](auto pair) STRATA_LAMBDA {
          const std::byte* minimums = at + Layout::kMinimums + 2 * kRows * pair;
          unroll<Tokens>([&](auto t) STRATA_LAMBDA {
            sums[t] = Isa::add_pairs(sums[t], minimums, x[t].wide_sums + block * Int8x256Row::kTotals + 2 * pair);
          });
        });
        const Float minimum = Isa::load_factors(at + Layout::kMinimum, typename Format::Minimum{});
        unroll<Tokens>([&](auto t) STRATA_LAMBDA {
          const Float both = Isa::multiply(minimum, -x[t].scales[block]);
          acc[t] = Isa::multiply_add(Isa::to_float(sums[t]), both, acc[t]);
        });
      }
    }
    unroll<Tokens>([&](auto t) STRATA_LAMBDA { Isa::store(out[t], acc[t]); });
  }
};

// Writes the bytes of one word of every row side by side: `Count` of them, `Together` of a row in turn, `Offset` added.
template <std::size_t Rows, std::size_t Count, std::size_t Together, int Offset>
STRATA_INLINE void interleave_words(const std::uint64_t* words, std::byte* to) {
  for (std::size_t row = 0; row < Rows; ++row) {
    for (std::size_t i = 0; i < Count; ++i) {
      const auto number = static_cast<int>(words[row] >> (8 * i) & 0xffu) + Offset;
      to[i / Together * Together * Rows + row * Together + i % Together] = static_cast<std::byte>(number);
    }
  }
}

// One block of every row: its factors, its scales and minimums as whole bytes, its integers.
template <class Format, std::size_t Rows>
STRATA_INLINE void interleave_block(const std::byte* const* block, std::byte* to) {
  using Layout = typename Format::template Interleaved<Rows>;
  using Scale = typename Format::Scale::Stored;
  for (std::size_t row = 0; row < Rows; ++row) {
    __builtin_memcpy(to + Layout::kScale + row * sizeof(Scale), block[row] + Format::kScale, sizeof(Scale));
  }
  if constexpr (requires { Format::kScaleBytes; }) {
    for (std::size_t part = 0; part < Layout::kParts; ++part) {
      for (std::size_t row = 0; row < Rows; ++row) {
        to[Layout::kScales + Rows * part + row] = block[row][Format::kScaleBytes + part];
      }
    }
  } else if constexpr (requires { Layout::kScales; }) {
    std::uint64_t words[Rows];
    for (std::size_t row = 0; row < Rows; ++row) words[row] = Format::scale_bytes(block[row]);
    interleave_words<Rows, Layout::kParts, 1, Format::kScaleOffset>(words, to + Layout::kScales);
  }
  if constexpr (requires { Layout::kMinimum; }) {
    using Minimum = typename Format::Minimum::Stored;
    std::uint64_t words[Rows];
    for (std::size_t row = 0; row < Rows; ++row) {
      __builtin_memcpy(to + Layout::kMinimum + row * sizeof(Minimum), block[row] + Format::kMinimum, sizeof(Minimum));
      words[row] = Format::minimum_bytes(block[row]);
    }
    interleave_words<Rows, Layout::kParts, 2, 0>(words, to + Layout::kMinimums);
  }
  Layout::arrange_quants(block, to);
}

// One group. A function of its own: one for every number of tokens.
template <class Format, class Isa, std::size_t Tokens, bool Always>
[[gnu::noinline]] void dot_group(const std::byte* group, std::size_t columns, const std::byte* const* x,
                                 float* const* out) {
  GroupDot<Format, Isa>::template run<Tokens, Always>(group, columns, x, out);
}

template <class Format, class Isa, std::size_t Tokens, bool Always>
STRATA_INLINE void dot_groups(const RowsDotArgs& args) {
  constexpr std::size_t kRows = Isa::kInterleaved;
  float* out[Tokens];
  for (std::size_t group = 0; group < args.rows / kRows; ++group) {
    for (std::size_t t = 0; t < Tokens; ++t) out[t] = args.out[t] + group * kRows;
    dot_group<Format, Isa, Tokens, Always>(args.weights + group * args.row_bytes, args.columns, args.x, out);
  }
}

}  // namespace kernels

// Makes a group of rows from as many stored ones.
template <class Format, class Isa>
void interleave(const std::byte* weights, std::size_t row_bytes, std::size_t blocks, std::byte* out) {
  constexpr std::size_t kRows = Isa::kInterleaved;
  for (std::size_t index = 0; index < blocks; ++index) {
    const std::byte* block[kRows];
    for (std::size_t row = 0; row < kRows; ++row) block[row] = weights + row * row_bytes + index * Format::kBytes;
    kernels::interleave_block<Format, kRows>(block, out + index * Format::template Interleaved<kRows>::kBytes);
  }
}

template <class Format, class Isa, std::size_t Tokens>
void interleaved_dot(const RowsDotArgs& args) {
  kernels::dot_groups<Format, Isa, Tokens, false>(args);
}

// The same, for CPUs on which fetching by hand pays whatever the work.
template <class Format, class Isa, std::size_t Tokens>
void interleaved_dot_ahead(const RowsDotArgs& args) {
  kernels::dot_groups<Format, Isa, Tokens, true>(args);
}

}  // namespace strata
