// Stored weights to floats inside a kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

// Weights that a lane decodes together: those of the columns lane, lane + kWave, ... of kPartialSums neighbours.
template <class Format, simt::Simt S>
struct LaneWeights {
  static constexpr int kCount = simt::kSumsPerLane<S>;
  // Neighbours of one lane that share a scale.
  static constexpr int kPart = static_cast<int>(Format::kPart);
  static constexpr int kRun = kPart / S::kWave > kCount ? kCount : kPart < S::kWave ? 1 : kPart / S::kWave;
  static_assert(kCount % kRun == 0);

  float value[kCount];

  // Columns first + lane, ... of a row of `columns` weights; beyond its end they are 0. `first` is a multiple of
  // kPartialSums.
  STRATA_INLINE LaneWeights(const S& simt, const std::byte* row, int first, int columns) {
    for (int j = 0; j < kCount; j += kRun) {
      const int column = first + j * S::kWave + simt.lane();
      if (column < columns) {
        load(row, column, value + j);
      } else {
        for (int i = 0; i < kRun; ++i) value[j + i] = 0.0f;
      }
    }
  }

 private:
  STRATA_INLINE static void load(const std::byte* row, int column, float* to) {
    const std::byte* block = row + static_cast<std::size_t>(column) / Format::kBlock * Format::kBytes;
    const std::size_t at = static_cast<std::size_t>(column) % Format::kBlock;
    if constexpr (Format::kActivation == Activation::kFloat) {
      to[0] = field::load<typename Format::Value>(block, at);
    } else {
      const float scale = Format::scale(block, at / Format::kPart);
      for (int i = 0; i < kRun; ++i) {
        to[i] = scale * static_cast<float>(Format::quant(block, at + static_cast<std::size_t>(i) * S::kWave));
      }
      if constexpr (requires { Format::minimum(block, at); }) {
        const float minimum = Format::minimum(block, at / Format::kPart);
        for (int i = 0; i < kRun; ++i) to[i] -= minimum;
      }
    }
  }
};

}  // namespace strata::device
