// Sums over the threads of a block, with the same bits for every number of threads and width of waves.
#pragma once

#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Values are summed into this many partial sums, value i into number i % kBlockSums, and those pairwise, neighbours
// first.
inline constexpr int kBlockSums = 1024;

// The partial sums of one thread of `Threads`, neighbours.
template <simt::Simt S, int Threads>
struct BlockSums {
  static constexpr int kOwn = S::kWave == 1 ? kBlockSums : kBlockSums / Threads;
  static constexpr int kWaves = S::kWave == 1 ? 1 : Threads / S::kWave;

  using Shared = float[kWaves];

  float sum[kOwn] = {};

  // The sum of all, in every thread. `shared` may be used again behind the block's next barrier.
  STRATA_INLINE float total(const S& simt, float* shared) const {
    float folded[kOwn];
    for (int i = 0; i < kOwn; ++i) folded[i] = sum[i];
    fold<kOwn>(folded);
    if constexpr (S::kWave > 1) {
      for (int mask = 1; mask < S::kWave; mask *= 2) folded[0] += simt.shuffle_xor(folded[0], mask);
      if (simt.lane() == 0) shared[simt.thread() / S::kWave] = folded[0];
      simt.barrier();
      float waves[kWaves];
      for (int i = 0; i < kWaves; ++i) waves[i] = shared[i];
      fold<kWaves>(waves);
      return waves[0];
    }
    return folded[0];
  }

 private:
  template <int Count>
  STRATA_INLINE static void fold(float* values) {
    for (int distance = 1; distance < Count; distance *= 2) {
      for (int i = 0; i < Count; i += 2 * distance) values[i] += values[i + distance];
    }
  }
};

}  // namespace strata::device
