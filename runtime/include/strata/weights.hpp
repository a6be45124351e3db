// Weights as they lie in memory: stored blocks that somebody else owns.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "strata/gen/formats.hpp"

namespace strata {

// Bytes of a row of `columns` values. Throws std::invalid_argument naming the format's block when it does not divide.
std::size_t row_bytes(const formats::Info& format, std::size_t columns);

// The format `name`. Throws std::invalid_argument listing the known ones.
const formats::Info& format_named(std::string_view name);

// Encodes `rows` x `columns` floats by the format's rule. Throws std::invalid_argument naming the first block that
// cannot be stored (for a scaled format: one with an infinity, a NaN, or a scale beyond its field).
void quantize(const formats::Info& format, std::size_t rows, std::size_t columns, const float* x, std::byte* out);

// Decodes blocks with the scalar decoder that the format's spec describes.
void dequantize(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
                float* out);

// Weight of a linear layer: `rows` output features of `columns` inputs each.
class Matrix {
 public:
  // Throws std::invalid_argument for no rows or columns, a null address, or a size that is not rows * bytes per row.
  Matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
         std::size_t bytes);

  const formats::Info& format() const noexcept { return *format_; }
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  const std::byte* row(std::size_t index) const noexcept { return blocks_ + index * row_bytes_; }

 private:
  const formats::Info* format_;
  std::size_t rows_;
  std::size_t columns_;
  std::size_t row_bytes_;
  const std::byte* blocks_;
};

// Routed experts of one layer.
struct Experts {
  // Throws std::invalid_argument for unequal or zero numbers of matrices, null addresses, or sizes that blocks do not
  // divide.
  Experts(const formats::Info& format, std::size_t hidden, std::size_t width, const std::vector<const std::byte*>& gate,
          const std::vector<const std::byte*>& up, const std::vector<const std::byte*>& down);

  struct Expert {
    Matrix gate;  // width x hidden
    Matrix up;    // width x hidden
    Matrix down;  // hidden x width
  };

  std::size_t hidden;
  std::size_t width;
  std::vector<Expert> all;
};

}  // namespace strata
