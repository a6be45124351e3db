// Which CPUs this process may use, and how many threads are worth starting.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace strata {

struct UsableCpus {
  std::vector<int> cores;  // one CPU per physical core that the affinity mask allows, ascending
  int cpus = 1;            // CPUs that the mask allows, hyper-threads included
  int quota = 0;           // whole CPUs that the container's CPU quota allows, at least 1; 0: no quota

  // One worker per core, as far as the quota goes.
  int default_workers() const;

  // CPUs that stay free beside `workers` threads; negative when they do not even have one each.
  int spare(int workers) const;
};

// Reads the affinity mask of the process (its main thread's: the calling thread may have been narrowed to one core),
// the topology and the cgroup limits. What cannot be read counts as absent.
UsableCpus usable_cpus();

// The same from given facts; `root` stands for "/" of the file system.
UsableCpus usable_cpus(const std::vector<int>& allowed, const std::filesystem::path& root);

// Best effort: a CPU that was taken away in between is no error.
void pin_this_thread(int cpu) noexcept;

}  // namespace strata
