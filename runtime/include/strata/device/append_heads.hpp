// Norm, scale and rotation of queries; keys, normed and rotated, and values into the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/attention.hpp"
#include "strata/device/own_values.hpp"
#include "strata/gen/launches.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

// A wave per head. The first `rope_dim` elements of a head turn, element i with element i + rope_dim / 2, by the angles
// of its token's position. Positions that the cache has no room for are left out.
struct AppendHeads {
  using Launch = gen::AppendHeadsLaunch;

  struct Args {
    const float* query_norm;       // [dim], or null: no norms
    const float* key_norm;         // [dim], or null
    const float* angles;           // cosines and sines [capacity, 2, rope_dim / 2]
    const std::int32_t* position;  // that of the first token
    std::byte* cache;              // [2, kv_heads, capacity, dim]
    float* queries;                // [tokens, heads, dim]
    const float* keys;             // [tokens, kv_heads, dim]
    const float* values;           // [tokens, kv_heads, dim]
    Heads shape;
    CacheType type;
    float eps;
    float scale;
    int rope_dim;
  };

  struct Shared {};

  static const char* refusal(const Args& args) {
    if (const char* reason = args.shape.refusal()) return reason;
    if (args.rope_dim < 0 || args.rope_dim % 2 != 0 || args.rope_dim > args.shape.dim) {
      return "pairs inside a head are rotated";
    }
    if ((args.query_norm == nullptr) != (args.key_norm == nullptr)) return "norms are of both queries and keys";
    if (args.shape.tokens == 0) return nullptr;
    if (!(args.angles && args.position && args.cache && args.queries && args.keys && args.values)) {
      return "a null address";
    }
    return nullptr;
  }

  static int blocks(const Args& args) {
    return Launch::blocks(args.shape.tokens, args.shape.heads + 2 * args.shape.kv_heads);
  }

  // Norms are the same in every window.
  template <simt::Simt S>
  STRATA_INLINE static void before_predecessor_ends(const S& simt, const Args& args) {
    if (args.query_norm == nullptr) return;
    prefetch_floats(simt, args.query_norm, args.shape.dim);
    prefetch_floats(simt, args.key_norm, args.shape.dim);
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const Heads& shape = args.shape;
    const int all = shape.heads + 2 * shape.kv_heads;
    const int tiles = Launch::blocks(1, all);
    const int token = simt.block() / tiles;
    const int position = *args.position + token;
    if (position >= shape.capacity) return;
    const int begin = simt.block() % tiles * Launch::kHeadsPerBlock;
    const int end = begin + Launch::kHeadsPerBlock < all ? begin + Launch::kHeadsPerBlock : all;
    for (int head = begin + simt.thread() / S::kWave; head < end; head += simt.threads() / S::kWave) {
      one_head(simt, args, token, position, head);
    }
  }

 private:
  // Heads are numbered through queries, keys and values.
  template <simt::Simt S>
  STRATA_INLINE static void one_head(const S& simt, const Args& args, int token, int position, int head) {
    const Heads& shape = args.shape;
    const std::int64_t dim = shape.dim;
    const int key = head - shape.heads;
    if (key < 0) {
      float* query = args.queries + (static_cast<std::int64_t>(token) * shape.heads + head) * dim;
      turn(simt, args, position, query, args.query_norm, args.scale, [&](int i, float value) { query[i] = value; });
      return;
    }
    const int part = key < shape.kv_heads ? 0 : 1;
    const int kv_head = key - part * shape.kv_heads;
    const float* from =
        (part == 0 ? args.keys : args.values) + (static_cast<std::int64_t>(token) * shape.kv_heads + kv_head) * dim;
    const std::int64_t to = shape.offset(part, kv_head) + position * dim;
    const auto store = [&](int i, float value) { store_cached(args, to + i, value); };
    if (part == 0) {
      turn(simt, args, position, from, args.key_norm, 1.0f, store);
    } else {
      for (int i = simt.lane(); i < shape.dim; i += S::kWave) store(i, from[i]);
    }
  }

  STRATA_INLINE static void store_cached(const Args& args, std::int64_t at, float value) {
    if (args.type == CacheType::kF32) {
      reinterpret_cast<float*>(args.cache)[at] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(args.cache)[at] =
          args.type == CacheType::kF16 ? float_to_f16(value) : float_to_bf16(value);
    }
  }

  // A lane computes both elements of a pair, so `store` may write over `from`.
  template <simt::Simt S, class Store>
  STRATA_INLINE static void turn(const S& simt, const Args& args, int position, const float* from, const float* norm,
                                 float scale, const Store& store) {
    const int dim = args.shape.dim;
    float factor = scale;
    if (norm != nullptr) {
      const float sum = simt::wave_sum(simt, dim, [&](int i) { return from[i] * from[i]; });
      factor = 1.0f / kernels::square_root(sum / static_cast<float>(dim) + args.eps) * scale;
    }
    const auto normed = [&](int i) { return norm == nullptr ? from[i] * factor : from[i] * factor * norm[i]; };
    const int half = args.rope_dim / 2;
    const float* cosines = args.angles + static_cast<std::int64_t>(position) * args.rope_dim;
    for (int i = simt.lane(); i < half; i += S::kWave) {
      const float a = normed(i);
      const float b = normed(i + half);
      const float cosine = cosines[i];
      const float sine = cosines[half + i];
      store(i, a * cosine - b * sine);
      store(i + half, b * cosine + a * sine);
    }
    for (int i = args.rope_dim + simt.lane(); i < dim; i += S::kWave) store(i, normed(i));
  }
};

}  // namespace strata::device
