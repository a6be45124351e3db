// The memory that both halves of a window see: words and blocks, zeroed.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "strata/gen/protocol/signals.hpp"

namespace strata {

class SharedBlocks {
 public:
  explicit SharedBlocks(std::size_t hidden)
      : doorbell_(protocol::DoorbellLayout::of(hidden)),
        rows_(protocol::RowsLayout::of(hidden)),
        words_(place<protocol::Signals>(sizeof(protocol::Signals))),
        doorbell_block_(place<protocol::Doorbell>(doorbell_.bytes)),
        plan_block_(place<protocol::Plan>(sizeof(protocol::Plan))),
        rows_block_(place<protocol::Rows>(rows_.bytes)) {}

  protocol::Signals& signals() const { return *at<protocol::Signals>(words_); }
  protocol::Doorbell& doorbell() const { return *at<protocol::Doorbell>(doorbell_block_); }
  protocol::Plan& plan() const { return *at<protocol::Plan>(plan_block_); }
  float* activations() const { return at<float>(doorbell_block_, doorbell_.activations); }
  float* rows() const { return at<float>(rows_block_, rows_.rows); }
  // All of it, whole pages each.
  std::vector<std::pair<const void*, std::size_t>> memory() const {
    return {{words_.get(), pages(sizeof(protocol::Signals))},
            {doorbell_block_.get(), pages(doorbell_.bytes)},
            {plan_block_.get(), pages(sizeof(protocol::Plan))},
            {rows_block_.get(), pages(rows_.bytes)}};
  }
  protocol::Blocks all() const { return {&doorbell(), &plan(), at<protocol::Rows>(rows_block_)}; }

 private:
  static constexpr std::align_val_t kPage{4096};

  struct Free {
    void operator()(std::byte* memory) const noexcept { operator delete[](memory, kPage); }
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  static constexpr std::size_t pages(std::size_t bytes) {
    constexpr auto page = static_cast<std::size_t>(kPage);
    return (bytes + page - 1) / page * page;
  }

  template <class Type>
  static Memory place(std::size_t bytes) {
    // A page is a device's or not, as a whole.
    Memory memory(new (kPage) std::byte[pages(bytes)]);
    std::memset(memory.get(), 0, pages(bytes));
    new (memory.get()) Type{};
    return memory;
  }

  template <class Type>
  static Type* at(const Memory& memory, std::size_t offset = 0) {
    return std::launder(reinterpret_cast<Type*>(memory.get() + offset));
  }

  protocol::DoorbellLayout doorbell_;
  protocol::RowsLayout rows_;
  Memory words_;
  Memory doorbell_block_;
  Memory plan_block_;
  Memory rows_block_;
};

}  // namespace strata
