// Memory that grows and is kept for the next call.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace strata {

class Workspace {
 public:
  static constexpr std::size_t kAlignment = 64;

  // At least `bytes` bytes, aligned to 64. Earlier contents and addresses are gone when it grows.
  std::byte* reserve(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment})));
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* at) const noexcept { ::operator delete(at, std::align_val_t{kAlignment}); }
  };

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace strata
