#include "strata/device/query.hpp"

#include <stdexcept>

#include "strata/gen/target.hpp"
#include "strata/hip/runtime.hpp"
#include "strata/hip/topology.hpp"

namespace strata::device {
namespace {

using hip::Library;
using hip::require;

// 60342134 is 6.3.
std::string version_text(int version) {
  return std::to_string(version / 10'000'000) + "." + std::to_string(version % 10'000'000 / 100'000);
}

std::string version_of(hip::Code (*ask)(int*)) {
  int version = 0;
  require(ask(&version), "the HIP runtime does not tell its version");
  return version_text(version);
}

int device_count(const Library& hip) {
  int count = 0;
  const hip::Code code = hip.hipGetDeviceCount(&count);
  if (code == hip::kNoDevice || (code == hip::kSuccess && count == 0)) {
    hip.hipGetLastError();
    throw std::runtime_error(
        "the HIP runtime sees no GPU: look at rocminfo, at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, and whether "
        "you may use /dev/kfd (groups render and video)");
  }
  require(code, "the GPUs cannot be counted");
  return count;
}

std::string arch_of(const Library& hip, int number) {
  char id[64] = {};
  require(hip.hipDeviceGetPCIBusId(id, sizeof id, number), "the GPU does not answer");
  return hip::arch_at(id);
}

}  // namespace

GpuFacts query(int number) {
  const Library& hip = hip::library();
  GpuFacts facts{};
  facts.count = device_count(hip);
  if (number < 0 || number >= facts.count) {
    throw std::runtime_error("there is no GPU " + std::to_string(number) + ": numbers are from 0 to " +
                             std::to_string(facts.count - 1));
  }
  facts.driver = version_of(hip.hipDriverGetVersion);
  facts.runtime = version_of(hip.hipRuntimeGetVersion);
  char name[256] = {};
  require(hip.hipDeviceGetName(name, sizeof name, number), "the GPU does not answer");
  facts.name = name;
  facts.arch = arch_of(hip, number);
  if (!facts.arch.empty() && facts.arch != target::kName) {
    throw std::runtime_error(std::string("this package has code for ") + target::kName + ", and the GPU (" +
                             facts.name + ") is " + facts.arch + ": strata-gen build --target hip " + facts.arch);
  }
  int before = 0;
  require(hip.hipGetDevice(&before), "the GPU does not answer");
  require(hip.hipSetDevice(number), "the GPU " + facts.name + " cannot be opened");
  hip::load_all();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  require(hip.hipMemGetInfo(&free_bytes, &total_bytes), "the GPU " + facts.name + " does not tell its memory");
  require(hip.hipSetDevice(before), "the GPU does not answer");
  facts.free_bytes = free_bytes;
  facts.total_bytes = total_bytes;
  return facts;
}

}  // namespace strata::device
