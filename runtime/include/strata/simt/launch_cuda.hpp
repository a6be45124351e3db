// Launches through the CUDA runtime, for .cu files.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "strata/gen/target.hpp"
#include "strata/simt/fitting.hpp"
#include "strata/simt/gpu.hpp"
#include "strata/simt/launch.hpp"

namespace strata::simt {

[[noreturn]] inline void throw_launch_error(const char* kernel, cudaError_t error) {
  cudaGetLastError();  // so that nobody takes it for an error of a later call
  throw std::runtime_error(std::string(kernel) + ": the launch failed: " + cudaGetErrorString(error) + " (" +
                           cudaGetErrorName(error) + ")");
}

template <class Kernel>
void require_launched(cudaError_t error) {
  if (error != cudaSuccess) throw_launch_error(Kernel::Launch::kKernel, error);
}

template <class Kernel>
void launch(const typename Kernel::Args& args, Stream stream) {
  require_fitting<Kernel>(args);
  const int blocks = Kernel::blocks(args);
  if (blocks <= 0) return;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(Kernel::Launch::threads(kGpuWave)));
  config.dynamicSmemBytes = kDynamicShared<Kernel>;
  config.stream = reinterpret_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = target::kHasDependentLaunch ? 1 : 0;
  if constexpr (kDynamicShared<Kernel> > 0) {
    constexpr auto kBytes = static_cast<int>(kDynamicShared<Kernel>);
    require_launched<Kernel>(cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  }
  require_launched<Kernel>(cudaLaunchKernelEx(&config, entry<Kernel>, args));
}

}  // namespace strata::simt
