// The weight formats of this library.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "strata/activation.hpp"

namespace strata::formats {

struct Info {
  std::size_t id;  // index into all()
  std::string_view name;
  std::size_t block;  // values
  std::size_t bytes;  // of a block
  Activation activation;
  bool (*encode)(const float* x, std::byte* block);  // false: the block cannot be stored; null: there is no encoder
  void (*decode)(const std::byte* block, float* out);
};

// In the order of their ids.
std::span<const Info> all();

}  // namespace strata::formats
