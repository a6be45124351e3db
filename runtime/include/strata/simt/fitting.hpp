// Arguments that a kernel cannot take.
#pragma once

#include <stdexcept>
#include <string>

namespace strata::simt {

// Throws std::invalid_argument for arguments that a kernel cannot take.
template <class Kernel>
void require_fitting(const typename Kernel::Args& args) {
  const char* refusal = Kernel::refusal(args);
  if (refusal != nullptr) throw std::invalid_argument(std::string(Kernel::Launch::kKernel) + ": " + refusal);
}

}  // namespace strata::simt
