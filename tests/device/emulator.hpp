// Device kernels as a GPU runs them, on one CPU thread: every thread of a block is a fiber, waves have 32 or 64 lanes.
//
// What a CPU hides is an error here: lanes that are not at the same operation of their wave, threads that do not reach
// a barrier that others wait at, and (by another order of threads and blocks for every seed, and shared memory full of
// rubbish) values that are read before a barrier has made them visible.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>

#include "strata/simt/inline.hpp"

namespace strata::emulator {

// A block as the body sees it; implemented over fibers.
class Block {
 public:
  virtual ~Block() = default;
  virtual int thread() const = 0;
  // Leaves `value` (8 bytes) for the lanes of the wave and returns what lane `lane` left.
  virtual std::uint64_t exchange(std::uint64_t value, int lane) = 0;
  // What lane `lane` left at the wave's last exchange.
  virtual std::uint64_t left(int lane) = 0;
  virtual std::uint64_t ballot(bool predicate) = 0;
  virtual void barrier() = 0;
  virtual void pause() = 0;
};

class Fibers;

// Where blocks of `threads` threads run, one after the other.
class Processor {
 public:
  Processor(int threads, int wave);
  ~Processor();

  // Runs body(block) in every thread. Throws std::logic_error when they cannot go on.
  void run(std::uint64_t seed, const std::function<void(Block&)>& body);

 private:
  std::unique_ptr<Fibers> fibers_;
};

template <int Wave>
class Emulated {
 public:
  static constexpr int kWave = Wave;
  static constexpr bool kHasTiles = Wave == 32;

  static std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) { return simt::bytes::dot4(a, b, sum); }
  template <int Shift>
  static std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t indices) {
    return simt::bytes::look_up<Shift>(table, indices);
  }
  static void prefetch(const void*) {}

  Emulated(Block& own, int block, int blocks, int threads)
      : own_(&own), block_(block), blocks_(blocks), threads_(threads) {}

  int block() const { return block_; }
  int blocks() const { return blocks_; }
  int thread() const { return own_->thread(); }
  int threads() const { return threads_; }
  int lane() const { return thread() % Wave; }

  template <class Value>
  Value shuffle(Value value, int lane) const {
    static_assert(sizeof(Value) == 4 || sizeof(Value) == 8);
    if (lane < 0 || lane >= Wave) throw std::logic_error("shuffle from a lane that the wave has not");
    std::uint64_t sent = 0;
    std::memcpy(&sent, &value, sizeof value);
    const std::uint64_t received = own_->exchange(sent, lane);
    std::memcpy(&value, &received, sizeof value);
    return value;
  }
  template <class Value>
  Value shuffle_xor(Value value, int mask) const {
    return shuffle(value, lane() ^ mask);
  }
  // What every lane leaves.
  std::array<std::uint64_t, Wave> gather(std::uint64_t value) const {
    std::array<std::uint64_t, Wave> all{};
    own_->exchange(value, 0);
    for (int lane = 0; lane < Wave; ++lane) all[static_cast<std::size_t>(lane)] = own_->left(lane);
    return all;
  }
  std::uint64_t ballot(bool predicate) const { return own_->ballot(predicate); }

  void multiply_tile(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], std::int32_t (&sums)[4]) const {
    for (int four = 0; four < 4; ++four) {
      std::uint32_t row[4];
      for (int i = 0; i < 4; ++i) row[i] = shuffle(a[i], lane() / 4 * 4 + four);
      for (int column = 0; column < 2; ++column) {
        const int from = 4 * (lane() % 4 * 2 + column) + four;
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t bytes = shuffle(b[half], from);
          sums[column] = dot4(row[2 * half], bytes, sums[column]);
          sums[2 + column] = dot4(row[2 * half + 1], bytes, sums[2 + column]);
        }
      }
    }
  }
  void barrier() const { own_->barrier(); }

  template <class Value>
  void store_mapped(Value* at, Value value) const {
    *at = value;
  }
  template <class Value>
  Value load_mapped(const Value* at) const {
    return *at;
  }
  void fence_system() const {}
  void release(std::uint32_t* word, std::uint32_t value) const { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
  std::uint32_t acquire(const std::uint32_t* word) const { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
  void pause(std::uint64_t) const { own_->pause(); }
  std::uint64_t nanoseconds() const {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

 private:
  Block* own_;
  int block_;
  int blocks_;
  int threads_;
};

static_assert(simt::Simt<Emulated<32>> && simt::Simt<Emulated<64>>);

// Runs all blocks of a kernel, the last first for odd seeds.
template <class Kernel, int Wave>
void launch(const typename Kernel::Args& args, std::uint64_t seed) {
  simt::require_fitting<Kernel>(args);
  const int blocks = Kernel::blocks(args);
  const int threads = Kernel::Launch::threads(Wave);
  Processor processor(threads, Wave);
  auto shared = std::make_unique<typename Kernel::Shared>();
  for (int i = 0; i < blocks; ++i) {
    const int block = seed % 2 == 0 ? i : blocks - 1 - i;
    std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
    processor.run(seed + static_cast<std::uint64_t>(block),
                  [&](Block& own) { Kernel::run(Emulated<Wave>(own, block, blocks, threads), *shared, args); });
  }
}

}  // namespace strata::emulator
