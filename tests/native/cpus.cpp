// Prints what the pool makes of a machine: cpus ROOT CPU... -> "cores=0,2 cpus=4 quota=2 workers=2 spare=0".
#include "strata/cpus.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int count, char** arguments) {
  if (count < 3) return 2;
  std::vector<int> allowed;
  for (int i = 2; i < count; ++i) allowed.push_back(std::atoi(arguments[i]));
  const strata::UsableCpus found = strata::usable_cpus(allowed, arguments[1]);
  std::string cores;
  for (const int core : found.cores) cores += (cores.empty() ? "" : ",") + std::to_string(core);
  std::printf("cores=%s cpus=%d quota=%d workers=%d spare=%d\n", cores.c_str(), found.cpus, found.quota,
              found.default_workers(), found.spare(found.default_workers()));
  return 0;
}
