// A device kernel where this target has its device: inline on a CPU, launched on a GPU.
#pragma once

#include "strata/gen/target.hpp"
#include "strata/simt/inline.hpp"
#include "strata/simt/launch.hpp"

namespace strata::device {

using simt::Stream;

// Throws std::invalid_argument for arguments that the kernel cannot take, and std::runtime_error when a launch fails.
// On a CPU the kernel has run when this returns, whatever the stream; on a GPU its addresses are the GPU's to read.
template <class Kernel>
void run(const typename Kernel::Args& args, [[maybe_unused]] Stream stream) {
  if constexpr (target::kBackend == target::Backend::kCpu) {
    simt::run_inline<Kernel>(args);
  } else {
    simt::launch<Kernel>(args, stream);
  }
}

}  // namespace strata::device
