#include <atomic>
#include <stdexcept>

#include "strata/ops.hpp"

namespace strata {

std::uint64_t checksum(Runner& runner, const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kWordsPerClaim = 1 << 15;
  if (bytes == 0) return 0;
  if (data == nullptr) throw std::invalid_argument("checksum: null address");
  std::atomic<std::uint64_t> total{0};
  Pool::Session session = runner.pool.open();
  session.run(bytes / sizeof(std::uint64_t), kWordsPerClaim, [&](std::size_t begin, std::size_t end) {
    std::uint64_t part;
    runner.kernels.xor_words(data + begin * sizeof(std::uint64_t), end - begin, &part);
    total.fetch_xor(part, std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

}  // namespace strata
