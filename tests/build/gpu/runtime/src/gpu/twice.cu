#include <cuda_runtime_api.h>

#include "strata/answer.hpp"

namespace strata {

// Not in a namespace without a name: nvcc would call it by the folder of this file.
__global__ void twice(int* value) { *value = 2 * kAnswer; }

// 35: no driver; 100: no GPU.
int launch_twice() {
  twice<<<1, 1>>>(nullptr);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace strata
