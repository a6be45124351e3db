// Blocks to floats and back. Reference code: runs when weights are converted, never in a kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "strata/formats.hpp"
#include "strata/quants.hpp"
#include "strata/scalar.hpp"

namespace strata {

template <class Format>
void decode_block(const std::byte* block, float* out) {
  if constexpr (Format::kActivation == Activation::kFloat) {
    for (std::size_t i = 0; i < Format::kBlock; ++i) out[i] = field::load<typename Format::Value>(block, i);
  } else {
    for (std::size_t part = 0; part < Format::kBlock / Format::kPart; ++part) {
      const float scale = Format::scale(block, part);
      for (std::size_t i = part * Format::kPart; i < (part + 1) * Format::kPart; ++i) {
        out[i] = scale * static_cast<float>(Format::quant(block, i));
        if constexpr (requires { Format::minimum(block, part); }) out[i] -= Format::minimum(block, part);
      }
    }
  }
}

// Each value converted to the field's type. Returns false when one is not finite, or not in that type.
template <class Encoder>
bool encode_cast(const float* x, std::byte* block) {
  bool fits = true;
  for (std::size_t i = 0; i < Encoder::kBlock; ++i) {
    field::store<typename Encoder::Value>(block, i, x[i]);
    fits = fits && std::isfinite(field::load<typename Encoder::Value>(block, i));
  }
  return fits;
}

// The value of largest magnitude (the first of them) of a block; NaN when one is not finite.
template <std::size_t Count>
float peak_of(const float* x) {
  float peak = x[0];
  for (std::size_t i = 0; i < Count; ++i) {
    if (!std::isfinite(x[i])) return NAN;
    if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];
  }
  return peak;
}

// Begins a block with its scale, and zeros for the rest. Returns whether the scale's field can hold it.
template <class Encoder>
bool begin_block(std::byte* block, float scale) {
  std::fill_n(block, Encoder::kBytes, std::byte{0});
  field::store<typename Encoder::Scale>(block + Encoder::kScale, 0, scale);
  return std::isfinite(scale) && std::isfinite(field::load<typename Encoder::Scale>(block + Encoder::kScale, 0));
}

inline float inverse_or_zero(float scale) { return std::isfinite(1.0f / scale) ? 1.0f / scale : 0.0f; }

// scale = largest magnitude / levels; value = x / scale rounded half away from zero. The scale is used unrounded and
// stored in its field's type. Returns false for a block whose scale its field cannot hold.
template <class Encoder>
bool encode_absmax(const float* x, std::byte* block) {
  const float scale = std::fabs(peak_of<Encoder::kBlock>(x)) / Encoder::kLevels;
  if (!begin_block<Encoder>(block, scale)) return false;
  const float inverse = inverse_or_zero(scale);
  for (std::size_t i = 0; i < Encoder::kBlock; ++i) {
    const float value = x[i] * inverse;
    const float magnitude = std::fabs(value);
    const float whole = std::floor(magnitude);
    const float rounded = std::fmin(whole + std::floor(2.0f * (magnitude - whole)), Encoder::kLevels);
    Encoder::store_quant(block, i, static_cast<unsigned>(static_cast<int>(std::copysign(rounded, value))));
  }
  return true;
}

// scale = value of largest magnitude / -levels; value = x / scale rounded half up, the largest integer where that is
// one too many. Returns false for a block whose scale its field cannot hold.
template <class Encoder>
bool encode_peak(const float* x, std::byte* block) {
  const float scale = peak_of<Encoder::kBlock>(x) / -Encoder::kLevels;
  if (!begin_block<Encoder>(block, scale)) return false;
  const float inverse = inverse_or_zero(scale);
  for (std::size_t i = 0; i < Encoder::kBlock; ++i) {
    const float raw = std::fmin(std::trunc(x[i] * inverse + (Encoder::kLevels + 0.5f)), 2.0f * Encoder::kLevels - 1.0f);
    Encoder::store_quant(block, i, static_cast<unsigned>(raw));
  }
  return true;
}

// scale = largest magnitude / levels, as its field stores it; value = the nearest of its multiples that the format has.
// Returns false for a block whose scale its field cannot hold.
template <class Encoder>
bool encode_nearest(const float* x, std::byte* block) {
  if (!begin_block<Encoder>(block, std::fabs(peak_of<Encoder::kBlock>(x)) / Encoder::kLevels)) return false;
  const float scale = field::load<typename Encoder::Scale>(block + Encoder::kScale, 0);
  const typename Encoder::Quants quants;
  for (std::size_t i = 0; i < Encoder::kBlock; i += 4) {
    // Dividing is exact for a power of two, however small.
    const quants::Float4 value = scale == 0 ? quants::Float4{} : quants::load(x + i) / quants::all(scale);
    quants.template store<Encoder>(block, i, value);
  }
  return true;
}

template <class Format>
constexpr formats::Info info(std::size_t id, std::string_view name, bool (*encode)(const float*, std::byte*)) {
  return {id, name, Format::kBlock, Format::kBytes, Format::kActivation, encode, decode_block<Format>};
}

}  // namespace strata
