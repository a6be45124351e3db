#include "norm.hpp"

#include <stdexcept>

#include "inputs.hpp"
#include "strata/ops.hpp"

namespace strata {

void rms_norm(Runner& runner, std::size_t rows, std::size_t columns, const float* x, const float* weight, float eps,
              float* out) {
  constexpr std::size_t kValuesPerClaim = 1 << 16;  // fewer are done sooner than another thread wakes up
  if (rows == 0 || columns == 0) return;
  if (x == nullptr || weight == nullptr || out == nullptr) {
    throw std::invalid_argument("rms_norm: null address of inputs, weight or outputs");
  }
  const auto norm = [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const float* from = x + row * columns;
      float* to = out + row * columns;
      const float factor = inverse_rms(from, columns, eps);
      for (std::size_t i = 0; i < columns; ++i) to[i] = from[i] * factor * weight[i];
    }
  };
  if (rows <= kValuesPerClaim / columns) return norm(0, rows);
  Pool::Session session = runner.open();
  session.run(rows, at_least_one(kValuesPerClaim / columns), norm);
}

}  // namespace strata
