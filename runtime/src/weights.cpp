#include "strata/weights.hpp"

#include <stdexcept>
#include <string>

namespace strata {
namespace {

std::string shape(std::size_t rows, std::size_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

}  // namespace

void require_address(const void* address, const char* what) {
  if (address == nullptr) throw std::invalid_argument(std::string(what) + ": null address");
}

void require_countable(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kMost = std::size_t{1} << 56;
  if (columns != 0 && rows > kMost / columns) {
    throw std::invalid_argument("a matrix of " + shape(rows, columns) + " does not fit into memory");
  }
}

const formats::Info& format_named(std::string_view name) {
  std::string known;
  for (const formats::Info& format : formats::all()) {
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

std::size_t interleaved_bytes(const formats::Info& format, const InterleavedKernels& interleaved, std::size_t rows,
                              std::size_t columns) {
  require_countable(rows, columns);
  const std::size_t row = row_bytes(format, columns);
  const std::size_t groups = rows / interleaved.rows;
  return groups * (row / format.bytes * interleaved.block_bytes) + rows % interleaved.rows * row;
}

Matrix::Matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
               std::size_t bytes, float scale, const InterleavedKernels* interleaved)
    : format_(&format),
      rows_(rows),
      columns_(columns),
      row_bytes_(strata::row_bytes(format, columns)),
      blocks_(blocks),
      scale_(scale),
      interleaved_(interleaved),
      group_bytes_(interleaved == nullptr ? 0 : row_bytes_ / format.bytes * interleaved->block_bytes),
      grouped_rows_(interleaved == nullptr ? 0 : rows / interleaved->rows * interleaved->rows),
      single_rows_(interleaved == nullptr ? blocks : blocks + grouped_rows_ / interleaved->rows * group_bytes_) {
  if (rows == 0 || columns == 0) throw std::invalid_argument("a matrix of " + shape(rows, columns) + " is empty");
  require_countable(rows, columns);
  require_address(blocks, "weights");
  const std::size_t needed =
      interleaved == nullptr ? rows * row_bytes_ : interleaved_bytes(format, *interleaved, rows, columns);
  if (bytes != needed) {
    throw std::invalid_argument("a matrix of " + shape(rows, columns) + " in " + std::string(format.name) + " takes " +
                                std::to_string(needed) + " bytes, not " + std::to_string(bytes));
  }
}

Experts::Experts(std::size_t hidden_size, std::size_t expert_width, const ExpertPart& gate, const ExpertPart& up,
                 const ExpertPart& down)
    : hidden(hidden_size), width(expert_width) {
  const std::size_t count = gate.blocks.size();
  if (count == 0 || count != up.blocks.size() || count != down.blocks.size()) {
    throw std::invalid_argument("experts need as many gate as up and down matrices, at least one: given " +
                                std::to_string(count) + ", " + std::to_string(up.blocks.size()) + " and " +
                                std::to_string(down.blocks.size()));
  }
  for (const ExpertPart* part : {&gate, &up, &down}) {
    if (!part->scales.empty() && part->scales.size() != count) {
      throw std::invalid_argument("experts: " + std::to_string(part->scales.size()) + " scales for " +
                                  std::to_string(count) + " matrices");
    }
  }
  require_countable(hidden, width);
  const auto matrix = [](const ExpertPart& part, std::size_t rows, std::size_t columns, std::size_t index) {
    const std::size_t bytes = part.interleaved == nullptr
                                  ? rows * strata::row_bytes(part.format, columns)
                                  : interleaved_bytes(part.format, *part.interleaved, rows, columns);
    return Matrix(part.format, rows, columns, part.blocks[index], bytes,
                  part.scales.empty() ? 1.0f : part.scales[index], part.interleaved);
  };
  all.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    all.push_back(
        {matrix(gate, width, hidden, index), matrix(up, width, hidden, index), matrix(down, hidden, width, index)});
  }
}

}  // namespace strata
