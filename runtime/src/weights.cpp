#include "strata/weights.hpp"

#include <stdexcept>
#include <string>

namespace strata {
namespace {

std::string shape(std::size_t rows, std::size_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

void require_address(const void* address, const char* what) {
  if (address == nullptr) throw std::invalid_argument(std::string(what) + ": null address");
}

// rows * columns and their bytes must be countable before anything is multiplied.
void require_countable(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kMost = std::size_t{1} << 56;
  if (columns != 0 && rows > kMost / columns) {
    throw std::invalid_argument("a matrix of " + shape(rows, columns) + " does not fit into memory");
  }
}

}  // namespace

const formats::Info& format_named(std::string_view name) {
  std::string known;
  for (const formats::Info& format : formats::kAll) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  throw std::invalid_argument("unknown format '" + std::string(name) + "': this package has " + known);
}

std::size_t row_bytes(const formats::Info& format, std::size_t columns) {
  if (columns % format.block != 0) {
    throw std::invalid_argument("a row of " + std::to_string(columns) + " values cannot be stored as " +
                                std::string(format.name) + ": its blocks hold " + std::to_string(format.block) +
                                " values each");
  }
  return columns / format.block * format.bytes;
}

void quantize(const formats::Info& format, std::size_t rows, std::size_t columns, const float* x, std::byte* out) {
  require_countable(rows, columns);
  const std::size_t blocks = row_bytes(format, columns) / format.bytes;
  if (rows * columns == 0) return;
  require_address(x, "values to encode");
  require_address(out, "encoded blocks");
  for (std::size_t block = 0; block < rows * blocks; ++block) {
    if (format.encode(x + block * format.block, out + block * format.bytes)) continue;
    const std::size_t column = block % blocks * format.block;
    throw std::invalid_argument("row " + std::to_string(block / blocks) + ", columns " + std::to_string(column) +
                                " to " + std::to_string(column + format.block - 1) + " cannot be stored as " +
                                std::string(format.name) + ": a value is not finite or too large");
  }
}

void dequantize(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
                float* out) {
  require_countable(rows, columns);
  const std::size_t count = rows * (row_bytes(format, columns) / format.bytes);
  if (count == 0) return;
  require_address(blocks, "blocks to decode");
  require_address(out, "decoded values");
  for (std::size_t block = 0; block < count; ++block) {
    format.decode(blocks + block * format.bytes, out + block * format.block);
  }
}

Matrix::Matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
               std::size_t bytes)
    : format_(&format),
      rows_(rows),
      columns_(columns),
      row_bytes_(strata::row_bytes(format, columns)),
      blocks_(blocks) {
  if (rows == 0 || columns == 0) throw std::invalid_argument("a matrix of " + shape(rows, columns) + " is empty");
  require_countable(rows, columns);
  require_address(blocks, "weights");
  if (bytes != rows * row_bytes_) {
    throw std::invalid_argument("a matrix of " + shape(rows, columns) + " in " + std::string(format.name) + " takes " +
                                std::to_string(rows * row_bytes_) + " bytes, not " + std::to_string(bytes));
  }
}

Experts::Experts(const formats::Info& format, std::size_t hidden_size, std::size_t expert_width,
                 const std::vector<const std::byte*>& gate, const std::vector<const std::byte*>& up,
                 const std::vector<const std::byte*>& down)
    : hidden(hidden_size), width(expert_width) {
  if (gate.empty() || gate.size() != up.size() || gate.size() != down.size()) {
    throw std::invalid_argument("experts need as many gate as up and down matrices, at least one: given " +
                                std::to_string(gate.size()) + ", " + std::to_string(up.size()) + " and " +
                                std::to_string(down.size()));
  }
  require_countable(hidden, width);
  const std::size_t wide = width * strata::row_bytes(format, hidden);
  const std::size_t tall = hidden * strata::row_bytes(format, width);
  all.reserve(gate.size());
  for (std::size_t index = 0; index < gate.size(); ++index) {
    all.push_back({Matrix(format, width, hidden, gate[index], wide), Matrix(format, width, hidden, up[index], wide),
                   Matrix(format, hidden, width, down[index], tall)});
  }
}

}  // namespace strata
