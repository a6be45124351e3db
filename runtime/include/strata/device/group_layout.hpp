// Groups of 16 weight rows side by side: where what a lane needs of a block is, and what it means.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/device/row_words.hpp"

namespace strata::device {

// A block of a format in the compute layout, 32 columns ("a step") at a time.
template <class Format>
struct GroupLayout {
  using Layout = typename Format::template Interleaved<kGroupRows>;

  static constexpr int kBlock = static_cast<int>(Format::kBlock);
  static constexpr int kBytes = static_cast<int>(Layout::kBytes);
  static constexpr int kSteps = kBlock / 32;
  static constexpr bool kHasScales = requires { Layout::kScales; };
  static constexpr bool kHasMinimum = requires { Layout::kMinimum; };
  static constexpr bool kHasCodes = requires { Layout::codes(); };

  // Parts of a step that have a scale each: one of 32 columns, or two of 16.
  static constexpr int kParts = [] {
    if constexpr (kHasScales) {
      return static_cast<int>(Layout::kParts) / kSteps;
    } else {
      return 1;
    }
  }();
  static_assert(kParts == 1 || kParts == 2);

  // Four signed integers of each row: columns 16 half + 4 four to 16 half + 4 four + 3 of a step.
  template <class Words, int Step, int Half>
  STRATA_INLINE static typename Words::Bytes words(const std::byte* block, int row, int four) {
    constexpr std::size_t kAt = Step / Layout::kSteps * Layout::kStepsBytes;
    typename Words::Bytes w = Layout::template quants<Words, Step % Layout::kSteps, 4 * Half>(
        typename Words::At{block + kAt, row}, static_cast<std::size_t>(four));
    if constexpr (kHasCodes || Layout::kBias == 0) {
      return w;
    } else {
      // Bytes that are all below 128 can be added without a carry into the next one.
      constexpr std::uint32_t kAdded = (128u - Layout::kBias) * 0x01010101u;
      for (std::uint32_t& word : w.v) word = (word + kAdded) ^ 0x80808080u;
      return w;
    }
  }
};

// What multiplies the integers of `Rows` rows in one step of a block, in units of what the block begins with.
template <class Format, int Rows>
struct StepFactors {
  using Of = GroupLayout<Format>;

  float scale[Of::kParts][Rows];  // of formats whose parts have scales
  float minimum[Rows];            // what inputs are multiplied by and taken off; of formats that have one

  // All of a block, as it is in memory.
  struct Stored {
    template <class Field>
    using Factors = Several<typename Field::Stored, Rows>;

    // A scale and a minimum of the block, or nothing in its place.
    template <class Of_>
    static auto minimum_of() {
      if constexpr (Of_::kHasMinimum) {
        return Factors<typename Format::Minimum>{};
      } else {
        return Several<std::uint8_t, 1>{};
      }
    }

    Factors<typename Format::Scale> scale;
    decltype(minimum_of<Of>()) minimum;
    Several<std::int8_t, Rows> scales[Of::kParts * Of::kSteps];
    Several<std::uint16_t, Rows> minimums[(Of::kSteps + 1) / 2];  // of two steps each

    STRATA_INLINE static Stored load(const std::byte* block, int row) {
      Stored found{};
      found.scale = load_factors<typename Format::Scale>(block + Of::Layout::kScale, row);
      if constexpr (Of::kHasScales) {
        unroll<Of::kParts * Of::kSteps>([&](auto part) STRATA_LAMBDA {
          found.scales[part] =
              load_several<std::int8_t, Rows>(block + Of::Layout::kScales + kGroupRows * static_cast<int>(part) + row);
        });
      }
      if constexpr (Of::kHasMinimum) {
        found.minimum = load_factors<typename Format::Minimum>(block + Of::Layout::kMinimum, row);
        unroll<Of::kSteps / 2>([&](auto pair) STRATA_LAMBDA {
          const std::byte* at = block + Of::Layout::kMinimums + 2 * kGroupRows * static_cast<int>(pair);
          found.minimums[pair] = load_several<std::uint16_t, Rows>(at + 2 * row);
        });
      }
      return found;
    }

   private:
    template <class Field>
    STRATA_INLINE static Factors<Field> load_factors(const std::byte* at, int row) {
      using Number = typename Field::Stored;
      return load_several<Number, Rows>(at + row * static_cast<int>(sizeof(Number)));
    }
  };

  template <int Step>
  STRATA_INLINE static StepFactors of(const Stored& stored) {
    StepFactors found{};
    for (int r = 0; r < Rows; ++r) {
      if constexpr (Of::kHasScales) {
        for (int part = 0; part < Of::kParts; ++part) {
          found.scale[part][r] = static_cast<float>(stored.scales[Of::kParts * Step + part].v[r]);
        }
      }
      if constexpr (Of::kHasMinimum) {
        found.minimum[r] = static_cast<float>(stored.minimums[Step / 2].v[r] >> (8 * (Step % 2)) & 0xff);
      }
    }
    return found;
  }

  // What a row's integers of the same step become as floats, part by part.
  template <int Part>
  STRATA_INLINE float value(const Stored& stored, int row, std::int32_t integer) const {
    const float of_block = Format::Scale::decode(stored.scale.v[row]);
    const float both = Of::kHasScales ? of_block * scale[Part][row] : of_block;
    const float product = both * static_cast<float>(integer);
    if constexpr (Of::kHasMinimum) {
      return product - Format::Minimum::decode(stored.minimum.v[row]) * minimum[row];
    } else {
      return product;
    }
  }
};

// The sum of one row and one token. The order of operations is what makes its bits: in a block, exact integer sums of
// parts times their scales and those of the inputs, each added with one rounding, and minimums times what the inputs
// sum up to; then both times what the block begins with.
template <class Format, int Rows>
struct RowSum {
  using Of = GroupLayout<Format>;
  using Factors = StepFactors<Format, Rows>;

  float total = 0.0f;
  float scaled = 0.0f;
  float minimums = 0.0f;

  // The products of the parts of a step. `input` is the scale of its inputs, `inputs` that times their sum.
  STRATA_INLINE void add(const Factors& factors, int row, const float (&products)[Of::kParts], float input,
                         float inputs) {
    for (int part = 0; part < Of::kParts; ++part) {
      const float scale = Of::kHasScales ? factors.scale[part][row] * input : input;
      scaled = fused_multiply_add(products[part], scale, scaled);
    }
    if constexpr (Of::kHasMinimum) minimums = fused_multiply_add(factors.minimum[row], inputs, minimums);
  }

  STRATA_INLINE void end_block(const typename Factors::Stored& stored, int row) {
    total = fused_multiply_add(Format::Scale::decode(stored.scale.v[row]), scaled, total);
    scaled = 0.0f;
    if constexpr (Of::kHasMinimum) {
      total = fused_multiply_add(-Format::Minimum::decode(stored.minimum.v[row]), minimums, total);
      minimums = 0.0f;
    }
  }
};

}  // namespace strata::device
