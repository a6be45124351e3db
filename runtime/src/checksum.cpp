#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "strata/ops.hpp"

namespace strata {
namespace {

std::uint64_t xor_words(const std::byte* data, std::size_t words) {
  constexpr std::size_t kLineBytes = 64;
  constexpr std::size_t kPrefetchBytes = 8192;
  constexpr std::size_t kLanes = 32;  // enough sums at once to keep several cache lines in flight
  std::array<std::uint64_t, kLanes> sums{};
  std::array<std::uint64_t, kLanes> next;
  std::size_t word = 0;
  for (; word + kLanes <= words; word += kLanes) {
    const std::byte* ahead = data + word * sizeof(std::uint64_t) + kPrefetchBytes;
    for (std::size_t line = 0; line < sizeof next; line += kLineBytes) __builtin_prefetch(ahead + line, 0, 2);
    std::memcpy(next.data(), data + word * sizeof(std::uint64_t), sizeof next);
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] ^= next[i];
  }
  for (; word < words; ++word) {
    std::memcpy(next.data(), data + word * sizeof(std::uint64_t), sizeof(std::uint64_t));
    sums[0] ^= next[0];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total ^= sum;
  return total;
}

}  // namespace

std::uint64_t checksum(Runner& runner, const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kWordsPerClaim = 1 << 15;
  if (bytes == 0) return 0;
  if (data == nullptr) throw std::invalid_argument("checksum: null address");
  std::atomic<std::uint64_t> total{0};
  Pool::Session session = runner.pool.open();
  session.run(bytes / sizeof(std::uint64_t), kWordsPerClaim, [&](std::size_t begin, std::size_t end) {
    const std::uint64_t part = xor_words(data + begin * sizeof(std::uint64_t), end - begin);
    total.fetch_xor(part, std::memory_order_relaxed);
  });
  return total.load(std::memory_order_relaxed);
}

}  // namespace strata
