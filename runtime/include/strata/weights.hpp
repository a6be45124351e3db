// Weights as they lie in memory: stored blocks that somebody else owns.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "strata/formats.hpp"
#include "strata/kernels/format_kernels.hpp"

namespace strata {

// Throws std::invalid_argument when rows * columns and their bytes cannot be counted: before anything is multiplied.
void require_countable(std::size_t rows, std::size_t columns);

// Throws std::invalid_argument saying `what` has no address.
void require_address(const void* address, const char* what);

// Bytes of a row of `columns` values. Throws std::invalid_argument naming the format's block when it does not divide.
std::size_t row_bytes(const formats::Info& format, std::size_t columns);

// The format `name`. Throws std::invalid_argument listing the known ones.
const formats::Info& format_named(std::string_view name);

// Bytes of a matrix whose rows stand side by side in groups; those that fill no group follow as they are stored.
std::size_t interleaved_bytes(const formats::Info& format, const InterleavedKernels& interleaved, std::size_t rows,
                              std::size_t columns);

// Weight of a linear layer: `rows` output features of `columns` inputs each. Its products are multiplied by `scale`.
// Rows lie one after the other as they are stored, or, where `interleaved` is given, side by side in groups.
class Matrix {
 public:
  // Throws std::invalid_argument for no rows or columns, a null address, or a size that is not that of the rows.
  Matrix(const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks, std::size_t bytes,
         float scale = 1.0f, const InterleavedKernels* interleaved = nullptr);

  const formats::Info& format() const noexcept { return *format_; }
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  const InterleavedKernels* interleaved() const noexcept { return interleaved_; }

  // Rows before this one stand side by side; the others follow one after the other.
  std::size_t grouped_rows() const noexcept { return grouped_rows_; }
  std::size_t group_bytes() const noexcept { return group_bytes_; }

  // The group that begins with row `index`, a multiple of the rows of a group and less than grouped_rows().
  const std::byte* group(std::size_t index) const noexcept {
    return blocks_ + index / interleaved_->rows * group_bytes_;
  }

  // Row `index`, at least grouped_rows().
  const std::byte* row(std::size_t index) const noexcept { return single_rows_ + (index - grouped_rows_) * row_bytes_; }

  // Multiplies `count` of its products by `scale`.
  void apply_scale(float* products, std::size_t count) const noexcept {
    if (scale_ == 1.0f) return;
    for (std::size_t i = 0; i < count; ++i) products[i] *= scale_;
  }

 private:
  const formats::Info* format_;
  std::size_t rows_;
  std::size_t columns_;
  std::size_t row_bytes_;
  const std::byte* blocks_;
  float scale_;
  const InterleavedKernels* interleaved_;
  std::size_t group_bytes_;
  std::size_t grouped_rows_;
  const std::byte* single_rows_;
};

// One of the three matrices of every expert: their blocks, all in one format and one layout, and a scale for each
// unless `scales` is empty.
struct ExpertPart {
  const formats::Info& format;
  std::vector<const std::byte*> blocks;
  std::vector<float> scales;
  const InterleavedKernels* interleaved = nullptr;
};

// Routed experts of one layer.
struct Experts {
  // Throws std::invalid_argument for unequal or zero numbers of matrices or scales, null addresses, or sizes that
  // blocks do not divide.
  Experts(std::size_t hidden, std::size_t width, const ExpertPart& gate, const ExpertPart& up, const ExpertPart& down);

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
