// Device kernels on a CPU: a wave of one lane, a block of one thread, and a plain loop over blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "strata/inline.hpp"
#include "strata/simt/bytes.hpp"
#include "strata/simt/fitting.hpp"
#include "strata/simt/simt.hpp"

namespace strata::simt {

class Inline {
 public:
  static constexpr int kWave = 1;
  static constexpr bool kHasTiles = false;

  STRATA_INLINE static std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
    return bytes::dot4(a, b, sum);
  }
  template <int Shift>
  STRATA_INLINE static std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t indices) {
    return bytes::look_up<Shift>(table, indices);
  }
  STRATA_INLINE static void prefetch(const void* at) { __builtin_prefetch(at); }

  STRATA_INLINE Inline(int block, int blocks) : block_(block), blocks_(blocks) {}

  STRATA_INLINE int block() const { return block_; }
  STRATA_INLINE int blocks() const { return blocks_; }
  STRATA_INLINE int thread() const { return 0; }
  STRATA_INLINE int threads() const { return 1; }
  STRATA_INLINE int lane() const { return 0; }

  template <class Value>
  STRATA_INLINE Value shuffle(Value value, int) const {
    return value;
  }
  template <class Value>
  STRATA_INLINE Value shuffle_xor(Value value, int) const {
    return value;
  }
  STRATA_INLINE std::uint64_t ballot(bool predicate) const { return predicate ? 1 : 0; }
  STRATA_INLINE void barrier() const {}

  // Caches are coherent here: `release` and `acquire` order plain accesses.
  template <class Value>
  STRATA_INLINE void store_mapped(Value* at, Value value) const {
    *at = value;
  }
  template <class Value>
  STRATA_INLINE Value load_mapped(const Value* at) const {
    return *at;
  }
  STRATA_INLINE void fence_system() const {}
  STRATA_INLINE void release(std::uint32_t* word, std::uint32_t value) const {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  STRATA_INLINE std::uint32_t acquire(const std::uint32_t* word) const {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }

  // The thread that raises the word may need this core.
  void pause(std::uint64_t looks) const {
    constexpr std::uint64_t kSpins = 64;
    if (looks >= kSpins) std::this_thread::yield();
  }
  std::uint64_t nanoseconds() const {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

 private:
  int block_;
  int blocks_;
};

static_assert(Simt<Inline>);

// Runs all blocks of a kernel. Throws as `require_fitting` does.
template <class Kernel>
void run_inline(const typename Kernel::Args& args) {
  require_fitting<Kernel>(args);
  const int blocks = Kernel::blocks(args);
  typename Kernel::Shared shared;
  for (int block = 0; block < blocks; ++block) Kernel::run(Inline(block, blocks), shared, args);
}

}  // namespace strata::simt
