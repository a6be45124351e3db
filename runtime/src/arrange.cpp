#include <algorithm>
#include <stdexcept>
#include <string>

#include "inputs.hpp"
#include "strata/ops.hpp"

namespace strata {

void arrange(Runner& runner, const formats::Info& format, std::size_t rows, std::size_t columns,
             const std::byte* blocks, std::byte* out) {
  constexpr std::size_t kBytesPerClaim = 1 << 18;
  const InterleavedKernels* interleaved = runner.kernels.formats[format.id]->interleaved;
  if (interleaved == nullptr) {
    throw std::invalid_argument("arrange: the kernels of " + std::string(runner.kernels.isa) + " read " +
                                std::string(format.name) + " as it is stored");
  }
  if (interleaved_bytes(format, *interleaved, rows, columns) == 0) return;
  if (blocks == nullptr || out == nullptr) throw std::invalid_argument("arrange: null address of weights");
  const std::size_t row = row_bytes(format, columns);
  const std::size_t count = row / format.bytes;
  const std::size_t group = count * interleaved->block_bytes;
  const std::size_t groups = rows / interleaved->rows;
  Pool::Session session = runner.pool.open();
  session.run(groups, at_least_one(kBytesPerClaim / group), [&](std::size_t begin, std::size_t end) {
    for (std::size_t index = begin; index < end; ++index) {
      interleaved->interleave(blocks + index * interleaved->rows * row, row, count, out + index * group);
    }
  });
  const std::size_t grouped = groups * interleaved->rows;
  std::copy_n(blocks + grouped * row, (rows - grouped) * row, out + groups * group);
}

}  // namespace strata
