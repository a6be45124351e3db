// What bodies of device kernels are written against: a thread of a wave of a block of a grid.
//
// A body is a class template's worth of code over one type that models `Simt`: `Gpu` (simt/gpu.hpp) for CUDA and HIP,
// `Inline` (simt/inline.hpp), the one thread that a CPU runs it with, and an emulator in the tests, which has waves as
// a GPU has them. The width of a wave is a compile-time constant, and no result depends on it.
#pragma once

#include <concepts>
#include <cstdint>

namespace strata::simt {

// Every lane of a wave calls the wave's operations together, and every thread of a block the block's barrier.
//
// Words and memory that the host shares ("mapped") are touched by the last group only, which acts in the scope of the
// whole system.
//
// Where `kHasTiles` is true, waves have 32 lanes and an operation `multiply_tile` of their own: sums[16, 8] +=
// a[16, 32] * b[32, 8] of signed bytes. A lane (row, four) = (lane / 4, lane % 4) holds bytes 4 four to 4 four + 3 of
// rows `row` and `row + 8` in a[0] and a[1], those 16 further on in a[2] and a[3], the same bytes of column `row` in
// b[0] and b[1], and of the sums those of columns 2 four and 2 four + 1 in row `row`, then in row `row + 8`.
template <class S>
concept Simt =
    requires(const S& simt, std::uint32_t* word, float* at, const float* from, const std::uint32_t (&table)[4]) {
      requires S::kWave == 1 || S::kWave == 32 || S::kWave == 64;
      // Numbers of this block and thread, and how many there are; both one-dimensional.
      { simt.block() } -> std::same_as<int>;
      { simt.blocks() } -> std::same_as<int>;
      { simt.thread() } -> std::same_as<int>;
      { simt.threads() } -> std::same_as<int>;
      // Wave: the value of another lane, values of 4 or 8 bytes; bit l is set where lane l says true.
      // A lane alone: sum + the products of four signed bytes each; bytes of a table of 16 that four-bit indices name,
      // those at bits 0, 8, 16 and 24, or 4 further on; a line of memory that will be read soon, which may be anywhere.
      { S::dot4(0u, 0u, 0) } -> std::same_as<std::int32_t>;
      { S::template look_up<4>(table, 0u) } -> std::same_as<std::uint32_t>;
      S::prefetch(from);
      requires(!S::kHasTiles || S::kWave == 32);
      { simt.lane() } -> std::same_as<int>;
      { simt.shuffle(0.0f, 0) } -> std::same_as<float>;
      { simt.shuffle_xor(std::uint64_t{}, 1) } -> std::same_as<std::uint64_t>;
      { simt.ballot(true) } -> std::same_as<std::uint64_t>;
      // Block: what its threads wrote before is seen by all of them after.
      simt.barrier();
      // System. `release` makes all that the block's threads wrote before their last barrier visible to who acquires
      // the word; `pause` is for a thread that has looked at a word `looks` times in vain.
      simt.store_mapped(at, 0.0f);
      { simt.load_mapped(from) } -> std::same_as<float>;
      simt.fence_system();
      simt.release(word, 1u);
      { simt.acquire(word) } -> std::same_as<std::uint32_t>;
      simt.pause(std::uint64_t{});
      { simt.nanoseconds() } -> std::same_as<std::uint64_t>;
    };

}  // namespace strata::simt
