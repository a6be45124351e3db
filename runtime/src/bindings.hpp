// Raw addresses and sizes from Python, checked.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace strata {

template <class Type>
Type* pointer(std::uintptr_t address) {
  if (address % alignof(Type) != 0) {
    throw std::invalid_argument("address " + std::to_string(address) + " is not aligned to " +
                                std::to_string(alignof(Type)) + " bytes");
  }
  return reinterpret_cast<Type*>(address);
}

// Adds the submodule `device`.
void bind_device(pybind11::module_& module);

}  // namespace strata
