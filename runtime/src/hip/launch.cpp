// Kernels of this module by their address on the host, and their code on each device.
#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/gen/target.hpp"
#include "strata/hip/runtime.hpp"
#include "strata/hip/stubs.hpp"

namespace strata::hip {
namespace {

// One code object of this module; clang writes it.
struct Binary {
  std::uint32_t magic;
  std::uint32_t version;
  const void* code;
  const void* unused;
};

struct Kernel {
  const void* code;
  const char* name;
};

class Kernels {
 public:
  void add(const void* address, const Kernel& kernel) {
    const std::lock_guard held(mutex_);
    kernels_[address] = kernel;
  }

  void forget(const void* code) {
    const std::lock_guard held(mutex_);
    std::erase_if(kernels_, [&](const auto& each) { return each.second.code == code; });
  }

  void* function(int device, const void* address) {
    const std::lock_guard held(mutex_);
    const auto known = functions_.find({device, address});
    if (known != functions_.end()) return known->second;
    const auto kernel = kernels_.find(address);
    if (kernel == kernels_.end()) throw std::logic_error("this module has no kernel of that address");
    return load(device, address, kernel->second);
  }

  void load_all(int device) {
    const std::lock_guard held(mutex_);
    for (const auto& [address, kernel] : kernels_) {
      if (!functions_.contains({device, address})) load(device, address, kernel);
    }
  }

 private:
  using OnDevice = std::map<std::pair<int, const void*>, void*>;

  void* load(int device, const void* address, const Kernel& kernel) {
    void* function = nullptr;
    require(library().hipModuleGetFunction(&function, module(device, kernel.code), kernel.name),
            std::string("the GPU's code has no kernel ") + kernel.name);
    functions_[{device, address}] = function;
    return function;
  }

  void* module(int device, const void* code) {
    const auto known = modules_.find({device, code});
    if (known != modules_.end()) return known->second;
    void* module = nullptr;
    require(library().hipModuleLoadData(&module, code),
            std::string("this package has code for ") + target::kName + ", which the GPU does not take");
    modules_[{device, code}] = module;
    return module;
  }

  std::mutex mutex_;
  std::unordered_map<const void*, Kernel> kernels_;
  OnDevice modules_;    // by code
  OnDevice functions_;  // by address
};

// Constructors of this module's objects fill it when the module is loaded: the language knows no other way.
Kernels& kernels() {
  static Kernels all;
  return all;
}

int current_device() {
  int device = 0;
  require(library().hipGetDevice(&device), "the HIP runtime has no current GPU");
  return device;
}

}  // namespace

void launch(const Launch& launch) {
  void* function = kernels().function(current_device(), launch.kernel);
  require(library().hipModuleLaunchKernel(function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                          static_cast<unsigned>(launch.shared_bytes),
                                          reinterpret_cast<void*>(launch.stream), launch.args, nullptr),
          std::string(launch.name) + ": the launch failed");
}

void load_all() { kernels().load_all(current_device()); }

}  // namespace strata::hip

#pragma GCC visibility push(hidden)

// Called by constructors and destructors that clang writes. A handle is the address of where the code's is.
extern "C" {

void** __hipRegisterFatBinary(strata::hip::Binary* binary) {
  return const_cast<void**>(reinterpret_cast<const void* const*>(&binary->code));
}

void __hipRegisterFunction(void** handle, const void* address, char*, const char* name, unsigned, void*, void*, void*,
                           void*, int*) {
  strata::hip::kernels().add(address, {*handle, name});
}

// The process ends: the HIP runtime has its own order of doing that.
void __hipUnregisterFatBinary(void** handle) { strata::hip::kernels().forget(*handle); }

// What a kernel's stub calls. Stubs are there for their addresses, and nothing calls one.
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, std::size_t, hipStream_t) { std::terminate(); }
hipError_t __hipPopCallConfiguration(dim3*, dim3*, std::size_t*, hipStream_t*) { std::terminate(); }
}

#pragma GCC visibility pop
