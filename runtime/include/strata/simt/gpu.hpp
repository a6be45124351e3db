// Device kernels on a GPU: CUDA through nvcc, HIP through clang's own builtins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/gen/target.hpp"
#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

#if defined(__CUDACC__)
#include "strata/simt/gpu_cuda.hpp"
#elif defined(__HIP__)
#include "strata/simt/gpu_hip.hpp"
#else
#error "simt/gpu.hpp is for compilers of CUDA and HIP"
#endif

namespace strata::simt {

static_assert(Simt<Gpu<kGpuWave>>);

// Shared memory that a kernel's launch has to ask for: all of it where it is more than any kernel may have.
template <class Kernel>
inline constexpr std::size_t kDynamicShared =
    sizeof(typename Kernel::Shared) > target::kSharedBytes ? sizeof(typename Kernel::Shared) : 0;

// The entry of a kernel; launch it with Kernel::blocks(args) blocks of Kernel::Launch::threads(kGpuWave) threads and
// kDynamicShared<Kernel> bytes, after Kernel::refusal(args).
template <class Kernel>
STRATA_GPU_KERNEL void entry(const typename Kernel::Args args) {
  wait_for_predecessor();
  if constexpr (kDynamicShared<Kernel> > 0) {
    static_assert(kDynamicShared<Kernel> <= target::kSharedOptinBytes);
    Kernel::run(Gpu<kGpuWave>(), *reinterpret_cast<typename Kernel::Shared*>(dynamic_shared()), args);
  } else {
    STRATA_GPU_SHARED typename Kernel::Shared shared;
    Kernel::run(Gpu<kGpuWave>(), shared, args);
  }
}

}  // namespace strata::simt
