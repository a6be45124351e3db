#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "inputs.hpp"
#include "norm.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/ops.hpp"

namespace strata {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void require_shape(const HeadShape& shape) {
  require(shape.kv_heads > 0 && shape.dim > 0 && shape.heads > 0 && shape.heads % shape.kv_heads == 0,
          "attention: a head has a size, and as many queries share each key");
}

void require_room(const LayerCache& cache, std::size_t tokens) {
  require(cache.data != nullptr, "attention: null address of the cache");
  if (cache.length <= cache.capacity && tokens <= cache.capacity - cache.length) return;
  throw std::invalid_argument("attention: " + std::to_string(tokens) + " tokens behind " +
                              std::to_string(cache.length) + " do not fit into " + std::to_string(cache.capacity));
}

// Norm, scale and rotation of one head, as they are for one token.
class Preparation {
 public:
  Preparation(const HeadRules& rules, std::size_t dim, std::size_t position)
      : dim_(dim), eps_(rules.eps), half_(rules.rope_dim / 2), cosines_(rules.angles + position * rules.rope_dim) {}

  // `to` may be `from`. Without a norm `weight` is null.
  void run(const float* from, const float* weight, float scale, float* to) const {
    if (weight == nullptr) {
      for (std::size_t i = 0; i < dim_; ++i) to[i] = from[i] * scale;
    } else {
      const float factor = inverse_rms(from, dim_, eps_) * scale;
      for (std::size_t i = 0; i < dim_; ++i) to[i] = from[i] * factor * weight[i];
    }
    const float* sines = cosines_ + half_;
    for (std::size_t i = 0; i < half_; ++i) {
      const float a = to[i];
      const float b = to[i + half_];
      to[i] = a * cosines_[i] - b * sines[i];
      to[i + half_] = b * cosines_[i] + a * sines[i];
    }
  }

 private:
  std::size_t dim_;
  float eps_;
  std::size_t half_;
  const float* cosines_;
};

// What every query finds in each span: by token, span and head. A token has none of the spans behind its own.
class Partials {
 public:
  Partials(const HeadShape& shape, std::size_t tokens, std::size_t spans)
      : heads_(shape.heads), dim_(shape.dim), spans_(spans), count_(tokens * spans * shape.heads) {}

  std::size_t bytes() const { return count_ * (dim_ + 2) * sizeof(float); }
  void place(std::byte* memory) { memory_ = reinterpret_cast<float*>(memory); }

  std::size_t index(std::size_t token, std::size_t span, std::size_t head) const {
    return (token * spans_ + span) * heads_ + head;
  }
  float* out(std::size_t index) const { return memory_ + index * dim_; }
  float* maximum(std::size_t index) const { return memory_ + count_ * dim_ + index; }
  float* sum(std::size_t index) const { return maximum(count_ + index); }

  // The first `spans` spans of one query together.
  void join(std::size_t token, std::size_t head, std::size_t spans, float* to) const {
    float maximum = -std::numeric_limits<float>::infinity();
    for (std::size_t span = 0; span < spans; ++span)
      maximum = std::max(maximum, *this->maximum(index(token, span, head)));
    std::fill_n(to, dim_, 0.0f);
    float total = 0.0f;
    for (std::size_t span = 0; span < spans; ++span) {
      const std::size_t at = index(token, span, head);
      const float weight = kernels::exp_clamped(*this->maximum(at) - maximum);
      total += weight * *sum(at);
      const float* part = out(at);
      for (std::size_t i = 0; i < dim_; ++i) to[i] += weight * part[i];
    }
    for (std::size_t i = 0; i < dim_; ++i) to[i] /= total;
  }

 private:
  std::size_t heads_;
  std::size_t dim_;
  std::size_t spans_;
  std::size_t count_;
  float* memory_ = nullptr;
};

constexpr std::size_t spans_of(std::size_t positions) { return (positions + kSpan - 1) / kSpan; }

}  // namespace

void prepare_heads(Runner& runner, const HeadShape& shape, const HeadRules& rules, const LayerCache& cache,
                   std::size_t tokens, float* queries, const float* keys, const float* values) {
  constexpr std::size_t kValuesPerClaim = 1 << 16;  // fewer are done sooner than another thread wakes up
  if (tokens == 0) return;
  require_shape(shape);
  require_room(cache, tokens);
  require(rules.rope_dim % 2 == 0 && rules.rope_dim <= shape.dim, "attention: pairs inside a head are rotated");
  require((rules.query_norm == nullptr) == (rules.key_norm == nullptr), "attention: norms of both queries and keys");
  require(rules.angles != nullptr && queries != nullptr && keys != nullptr && values != nullptr,
          "attention: null address of angles, queries, keys or values");
  const std::size_t dim = shape.dim;
  const auto prepare = [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      const std::size_t position = cache.length + token;
      const Preparation preparation(rules, dim, position);
      for (std::size_t head = 0; head < shape.heads; ++head) {
        float* query = queries + (token * shape.heads + head) * dim;
        preparation.run(query, rules.query_norm, rules.scale, query);
      }
      for (std::size_t head = 0; head < shape.kv_heads; ++head) {
        const std::size_t from = (token * shape.kv_heads + head) * dim;
        preparation.run(keys + from, rules.key_norm, 1.0f, cache.keys(shape, head) + position * dim);
        std::copy_n(values + from, dim, cache.values(shape, head) + position * dim);
      }
    }
  };
  const std::size_t claim = kValuesPerClaim / ((shape.heads + 2 * shape.kv_heads) * dim);
  if (tokens <= claim) return prepare(0, tokens);
  Pool::Session session = runner.open();
  session.run(tokens, at_least_one(claim), prepare);
}

void attend(Runner& runner, const HeadShape& shape, const LayerCache& cache, std::size_t tokens, const float* queries,
            float* out) {
  constexpr std::size_t kProductsPerClaim = 1 << 19;  // tens of microseconds: worth waking another thread for
  constexpr std::size_t kValuesPerClaim = 1 << 17;
  if (tokens == 0) return;
  require_shape(shape);
  require_room(cache, tokens);
  require(queries != nullptr && out != nullptr, "attention: null address of queries or outputs");
  const std::size_t group = shape.group();
  const std::size_t spans = spans_of(cache.length + tokens);
  Pool::Session session = runner.open();
  Partials partials(shape, tokens, spans);
  partials.place(session.scratch(partials.bytes()));

  // Tokens come last: they find a span's keys and values in the cache.
  const std::size_t products = (cache.length + tokens) * group * shape.dim / spans;
  const std::size_t grain = at_least_one(kProductsPerClaim / at_least_one(products));
  session.run(shape.kv_heads * spans * tokens, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t token = item % tokens;
      const std::size_t first = item / tokens % spans * kSpan;
      const std::size_t head = item / tokens / spans;
      const std::size_t positions = cache.length + token + 1;
      if (first >= positions) continue;
      const std::size_t at = partials.index(token, first / kSpan, head * group);
      runner.kernels.attend_span(
          {queries + (token * shape.heads + head * group) * shape.dim, cache.keys(shape, head) + first * shape.dim,
           cache.values(shape, head) + first * shape.dim, group, shape.dim, std::min(kSpan, positions - first),
           partials.maximum(at), partials.sum(at), partials.out(at)});
    }
  });
  session.run(tokens * shape.heads, at_least_one(kValuesPerClaim / (spans * shape.dim)),
              [&](std::size_t begin, std::size_t end) {
                for (std::size_t item = begin; item < end; ++item) {
                  const std::size_t token = item / shape.heads;
                  partials.join(token, item % shape.heads, spans_of(cache.length + token + 1), out + item * shape.dim);
                }
              });
}

}  // namespace strata
