// Root mean squares.
#pragma once

#include <cmath>
#include <cstddef>

namespace strata {

// 1 / sqrt(mean(x^2) + eps). Squares go into sixteen partial sums: the same bits on every machine.
inline float inverse_rms(const float* x, std::size_t count, float eps) {
  constexpr std::size_t kSums = 16;
  float sums[kSums] = {};
  const std::size_t whole = count / kSums * kSums;
  for (std::size_t first = 0; first < whole; first += kSums) {
    for (std::size_t i = 0; i < kSums; ++i) sums[i] += x[first + i] * x[first + i];
  }
  for (std::size_t i = whole; i < count; ++i) sums[i - whole] += x[i] * x[i];
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  return 1.0f / std::sqrt(total / static_cast<float>(count) + eps);
}

}  // namespace strata
