// Launches of device kernels, for .cu files: through the CUDA runtime, or through the HIP runtime that is there.
#pragma once

#if defined(__CUDACC__)
#include "strata/simt/launch_cuda.hpp"
#elif defined(__HIP__)
#include "strata/simt/launch_hip.hpp"
#else
#error "simt/launch_gpu.hpp is for compilers of CUDA and HIP"
#endif
