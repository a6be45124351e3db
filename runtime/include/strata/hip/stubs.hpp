// What clang looks up by name when it compiles kernels of HIP for the host; HIP's own headers declare the same.
#pragma once

#include <cstddef>

#pragma GCC visibility push(hidden)

struct dim3 {
  unsigned x;
  unsigned y;
  unsigned z;
};

enum hipError_t : int {};
using hipStream_t = void*;

extern "C" {

hipError_t hipLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** args, std::size_t shared,
                           hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3* blocks, dim3* threads, std::size_t* shared, hipStream_t* stream);
}

#pragma GCC visibility pop
