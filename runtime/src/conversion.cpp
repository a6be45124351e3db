#include "strata/conversion.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "strata/weights.hpp"

namespace strata {
namespace {

// Calls body(begin, end) for ranges of blocks that cover [0, count) once.
template <class Body>
void over_blocks(Pool* pool, const formats::Info& format, std::size_t count, const Body& body) {
  constexpr std::size_t kValuesPerClaim = 1 << 14;
  if (pool == nullptr) {
    body(0, count);
  } else {
    pool->open().run(count, std::max<std::size_t>(1, kValuesPerClaim / format.block), body);
  }
}

void lower(std::atomic<std::size_t>& least, std::size_t value) {
  std::size_t seen = least.load();
  while (value < seen && !least.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

void quantize(Pool* pool, const formats::Info& format, std::size_t rows, std::size_t columns, const float* x,
              std::byte* out) {
  if (format.encode == nullptr) {
    throw std::invalid_argument("values cannot be encoded as " + std::string(format.name) + ": it is only read");
  }
  require_countable(rows, columns);
  const std::size_t blocks = row_bytes(format, columns) / format.bytes;
  const std::size_t count = rows * blocks;
  if (count == 0) return;
  require_address(x, "values to encode");
  require_address(out, "encoded blocks");
  std::atomic<std::size_t> first_bad{count};
  over_blocks(pool, format, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) {
      if (format.encode(x + block * format.block, out + block * format.bytes)) continue;
      return lower(first_bad, block);
    }
  });
  const std::size_t bad = first_bad.load();
  if (bad == count) return;
  const std::size_t column = bad % blocks * format.block;
  throw std::invalid_argument("row " + std::to_string(bad / blocks) + ", columns " + std::to_string(column) + " to " +
                              std::to_string(column + format.block - 1) + " cannot be stored as " +
                              std::string(format.name) + ": a value is not finite or too large");
}

void dequantize(Pool* pool, const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
                float* out) {
  require_countable(rows, columns);
  const std::size_t count = rows * (row_bytes(format, columns) / format.bytes);
  if (count == 0) return;
  require_address(blocks, "blocks to decode");
  require_address(out, "decoded values");
  over_blocks(pool, format, count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block) {
      format.decode(blocks + block * format.bytes, out + block * format.block);
    }
  });
}

}  // namespace strata
