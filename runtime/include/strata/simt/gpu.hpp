// Device kernels on a GPU: CUDA through nvcc, HIP through clang's own builtins.
#pragma once

#include <cstdint>

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

// The entry of a kernel; launch it with Kernel::blocks(args) blocks of Kernel::Launch::threads(kGpuWave) threads, after
// Kernel::refusal(args).
template <class Kernel>
STRATA_GPU_KERNEL void entry(const typename Kernel::Args args) {
  wait_for_predecessor();
  STRATA_GPU_SHARED typename Kernel::Shared shared;
  Kernel::run(Gpu<kGpuWave>(), shared, args);
}

}  // namespace strata::simt
