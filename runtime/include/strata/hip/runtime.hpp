// The HIP runtime of this process: the one that torch has loaded, or else the system's. Found when it is first needed,
// so that a module for HIP is imported without one, and fits every release of ROCm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace strata::hip {

// What HIP's functions return; the numbers are the same in every release.
using Code = int;
inline constexpr Code kSuccess = 0;
inline constexpr Code kNoDevice = 100;

// The functions that are called. Modules, functions and streams are addresses.
struct Library {
  Code (*hipGetDeviceCount)(int* count);
  Code (*hipGetDevice)(int* device);
  Code (*hipSetDevice)(int device);
  Code (*hipDeviceGetName)(char* name, int length, int device);
  Code (*hipDeviceGetPCIBusId)(char* id, int length, int device);
  Code (*hipMemGetInfo)(std::size_t* free, std::size_t* total);
  Code (*hipDriverGetVersion)(int* version);
  Code (*hipRuntimeGetVersion)(int* version);
  Code (*hipModuleLoadData)(void** module, const void* image);
  Code (*hipModuleGetFunction)(void** function, void* module, const char* name);
  Code (*hipModuleLaunchKernel)(void* function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                                unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
                                void* stream, void** args, void** extra);
  Code (*hipGetLastError)();
  const char* (*hipGetErrorString)(Code code);
  const char* (*hipGetErrorName)(Code code);
};

// Throws std::runtime_error, in one line, when there is no HIP runtime, or one that lacks a function.
const Library& library();

// Throws std::runtime_error with `what` and what HIP says of a code that is not kSuccess.
void require(Code code, const std::string& what);

// A grid of one dimension. `kernel` is the address that clang gives a kernel on the host, `args` the addresses of its
// arguments, `name` what errors call it.
struct Launch {
  const char* name;
  const void* kernel;
  unsigned blocks;
  unsigned threads;
  std::size_t shared_bytes;
  std::uintptr_t stream;
  void** args;
};

// Launches a kernel on the thread's current device, whose code is loaded first where it is not. Throws
// std::runtime_error with HIP's own text.
void launch(const Launch& launch);

// Loads all code of this module for the current device. Throws as `launch` does.
void load_all();

}  // namespace strata::hip
