// What the files of the Python module share.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "strata/ops.hpp"

namespace py = pybind11;

namespace strata {

template <class Type>
Type* pointer(std::uintptr_t address) {
  if (address % alignof(Type) != 0) {
    throw std::invalid_argument("address " + std::to_string(address) + " is not aligned to " +
                                std::to_string(alignof(Type)) + " bytes");
  }
  return reinterpret_cast<Type*>(address);
}

inline std::size_t size(std::int64_t value, const char* name) {
  // Products of two such sizes stay countable.
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (value < 0 || value > kMost) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + ": must be from 0 to " +
                                std::to_string(kMost));
  }
  return static_cast<std::size_t>(value);
}

// Weights keep the Python object alive that owns their memory.
struct OwnedExperts {
  Experts experts;
  py::object owner;
};

// Names and texts of knobs.
using KnobTexts = std::vector<std::pair<std::string, std::string>>;

// The classes and functions of a window's host half.
void bind_hybrid(py::module_& module);

// Adds the submodule `device`.
void bind_device(py::module_& module);

// Adds the kernels between the products of a layer to it.
void bind_device_layers(py::module_& device);

// Adds to it products with the weights of a model, and what they take.
void bind_device_linear(py::module_& device);

// Adds micro-kernels by name.
void bind_kernels(pybind11::module_& module);

}  // namespace strata
