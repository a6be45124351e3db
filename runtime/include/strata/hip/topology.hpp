// AMD GPUs as the kernel's driver lists them, which takes no library.
#pragma once

#include <filesystem>
#include <string>

namespace strata::hip {

inline constexpr const char* kTopology = "/sys/class/kfd/kfd/topology/nodes";

// The architecture, such as gfx1151, of the GPU at a PCI bus id, such as 0000:c1:00.0; empty where the driver lists
// none.
std::string arch_at(const std::string& bus_id, const std::filesystem::path& topology = kTopology);

}  // namespace strata::hip
