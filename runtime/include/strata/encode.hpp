// Encoding rules that a format spec may name. Reference code: runs when weights are converted, never in a kernel.
#pragma once

#include <cmath>
#include <cstddef>

#include "strata/scalar.hpp"

namespace strata {

// Each value converted to the field's type. Returns whether the block could be stored.
template <class Format>
bool encode_cast(const float* x, std::byte* block) {
  for (std::size_t i = 0; i < Format::kBlock; ++i)
    field::store<typename Format::Quant>(block + Format::kQuant, i, x[i]);
  return true;
}

// scale = largest magnitude / levels; value = x / scale rounded half away from zero. The scale is used unrounded and
// stored in its field's type. Returns false for a block whose scale its field cannot hold.
template <class Format>
bool encode_absmax(const float* x, std::byte* block) {
  float largest = 0.0f;
  for (std::size_t i = 0; i < Format::kBlock; ++i) {
    const float magnitude = std::fabs(x[i]);
    if (!(magnitude <= 0x1.fffffep127f)) return false;
    largest = magnitude > largest ? magnitude : largest;
  }
  const float scale = largest / Format::kLevels;
  const float inverse = std::isfinite(1.0f / scale) ? 1.0f / scale : 0.0f;
  if (!std::isfinite(Format::Scale::decode(Format::Scale::encode(scale)))) return false;
  field::store<typename Format::Scale>(block + Format::kScale, 0, scale);
  for (std::size_t i = 0; i < Format::kBlock; ++i) {
    const float value = x[i] * inverse;
    const float magnitude = std::fabs(value);
    const float whole = std::floor(magnitude);
    const float rounded = whole + std::floor(2.0f * (magnitude - whole));
    field::store<typename Format::Quant>(block + Format::kQuant, i,
                                         std::copysign(std::fmin(rounded, Format::kLevels), value));
  }
  return true;
}

}  // namespace strata
