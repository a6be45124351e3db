// Super-blocks of least squared error: every part of a block has a scale, and in some formats a minimum.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "strata/codec.hpp"
#include "strata/quants.hpp"

namespace strata {

// The values of a part are number * scale - minimum.
struct Line {
  float scale = 0;
  float minimum = 0;
};

// What least squares need of values x and the numbers q that stand for them.
struct Sums {
  float q;
  float xq;
  float qq;
};

// Encodes one block. Values are scaled by a power of two first, so that no square leaves float's range.
template <class Encoder>
class Fit {
 public:
  static constexpr std::size_t kBlock = Encoder::kBlock;

  // `x`: kBlock finite values.
  explicit Fit(const float* x) {
    const std::uint32_t exponent = bit_cast<std::uint32_t>(peak_of<kBlock>(x)) & 0x7f800000u;
    unit_ = exponent == 0 ? 0x1p-126f : bit_cast<float>(exponent);
    for (std::size_t i = 0; i < kBlock; ++i) x_[i] = x[i] * (1.0f / unit_);
  }

  // Returns false when the factors are beyond their fields.
  bool encode(std::byte* block) {
    std::array<Line, kParts> lines;
    for (std::size_t part = 0; part < kParts; ++part) lines[part] = best_line(&x_[part * kPart]);
    if (!store_factors(lines, block)) return false;
    for (std::size_t part = 0; part < kParts; ++part) store_part(part, best_integers(part, lines[part]), block);
    return true;
  }

 private:
  static constexpr std::size_t kPart = Encoder::kPart;
  static constexpr std::size_t kParts = kBlock / kPart;
  static constexpr bool kHasMinimum = requires { typename Encoder::Minimums; };
  static constexpr float kTiny = 0x1p-100f;  // parts with less are stored as zeros
  static constexpr int kTries = 5;           // on either side of the extreme number, up to one and a half steps away

  using Quants = typename Encoder::Quants;
  using Scales = typename Encoder::Scales;
  using Float4 = quants::Float4;

  // What the largest value becomes in a try: scales around the one that makes it the extreme number.
  static constexpr float tried(int index) {
    return Quants::kExtreme + 0.3f * static_cast<float>(index) * (Quants::kBeyond - Quants::kExtreme);
  }

  Line best_line(const float* x) const {
    if constexpr (kHasMinimum) {
      return line_with_minimum(x);
    } else {
      return line_through_zero(x);
    }
  }

  Line line_through_zero(const float* x) const {
    float peak = peak_of<kPart>(x);
    if constexpr (Scales::kLowest >= 0) peak = std::copysign(peak, Quants::kExtreme);
    Line best;
    if (std::fabs(peak) < kTiny) return best;
    float most = 0;
    for (int index = -kTries; index <= kTries; ++index) {
      const Sums sums = sums_of(x, tried(index) / peak, 0);
      if (sums.xq * sums.xq <= most * sums.qq) continue;
      most = sums.xq * sums.xq / sums.qq;
      best.scale = sums.xq / sums.qq;
    }
    return best;
  }

  Line line_with_minimum(const float* x) const {
    float low = 0;
    float high = x[0];
    float total = 0;
    for (std::size_t i = 0; i < kPart; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
      total += x[i];
    }
    Line best{0, -low};
    if (high - low < kTiny) return best;
    double most = 0;
    for (int index = -kTries; index <= kTries; ++index) {
      consider(sums_of(x, tried(index) / (high - low), -low), total, best, most);
    }
    consider(sums_of(x, 1.0f / best.scale, best.minimum), total, best, most);
    return best;
  }

  // Replaces `best` by the line through given numbers when that takes off more of the sum of squares than `most`.
  static void consider(const Sums& sums, double total, Line& best, double& most) {
    constexpr double kCount = kPart;
    const double q = sums.q, xq = sums.xq, qq = sums.qq;
    const double determinant = kCount * qq - q * q;  // 0 when all numbers are the same
    double scale = determinant > 0 ? (kCount * xq - total * q) / determinant : 0;
    double minimum = (scale * q - total) / kCount;
    if (determinant <= 0 || minimum < 0) {
      scale = qq > 0 ? xq / qq : 0;
      minimum = 0;
    }
    const double gain = scale * xq - minimum * total;
    if (scale <= 0 || gain <= most) return;
    most = gain;
    best = {static_cast<float>(scale), static_cast<float>(minimum)};
  }

  STRATA_INLINE Sums sums_of(const float* x, float inverse, float minimum) const {
    Float4 q{}, xq{}, qq{};
    for (std::size_t i = 0; i < kPart; i += 4) {
      const Float4 value = quants::load(x + i);
      const Float4 number = quants_.nearest((value + quants::all(minimum)) * quants::all(inverse));
      q += number;
      xq += value * number;
      qq += number * number;
    }
    return {quants::sum(q), quants::sum(xq), quants::sum(qq)};
  }

  // The largest scale becomes the extreme integer: with its sign where scales have one.
  bool store_factors(const std::array<Line, kParts>& lines, std::byte* block) {
    Line largest;
    for (const Line& line : lines) {
      if (std::fabs(line.scale) > std::fabs(largest.scale)) largest.scale = line.scale;
      largest.minimum = std::max(largest.minimum, line.minimum);
    }
    constexpr float kExtreme = Scales::kLowest < 0 ? Scales::kLowest : Scales::kHighest;
    if (!begin_block<Encoder>(block, unit_ * (largest.scale / kExtreme))) return false;
    scale_ = field::load<typename Encoder::Scale>(block + Encoder::kScale, 0) / unit_;
    if constexpr (kHasMinimum) {
      using Field = typename Encoder::Minimum;
      field::store<Field>(block + Encoder::kMinimum, 0, unit_ * (largest.minimum / Encoder::Minimums::kHighest));
      const float stored = field::load<Field>(block + Encoder::kMinimum, 0);
      if (!std::isfinite(stored)) return false;
      minimum_ = stored / unit_;
    }
    return true;
  }

  // The integer that is nearest to a scale or minimum, and its neighbours.
  template <class Integers>
  static std::array<float, 3> around(float value, float factor) {
    const float nearest = Integers::nearest(value * inverse_or_zero(factor));
    return {nearest, Integers::nearest(nearest - Integers::kSpacing), Integers::nearest(nearest + Integers::kSpacing)};
  }

  // The integers for a part's scale and minimum: the first of those that err least.
  Line best_integers(std::size_t part, const Line& line) const {
    Line best;
    float least = std::numeric_limits<float>::infinity();
    for (const float scale : around<Scales>(line.scale, scale_)) {
      if constexpr (kHasMinimum) {
        for (const float minimum : around<typename Encoder::Minimums>(line.minimum, minimum_)) {
          compare(part, {scale, minimum}, best, least);
        }
      } else {
        compare(part, {scale, 0}, best, least);
      }
    }
    return best;
  }

  void compare(std::size_t part, const Line& integers, Line& best, float& least) const {
    const float scale = scale_ * integers.scale;
    const float minimum = minimum_ * integers.minimum;
    const float inverse = inverse_or_zero(scale);
    Float4 total{};
    for (std::size_t i = part * kPart; i < (part + 1) * kPart; i += 4) {
      const Float4 value = quants::load(&x_[i]) + quants::all(minimum);
      const Float4 error = value - quants_.nearest(value * quants::all(inverse)) * quants::all(scale);
      total += error * error;
    }
    if (quants::sum(total) >= least) return;
    least = quants::sum(total);
    best = integers;
  }

  void store_part(std::size_t part, const Line& integers, std::byte* block) const {
    Encoder::store_scale(block, part, Scales::code(integers.scale));
    if constexpr (kHasMinimum) Encoder::store_minimum(block, part, Encoder::Minimums::code(integers.minimum));
    const float inverse = inverse_or_zero(scale_ * integers.scale);
    const float minimum = minimum_ * integers.minimum;
    for (std::size_t i = part * kPart; i < (part + 1) * kPart; i += 4) {
      const Float4 value = quants::load(&x_[i]) + quants::all(minimum);
      quants_.template store<Encoder>(block, i, value * quants::all(inverse));
    }
  }

  [[no_unique_address]] Quants quants_;
  float unit_;       // power of two that values are divided by
  float scale_ = 0;  // stored factors, in that unit
  float minimum_ = 0;
  std::array<float, kBlock> x_;
};

// Every part gets the scale and minimum of least squared error that were found by trying. They are rounded to the
// block's integers, and every value becomes the nearest of those that are left. Returns false for a block that cannot
// be stored.
template <class Encoder>
bool encode_fit(const float* x, std::byte* block) {
  return std::isfinite(peak_of<Encoder::kBlock>(x)) && Fit<Encoder>(x).encode(block);
}

}  // namespace strata
