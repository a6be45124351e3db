// The GPU that a package's kernels run on, as its driver tells it.
#pragma once

#include <cstdint>
#include <string>

namespace strata::device {

// `count` is how many GPUs the process sees; the rest is of one of them. Versions are of CUDA, such as 13.0: the newest
// that the driver knows, and the one that this module was made with; or of HIP, such as 6.3, both of its runtime.
struct GpuFacts {
  int count;
  std::string name;
  std::string arch;
  std::uint64_t free_bytes;
  std::uint64_t total_bytes;
  std::string driver;
  std::string runtime;
};

// Opens the GPU of this number for the process. Throws std::runtime_error, in one line: no driver, one that is too old,
// no GPU, none of this number, or one that has no code in this package.
GpuFacts query(int number);

}  // namespace strata::device
