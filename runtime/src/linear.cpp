#include <algorithm>
#include <array>
#include <stdexcept>

#include "inputs.hpp"
#include "products.hpp"
#include "strata/ops.hpp"

namespace strata {
namespace {

// Tokens prepared at a time: bounds the scratch memory of a long prompt.
constexpr std::size_t kTokensPerPass = 512;

void linear_pass(Pool::Session& session, const Runner& runner, const Matrix& matrix, std::size_t tokens, const float* x,
                 float* out) {
  const Activation activation = matrix.format().activation;
  std::byte* scratch = session.scratch(tokens * input_bytes(activation, matrix.columns()));
  const Inputs inputs = prepare_inputs(session, runner.kernels, activation, tokens, matrix.columns(), x, scratch);
  const std::size_t grain =
      claim_grain(runner.claim_rows, matrix.rows(), matrix.row_bytes(), tokens, session.threads());
  // A range of rows stays in the cache while all tokens pass over it.
  session.run(matrix.rows(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t first = 0; first < tokens; first += kMaxTokens) {
      const std::size_t count = std::min(kMaxTokens, tokens - first);
      std::array<const std::byte*, kMaxTokens> from;
      std::array<float*, kMaxTokens> to;
      for (std::size_t t = 0; t < count; ++t) {
        from[t] = inputs[first + t];
        to[t] = out + (first + t) * matrix.rows() + begin;
      }
      products(runner, matrix, begin, end, count, from.data(), to.data());
    }
  });
}

}  // namespace

void linear(Runner& runner, const Matrix& matrix, std::size_t tokens, const float* x, float* out) {
  if (tokens == 0) return;
  if (x == nullptr || out == nullptr) throw std::invalid_argument("linear: null address of inputs or outputs");
  require_layout(runner.kernels, matrix);
  Pool::Session session = runner.open();
  for (std::size_t first = 0; first < tokens; first += kTokensPerPass) {
    const std::size_t count = std::min(kTokensPerPass, tokens - first);
    linear_pass(session, runner, matrix, count, x + first * matrix.columns(), out + first * matrix.rows());
  }
}

}  // namespace strata
