#include "strata/cpus.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace strata {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<long long> number(const std::string& text) {
  try {
    std::size_t used = 0;
    const long long value = std::stoll(text, &used);
    return used == text.size() ? std::optional(value) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Whole CPUs of `quota` microseconds per `period`; nothing when there is no limit.
std::optional<int> whole_cpus(std::optional<long long> quota, std::optional<long long> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<long long>(*quota / *period, 1, 1 << 20));
}

std::optional<int> quota_v2(const fs::path& folder) {
  const auto line = first_line(folder / "cpu.max");
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  std::string quota;
  std::string period;
  words >> quota >> period;
  return whole_cpus(number(quota), number(period));
}

std::optional<int> quota_v1(const fs::path& folder) {
  const auto quota = first_line(folder / "cpu.cfs_quota_us");
  const auto period = first_line(folder / "cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return whole_cpus(number(*quota), number(*period));
}

// The smallest limit of a group and all groups above it. Inside a container the group's own path may not be visible;
// the mount's top then carries the limit.
template <class Read>
int smallest_quota(const fs::path& mount, const std::string& group, const Read& read) {
  int smallest = 0;
  for (fs::path at = fs::path(group).relative_path();; at = at.parent_path()) {
    if (const auto quota = read(mount / at); quota && (smallest == 0 || *quota < smallest)) smallest = *quota;
    if (at.empty()) return smallest;
  }
}

// One line of /proc/self/cgroup is "id:controllers:path"; version 2 has id 0 and no controllers.
int cpu_quota(const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  int smallest = 0;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    int quota = 0;
    if (controllers.empty()) {
      quota = smallest_quota(mount, path, quota_v2);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      quota = smallest_quota(mount / controllers, path, quota_v1);
      if (quota == 0) quota = smallest_quota(mount / "cpu", path, quota_v1);
    }
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  }
  return smallest;
}

std::vector<int> allowed_cpus() {
  // Masks of big machines do not fit into cpu_set_t: ask with a growing one.
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<std::size_t>(size)),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    if (!mask) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    if (sched_getaffinity(getpid(), bytes, mask.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < size; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  std::vector<int> cpus(static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

}  // namespace

int UsableCpus::default_workers() const {
  const int physical = std::max<int>(1, static_cast<int>(cores.size()));
  return quota > 0 ? std::min(physical, quota) : physical;
}

int UsableCpus::spare(int workers) const { return (quota > 0 ? std::min(cpus, quota) : cpus) - workers; }

UsableCpus usable_cpus(const std::vector<int>& allowed, const fs::path& root) {
  UsableCpus found;
  found.cpus = std::max<int>(1, static_cast<int>(allowed.size()));
  std::set<std::string> seen;
  for (const int cpu : allowed) {
    const fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    const auto siblings = first_line(topology / "thread_siblings_list");
    if (seen.insert(siblings.value_or("cpu" + std::to_string(cpu))).second) found.cores.push_back(cpu);
  }
  found.quota = cpu_quota(root);
  return found;
}

UsableCpus usable_cpus() { return usable_cpus(allowed_cpus(), "/"); }

void pin_this_thread(int cpu) noexcept {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  CPU_SET(cpu, &mask);
  static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof mask, &mask));
}

}  // namespace strata
