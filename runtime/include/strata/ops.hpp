// What the engine computes on the CPU: products with stored weights over a pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "strata/kernels/level.hpp"
#include "strata/pool.hpp"
#include "strata/weights.hpp"

namespace strata {

// Where and how operations run. `claim_rows`: output rows that a worker claims at a time, 0 for a choice by the size of
// the job. `fetches_ahead`: kernels for few tokens fetch memory ahead by hand. `turn`: that of all operations. None of
// them changes a bit of any result.
struct Runner {
  Runner(const LevelKernels& level, const PoolOptions& options, std::size_t rows_per_claim)
      : kernels(level), workers(std::make_shared<Pool>(options)), pool(*workers), claim_rows(rows_per_claim) {}

  // The same workers, for operations that let all others go first.
  Runner behind() const {
    Runner last(*this);
    last.turn = Turn::kLast;
    return last;
  }

  Pool::Session open() const { return pool.open(turn); }

  const LevelKernels& kernels;
  std::shared_ptr<Pool> workers;
  Pool& pool;
  std::size_t claim_rows;
  bool fetches_ahead = false;
  Turn turn = Turn::kFirst;
};

// Whether this CPU reads weights faster when kernels for few tokens fetch ahead by hand. Timed with the runner's
// workers on some memory of its own, once in a process: later calls say the same, whatever the runner.
bool fetching_ahead_pays(Runner& runner);

// Brings stored rows into the compute layout of the runner's kernels: `out` has interleaved_bytes(). Throws
// std::invalid_argument where they read blocks of the format as they are stored.
void arrange(Runner& runner, const formats::Info& format, std::size_t rows, std::size_t columns,
             const std::byte* blocks, std::byte* out);

// out[tokens, rows] = x[tokens, columns] * matrix^T, in float32, row-major.
//
// A format that takes int8 activations quantises every input in blocks of 32 first. The bits of a row depend on that
// row's weights and input, and on whether it stands in a group, alone. Throws std::invalid_argument for a matrix that
// was arranged for other kernels than the runner's.
void linear(Runner& runner, const Matrix& matrix, std::size_t tokens, const float* x, float* out);

// Computes the rows of some experts before those of others: of the experts that have an entry of at least the weight
// `heavy_from`. `heavy_done` is called once when all of their rows are there, on the calling thread.
struct ExpertSplit {
  const float* weights;  // [tokens, top_k]
  float heavy_from;
  std::function<void()> heavy_done;
};

// out[tokens * top_k, hidden]: row (t, k) = down(silu(gate(x_t)) * up(x_t)) of expert ids[t, k], unweighted. An id of
// -1 makes a row of zeros. Throws std::invalid_argument for other ids outside [0, number of experts), and for a split
// of more tokens than a window has. A split changes no bit of any row.
void run_experts(Runner& runner, const Experts& layer, std::size_t tokens, std::size_t top_k, const float* x,
                 const std::int32_t* ids, float* out, const ExpertSplit* split = nullptr);

// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, for rows of `columns` values; `out` may be `x`.
void rms_norm(Runner& runner, std::size_t rows, std::size_t columns, const float* x, const float* weight, float eps,
              float* out);

// Heads of one token: `heads` queries, of which as many in turn share each of `kv_heads` keys and values.
struct HeadShape {
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t dim;

  std::size_t group() const { return heads / kv_heads; }
};

// Keys and values of one layer, [2, kv_heads, capacity, dim]. `length` positions are filled.
struct LayerCache {
  float* data;
  std::size_t capacity;
  std::size_t length;

  float* keys(const HeadShape& shape, std::size_t head) const { return data + head * capacity * shape.dim; }
  float* values(const HeadShape& shape, std::size_t head) const { return keys(shape, shape.kv_heads + head); }
};

// What becomes of heads before they attend. Without norms both weights are null; `scale` is for queries alone. The
// first `rope_dim` elements of a head turn, element i with element i + rope_dim / 2; `angles` has their cosines, then
// their sines by position: [capacity, 2, rope_dim / 2].
struct HeadRules {
  const float* query_norm;
  const float* key_norm;
  float eps;
  float scale;
  std::size_t rope_dim;
  const float* angles;
};

// Norms, scales and rotates queries [tokens, heads, dim] in place, and puts keys, normed and rotated, and values, both
// [tokens, kv_heads, dim], behind what is in `cache`. Throws std::invalid_argument when they do not fit.
void prepare_heads(Runner& runner, const HeadShape& shape, const HeadRules& rules, const LayerCache& cache,
                   std::size_t tokens, float* queries, const float* keys, const float* values);

// out[tokens, heads, dim]: what prepared queries find. Token t, at position cache.length + t, looks at the positions up
// to its own, in spans of kSpan that are added in order: its bits depend on no other token.
void attend(Runner& runner, const HeadShape& shape, const LayerCache& cache, std::size_t tokens, const float* queries,
            float* out);

// XOR of the 64-bit words at `data` (trailing bytes left out): reads memory once, as fast as the pool can. What a read
// bandwidth is measured with.
std::uint64_t checksum(Runner& runner, const std::byte* data, std::size_t bytes);

}  // namespace strata
