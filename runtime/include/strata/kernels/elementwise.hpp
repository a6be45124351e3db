// What experts do between two products: silu(gate) * up, with an exponential of our own (the same bits for every vector
// width and every library), and quantised inputs; and reading memory for nothing but its speed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"

namespace strata::kernels {

// exp(x) for x clamped to [-87, 88], within 2 units in the last place; a NaN gives some finite number.
STRATA_INLINE float exp_clamped(float x) {
  constexpr float kMagic = 0x1.8p23f;  // adding it rounds to a whole number in the low mantissa bits
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 0x1.715476p+0f + kMagic;
  const float whole = shifted - kMagic;
  // x - whole * ln 2, ln 2 in two parts: the first has few enough bits for an exact product.
  const float rest = (x - whole * 0x1.62ep-1f) - whole * 0x1.0bfbe8p-15f;
  float p = 0x1.6d7b96p-10f;
  p = p * rest + 0x1.1204eap-7f;
  p = p * rest + 0x1.5554a0p-5f;
  p = p * rest + 0x1.5554cap-3f;
  p = p * rest + 0.5f;
  p = p * rest * rest + rest + 1.0f;
  const std::uint32_t exponent = bit_cast<std::uint32_t>(shifted) - 0x4b400000u + 127u;
  return p * bit_cast<float>(exponent << 23);
}

// The nearest float to the square root.
STRATA_INLINE float square_root(float x) {
#ifdef __CUDACC__
  return sqrtf(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// gate[i] = silu(gate[i]) * up[i]. `Isa` only keeps one copy per instruction set.
template <class Isa>
void silu_multiply(float* gate, const float* up, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) gate[i] = gate[i] / (1.0f + exp_clamped(-gate[i])) * up[i];
}

// Quantises `blocks` blocks of one vector from block `first` on into `row`, a `Row` of `columns` values.
template <class Isa, class Row>
void quantize_input(const float* x, std::size_t first, std::size_t blocks, std::size_t columns, std::byte* row) {
  for (std::size_t block = first; block < first + blocks; ++block) {
    Row::quantize_block(x + (block - first) * Row::kBlock, block, columns, row);
  }
}

// XOR of the 64-bit words at `data`: reads memory once, from front to back, as fast as one core can.
template <class Isa>
void xor_words(const std::byte* data, std::size_t words, std::uint64_t* result) {
  using Words = std::uint64_t __attribute__((vector_size(64)));
  constexpr std::size_t kVectors = 4;  // enough at once to keep several cache lines in flight
  constexpr std::size_t kStep = kVectors * sizeof(Words) / sizeof(std::uint64_t);
  Words sums[kVectors] = {};
  std::size_t word = 0;
  for (; word + kStep <= words; word += kStep) {
    Words next[kVectors];
    __builtin_memcpy(next, data + word * sizeof(std::uint64_t), sizeof next);
    unroll<kVectors>([&](auto i) STRATA_LAMBDA { sums[i] ^= next[i]; });
  }
  std::uint64_t total = 0;
  for (const Words& sum : sums) {
    for (std::size_t i = 0; i < 8; ++i) total ^= sum[i];
  }
  for (; word < words; ++word) {
    std::uint64_t one;
    __builtin_memcpy(&one, data + word * sizeof one, sizeof one);
    total ^= one;
  }
  *result = total;
}

}  // namespace strata::kernels
