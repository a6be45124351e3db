// Kernels launched on a GPU, for code that another compiler than the GPU's compiles.
#pragma once

#include <cstdint>

namespace strata::simt {

// A stream as the GPU's driver knows it; 0 is its default stream.
using Stream = std::uintptr_t;

// Launches all blocks of a kernel behind what was given to the stream before; nothing where it has none. Throws
// std::invalid_argument for arguments that the kernel cannot take, and std::runtime_error when the launch fails. Who
// compiles for the GPU defines it (simt/launch_gpu.hpp), and instantiates it for each kernel with STRATA_LAUNCH.
template <class Kernel>
void launch(const typename Kernel::Args& args, Stream stream);

#define STRATA_LAUNCH(...) \
  template void strata::simt::launch<__VA_ARGS__>(const __VA_ARGS__::Args& args, strata::simt::Stream stream)

}  // namespace strata::simt
