#include <cuda_runtime_api.h>

#include <stdexcept>

#include "strata/device/flag_wait.hpp"
#include "strata/device/query.hpp"
#include "strata/gen/target.hpp"
#include "strata/simt/gpu.hpp"

namespace strata::device {
namespace {

constexpr const char* kNewDriver = "install driver 580 or newer (https://www.nvidia.com/drivers)";

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void require(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

int driver_version() {
  int driver = 0;
  require(cudaDriverGetVersion(&driver), "the NVIDIA driver does not answer");
  if (driver == 0) throw std::runtime_error(std::string("there is no NVIDIA driver (libcuda.so.1): ") + kNewDriver);
  // Any driver of the same major version will do.
  if (driver / 1000 < CUDART_VERSION / 1000) {
    throw std::runtime_error("the NVIDIA driver is too old: it knows CUDA " + version_text(driver) +
                             ", this package needs " + version_text(CUDART_VERSION / 1000 * 1000) + ": " + kNewDriver);
  }
  return driver;
}

int device_count() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    cudaGetLastError();
    throw std::runtime_error("the NVIDIA driver sees no GPU: look at nvidia-smi, and at CUDA_VISIBLE_DEVICES");
  }
  require(error, "the GPUs cannot be counted");
  return count;
}

std::string arch_of(int number) {
  int major = 0;
  int minor = 0;
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number), "the GPU does not answer");
  require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number), "the GPU does not answer");
  return "sm_" + std::to_string(10 * major + minor);
}

void require_code_for(const std::string& name, const std::string& arch) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, simt::entry<FlagWait>);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    throw std::runtime_error(std::string("this package has code for ") + target::kName + ", and the GPU (" + name +
                             ") is " + arch + ": strata-gen build --target cuda " + arch);
  }
  require(error, "the GPU's code cannot be loaded");
}

}  // namespace

GpuFacts query(int number) {
  GpuFacts facts{};
  facts.driver = version_text(driver_version());
  facts.runtime = version_text(CUDART_VERSION);
  facts.count = device_count();
  if (number < 0 || number >= facts.count) {
    throw std::runtime_error("there is no GPU " + std::to_string(number) + ": numbers are from 0 to " +
                             std::to_string(facts.count - 1));
  }
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, number), "the GPU does not answer");
  facts.name = properties.name;
  facts.arch = arch_of(number);
  int before = 0;
  require(cudaGetDevice(&before), "the GPU does not answer");
  require(cudaSetDevice(number), "the GPU " + facts.name + " cannot be opened");
  require_code_for(facts.name, facts.arch);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &total_bytes), "the GPU " + facts.name + " does not tell its memory");
  require(cudaSetDevice(before), "the GPU does not answer");
  facts.free_bytes = free_bytes;
  facts.total_bytes = total_bytes;
  return facts;
}

}  // namespace strata::device
