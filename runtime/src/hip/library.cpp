#include <dlfcn.h>
#include <link.h>

#include <stdexcept>
#include <string_view>

#include "strata/hip/runtime.hpp"

namespace strata::hip {
namespace {

constexpr std::string_view kName = "libamdhip64.so";
constexpr const char* kReleases[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

// Wheels may have given the library's name a suffix: libamdhip64-1a2b3c4d.so.6.
bool is_hip(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::string_view stem = kName.substr(0, kName.find('.'));
  return name.starts_with(stem) && name.size() > stem.size() && (name[stem.size()] == '.' || name[stem.size()] == '-');
}

std::string loaded_path() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* path) {
        if (info->dlpi_name == nullptr || !is_hip(info->dlpi_name)) return 0;
        *static_cast<std::string*>(path) = info->dlpi_name;
        return 1;
      },
      &found);
  return found;
}

void* open_library() {
  if (const std::string path = loaded_path(); !path.empty()) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) return handle;
  }
  std::string problem;
  for (const char* name : kReleases) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    const std::string said = dlerror();
    if (said.find("No such file") == std::string::npos && problem.empty()) problem = ": " + said;
  }
  throw std::runtime_error("there is no HIP runtime that can be loaded (libamdhip64.so, release 5, 6 or 7)" + problem +
                           ": install a torch that was made for ROCm (https://pytorch.org/get-started), or ROCm");
}

template <class Function>
void look_up(void* handle, const char* name, Function& function) {
  void* found = dlsym(handle, name);
  if (found == nullptr) {
    Dl_info info{};
    const bool is_known = dladdr(dlsym(handle, "hipGetDeviceCount"), &info) != 0 && info.dli_fname != nullptr;
    throw std::runtime_error("the HIP runtime " + std::string(is_known ? info.dli_fname : kName) + " has no " + name +
                             ": install ROCm 5 or newer");
  }
  function = reinterpret_cast<Function>(found);
}

Library load() {
  void* handle = open_library();
  Library hip{};
  look_up(handle, "hipGetDeviceCount", hip.hipGetDeviceCount);
  look_up(handle, "hipGetDevice", hip.hipGetDevice);
  look_up(handle, "hipSetDevice", hip.hipSetDevice);
  look_up(handle, "hipDeviceGetName", hip.hipDeviceGetName);
  look_up(handle, "hipDeviceGetPCIBusId", hip.hipDeviceGetPCIBusId);
  look_up(handle, "hipMemGetInfo", hip.hipMemGetInfo);
  look_up(handle, "hipDriverGetVersion", hip.hipDriverGetVersion);
  look_up(handle, "hipRuntimeGetVersion", hip.hipRuntimeGetVersion);
  look_up(handle, "hipModuleLoadData", hip.hipModuleLoadData);
  look_up(handle, "hipModuleGetFunction", hip.hipModuleGetFunction);
  look_up(handle, "hipModuleLaunchKernel", hip.hipModuleLaunchKernel);
  look_up(handle, "hipGetLastError", hip.hipGetLastError);
  look_up(handle, "hipGetErrorString", hip.hipGetErrorString);
  look_up(handle, "hipGetErrorName", hip.hipGetErrorName);
  return hip;
}

}  // namespace

const Library& library() {
  static const Library found = load();
  return found;
}

void require(Code code, const std::string& what) {
  if (code == kSuccess) return;
  const Library& hip = library();
  hip.hipGetLastError();  // so that nobody takes it for an error of a later call
  throw std::runtime_error(what + ": " + hip.hipGetErrorString(code) + " (" + hip.hipGetErrorName(code) + ")");
}

}  // namespace strata::hip
