#include "strata/hip/topology.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>

namespace strata::hip {
namespace {

using Properties = std::map<std::string, std::uint64_t>;

Properties read(const std::filesystem::path& path) {
  Properties found;
  std::ifstream file(path);
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) found[name] = value;
  return found;
}

// 110501 is 11.5.1, and that gfx1151; 90010 is gfx90a.
std::string arch_of(std::uint64_t version) {
  char text[32];
  std::snprintf(text, sizeof text, "gfx%u%x%x", static_cast<unsigned>(version / 10000),
                static_cast<unsigned>(version / 100 % 100), static_cast<unsigned>(version % 100));
  return text;
}

}  // namespace

std::string arch_at(const std::string& bus_id, const std::filesystem::path& topology) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  if (std::sscanf(bus_id.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return "";
  std::error_code missing;
  for (const auto& node : std::filesystem::directory_iterator(topology, missing)) {
    Properties properties = read(node.path() / "properties");
    const bool is_there =
        properties["domain"] == domain && properties["location_id"] == (bus << 8 | device << 3 | function);
    if (is_there && properties["gfx_target_version"] != 0) return arch_of(properties["gfx_target_version"]);
  }
  return "";
}

}  // namespace strata::hip
