// What the kernels of attention share: arguments, the cache of one layer, how the positions of a token are split.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata::device {

// Stored types of a cache. Keys and values of a layer are [2, kv_heads, capacity, dim].
enum class CacheType : std::uint8_t { kF32, kF16, kBf16 };

// The heads of a window; `group` of the queries share each key.
struct Heads {
  int tokens;
  int heads;
  int kv_heads;
  int dim;
  int capacity;

  STRATA_INLINE int group() const { return heads / kv_heads; }
  // The first element of what a head has of keys (part 0) or values (part 1).
  STRATA_INLINE std::int64_t offset(int part, int head) const {
    return (static_cast<std::int64_t>(part) * kv_heads + head) * capacity * dim;
  }

  const char* refusal() const {
    if (tokens < 0 || capacity < 1) return "tokens or capacity out of range";
    if (kv_heads < 1 || heads < 1 || heads % kv_heads != 0) return "as many queries must share each key";
    if (dim < 1 || dim > kMostElements) return "a head has from 1 to 256 elements";
    return nullptr;
  }

  static constexpr int kMostElements = 256;
};

// A window's queries, a layer's cache, and where what they find goes.
struct AttendArgs {
  const std::byte* cache;        // [2, kv_heads, capacity, dim]
  const std::int32_t* position;  // that of the first token
  const float* queries;          // [tokens, heads, dim], with the scale of the scores in them
  float* partials;               // Partials
  Heads shape;
  CacheType type;

  const char* refusal() const {
    if (const char* reason = shape.refusal()) return reason;
    if (shape.tokens == 0) return nullptr;
    return cache && position && queries && partials ? nullptr : "a null address";
  }
};

// A token's positions are split by its own number of them alone, so that its bits depend on no other token: into spans
// of a multiple of kUnit positions, as few multiples as make no more than `most` spans.
struct Splits {
  static constexpr int kUnit = 64;
  static constexpr int kBlocks = 128;  // that all key heads have together: about one for each processor of a large GPU

  int most;

  STRATA_INLINE static Splits of(int kv_heads) { return {kv_heads < kBlocks ? kBlocks / kv_heads : 1}; }

  STRATA_INLINE int span(int length) const {
    const int units = (length + kUnit - 1) / kUnit;
    return (units + most - 1) / most * kUnit;
  }
  STRATA_INLINE int count(int length) const { return (length + span(length) - 1) / span(length); }
  // Spans of any token that the cache has room for.
  STRATA_INLINE int room(int capacity) const {
    const int units = (capacity + kUnit - 1) / kUnit;
    return units < most ? units : most;
  }
};

// What every query finds in each of its spans: by query (token, head) and span, `spans` of them; sums of values
// weighted by exp(score - maximum), then the maxima, then the sums of the weights.
struct Partials {
  float* out;
  float* maxima;
  float* sums;
  int spans;

  STRATA_INLINE static Partials at(float* workspace, const Heads& heads) {
    const int spans = Splits::of(heads.kv_heads).room(heads.capacity);
    const std::int64_t count = static_cast<std::int64_t>(heads.tokens) * heads.heads * spans;
    float* maxima = workspace + count * heads.dim;
    return {workspace, maxima, maxima + count, spans};
  }
  static std::int64_t bytes(const Heads& heads) {
    const std::int64_t spans = Splits::of(heads.kv_heads).room(heads.capacity);
    return spans * heads.tokens * heads.heads * (heads.dim + 2) * static_cast<std::int64_t>(sizeof(float));
  }

  STRATA_INLINE std::int64_t index(int query, int span) const {
    return static_cast<std::int64_t>(query) * spans + span;
  }
};

}  // namespace strata::device
