// A thread of a HIP grid, in clang's builtins alone: no header of ROCm is needed to compile for any device.
#pragma once

#include <cstdint>

#include "strata/gen/target.hpp"
#include "strata/hip/stubs.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/bytes.hpp"

#define STRATA_GPU_KERNEL __attribute__((global))
#define STRATA_GPU_SHARED __attribute__((shared))
#define STRATA_GPU_BOUNDS(threads, blocks) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define STRATA_GPU_DEVICE __attribute__((device))

namespace strata::simt {

inline constexpr int kGpuWave = target::kWaveSize;

STRATA_GPU_DEVICE inline void wait_for_predecessor() {}

// What a launch asked for.
STRATA_GPU_DEVICE inline void* dynamic_shared() {
  extern __attribute__((shared)) __attribute__((aligned(128))) unsigned char memory[];
  return memory;
}

template <int Wave>
struct Gpu {
  static_assert(Wave == kGpuWave);
  static constexpr int kWave = Wave;
  static constexpr bool kHasTiles = false;
  static constexpr std::uint64_t kClockHertz = 100'000'000;

  STRATA_GPU_DEVICE static std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
    const auto left = static_cast<std::int32_t>(a);
    const auto right = static_cast<std::int32_t>(b);
    if constexpr (target::kDot == target::Dot::kSudot4) {
      return __builtin_amdgcn_sudot4(true, left, true, right, sum, false);
    } else if constexpr (target::kDot == target::Dot::kSdot4) {
      return __builtin_amdgcn_sdot4(left, right, sum, false);
    } else {
      return bytes::dot4(a, b, sum);
    }
  }
  template <int Shift>
  STRATA_GPU_DEVICE static std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t indices) {
    const std::uint32_t places = indices >> Shift & 0x07070707u;
    const std::uint32_t upper = (indices >> Shift & 0x08080808u) >> 3;
    const std::uint32_t low = __builtin_amdgcn_perm(table[1], table[0], places);
    const std::uint32_t high = __builtin_amdgcn_perm(table[3], table[2], places);
    return low ^ ((low ^ high) & upper * 0xffu);
  }
  STRATA_GPU_DEVICE static void prefetch(const void*) {}

  STRATA_GPU_DEVICE int block() const { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
  STRATA_GPU_DEVICE int blocks() const {
    return static_cast<int>(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
  }
  STRATA_GPU_DEVICE int thread() const { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
  STRATA_GPU_DEVICE int threads() const { return static_cast<int>(__builtin_amdgcn_workgroup_size_x()); }
  STRATA_GPU_DEVICE int lane() const { return thread() % Wave; }

  STRATA_GPU_DEVICE float shuffle(float value, int lane) const {
    return bit_cast<float>(permute(bit_cast<std::int32_t>(value), lane));
  }
  STRATA_GPU_DEVICE float shuffle_xor(float value, int mask) const { return shuffle(value, lane() ^ mask); }
  STRATA_GPU_DEVICE std::uint64_t shuffle_xor(std::uint64_t value, int mask) const {
    const auto low = static_cast<std::uint32_t>(permute(static_cast<std::int32_t>(value), lane() ^ mask));
    const auto high = static_cast<std::uint32_t>(permute(static_cast<std::int32_t>(value >> 32), lane() ^ mask));
    return static_cast<std::uint64_t>(high) << 32 | low;
  }
  STRATA_GPU_DEVICE std::uint64_t ballot(bool predicate) const {
    if constexpr (Wave == 32) {
      return __builtin_amdgcn_ballot_w32(predicate);
    } else {
      return __builtin_amdgcn_ballot_w64(predicate);
    }
  }
  STRATA_GPU_DEVICE void barrier() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }

  // Plain accesses to mapped memory may be answered by the device's own cache.
  template <class Value>
  STRATA_GPU_DEVICE void store_mapped(Value* at, Value value) const {
    __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  template <class Value>
  STRATA_GPU_DEVICE Value load_mapped(const Value* at) const {
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  STRATA_GPU_DEVICE void fence_system() const { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
  STRATA_GPU_DEVICE void release(std::uint32_t* word, std::uint32_t value) const {
    fence_system();
    __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  STRATA_GPU_DEVICE std::uint32_t acquire(const std::uint32_t* word) const {
    return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
  }
  STRATA_GPU_DEVICE void pause(std::uint64_t) const { __builtin_amdgcn_s_sleep(1); }
  STRATA_GPU_DEVICE std::uint64_t nanoseconds() const {
    return __builtin_readsteadycounter() * (1'000'000'000 / kClockHertz);
  }

 private:
  STRATA_GPU_DEVICE int permute(int value, int lane) const { return __builtin_amdgcn_ds_bpermute(4 * lane, value); }
};

}  // namespace strata::simt
