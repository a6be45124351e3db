#include <exception>
#include <string>

#include "strata/answer.hpp"
#include "strata/hip/runtime.hpp"
#include "strata/hip/stubs.hpp"

namespace strata {

__attribute__((global)) void twice(int* value) { *value = 2 * kAnswer; }

// What went wrong, or what was done.
std::string launch_twice() {
  int* nowhere = nullptr;
  void* args[] = {&nowhere};
  try {
    hip::launch({.name = "twice",
                 .kernel = reinterpret_cast<const void*>(&twice),
                 .blocks = 3,
                 .threads = 32,
                 .shared_bytes = 0,
                 .stream = 0,
                 .args = args});
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "launched";
}

}  // namespace strata
