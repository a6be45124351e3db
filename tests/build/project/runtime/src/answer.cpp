#include "strata/answer.hpp"

namespace strata {

int answer() { return kAnswer; }

}  // namespace strata
