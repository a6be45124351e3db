#include "strata/hip/stubs.hpp"

// A second source with a kernel: objects of several are linked.
namespace strata {

__attribute__((global)) void four_times(int* value) { *value *= 4; }

}  // namespace strata
