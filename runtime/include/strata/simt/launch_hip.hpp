// Launches through the HIP runtime, for .cu files.
#pragma once

#include "strata/hip/runtime.hpp"
#include "strata/simt/fitting.hpp"
#include "strata/simt/gpu.hpp"
#include "strata/simt/launch.hpp"

namespace strata::simt {

template <class Kernel>
void launch(const typename Kernel::Args& args, Stream stream) {
  require_fitting<Kernel>(args);
  const int blocks = Kernel::blocks(args);
  if (blocks <= 0) return;
  typename Kernel::Args copy = args;
  void* addresses[] = {&copy};
  hip::launch({.name = Kernel::Launch::kKernel,
               .kernel = reinterpret_cast<const void*>(&entry<Kernel>),
               .blocks = static_cast<unsigned>(blocks),
               .threads = static_cast<unsigned>(Kernel::Launch::threads(kGpuWave)),
               .shared_bytes = kDynamicShared<Kernel>,
               .stream = stream,
               .args = addresses});
}

}  // namespace strata::simt
