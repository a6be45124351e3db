// A thread of a CUDA grid. Words of the system are read and written by instructions of system scope.
#pragma once

#include <cstdint>

#include "strata/gen/target.hpp"
#include "strata/scalar.hpp"

#define STRATA_GPU_KERNEL __global__
#define STRATA_GPU_SHARED __shared__
#define STRATA_GPU_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)

namespace strata::simt {

inline constexpr int kGpuWave = 32;

// A kernel is made ready to run while the one before it in its stream still does, where a target can do that. From here
// on it sees all that the other wrote, and lets the next one be made ready.
__device__ __forceinline__ void wait_for_predecessor() {
  if constexpr (target::kHasDependentLaunch) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
}

// What a launch asked for.
__device__ __forceinline__ void* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}

consteval bool has_byte_tiles() {
  for (const target::MatrixShape& shape : target::kMatrixShapes) {
    if (shape.m == 16 && shape.n == 8 && shape.k == 32 && shape.operand[0] == 's' && shape.operand[1] == '8') {
      return true;
    }
  }
  return false;
}

template <int Wave>
struct Gpu {
  static_assert(Wave == kGpuWave);
  static constexpr int kWave = Wave;
  static constexpr bool kHasTiles = has_byte_tiles();
  static constexpr unsigned kAllLanes = 0xffffffffu;

  __device__ static std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
  }
  // Indices of three bits pick from either half of the table, four at a time; their fourth bits pick between these.
  template <int Shift>
  __device__ static std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t indices) {
    const std::uint32_t halves = (indices & 0x88888888u) >> 1 | 0x32103210u;
    const std::uint32_t places = indices & 0x77777777u;
    const std::uint32_t first =
        __byte_perm(__byte_perm(table[0], table[1], places), __byte_perm(table[2], table[3], places), halves);
    const std::uint32_t second = __byte_perm(__byte_perm(table[0], table[1], places >> 16),
                                             __byte_perm(table[2], table[3], places >> 16), halves >> 16);
    return __byte_perm(first, second, Shift == 0 ? 0x6420 : 0x7531);
  }
  __device__ static void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
  __device__ static void multiply_tile(const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                       std::int32_t (&sums)[4]) {
    std::int32_t made[4];
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, "
        "%13};"
        : "=r"(made[0]), "=r"(made[1]), "=r"(made[2]), "=r"(made[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sums[0]), "r"(sums[1]), "r"(sums[2]),
          "r"(sums[3]));
    for (int i = 0; i < 4; ++i) sums[i] = made[i];
  }

  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ int blocks() const { return static_cast<int>(gridDim.x); }
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % Wave; }

  __device__ float shuffle(float value, int lane) const { return __shfl_sync(kAllLanes, value, lane); }
  __device__ float shuffle_xor(float value, int mask) const { return __shfl_xor_sync(kAllLanes, value, mask); }
  __device__ std::uint64_t shuffle_xor(std::uint64_t value, int mask) const {
    return __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(value), mask);
  }
  // Of every lane, where a target has the instruction: those that copy asynchronously do.
  __device__ std::uint32_t reduce_max(std::uint32_t value) const
    requires(target::kHasAsyncCopy)
  {
    std::uint32_t largest;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(value));
    return largest;
  }
  __device__ std::uint64_t ballot(bool predicate) const { return __ballot_sync(kAllLanes, predicate); }
  __device__ void barrier() const { __syncthreads(); }

  template <class Value>
  __device__ void store_mapped(Value* at, Value value) const {
    static_assert(sizeof(Value) == 4);
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(at), "r"(bit_cast<std::uint32_t>(value)) : "memory");
  }
  template <class Value>
  __device__ Value load_mapped(const Value* at) const {
    static_assert(sizeof(Value) == 4);
    std::uint32_t bits;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(bits) : "l"(at) : "memory");
    return bit_cast<Value>(bits);
  }
  __device__ void fence_system() const { __threadfence_system(); }
  __device__ void release(std::uint32_t* word, std::uint32_t value) const {
    __threadfence_system();
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  __device__ std::uint32_t acquire(const std::uint32_t* word) const {
    std::uint32_t value;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ void pause(std::uint64_t) const { __nanosleep(64); }
  __device__ std::uint64_t nanoseconds() const {
    std::uint64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
  }
};

}  // namespace strata::simt
