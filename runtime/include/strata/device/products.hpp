// Products of the rows of device matrices, whatever their format, job by job into a block's shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "strata/activation.hpp"
#include "strata/device/float_products.hpp"
#include "strata/device/group_products.hpp"
#include "strata/simt/team.hpp"

namespace strata::device {

template <class Format>
inline constexpr bool kIsQuantized = Format::kActivation != Activation::kFloat;

// Formats of floats, and those that have a compute layout.
template <class Format>
inline constexpr bool kHasDeviceForm =
    !kIsQuantized<Format> || requires { Format::template Interleaved<kGroupRows>::kBytes; };

template <class Format>
using ProductsOf = typename std::conditional_t<kIsQuantized<Format>, std::type_identity<GroupProducts<Format>>,
                                               std::type_identity<FloatProducts<Format>>>::type;

// A tile of up to `Rows` rows of `Matrices` matrices, with the sums of its jobs.
template <class Format, int Rows, int Matrices = 1>
struct Tile {
  using Products = ProductsOf<Format>;
  using Inputs = typename Products::Inputs;

  static constexpr int kParts = Rows / Products::kRows;
  static constexpr int kTokens = Products::kTokens;
  static_assert(Rows % Products::kRows == 0 && Matrices <= 2);

  typename Products::JobSums sums[Matrices][kParts * kMaxSlices];

  // Where rows of a tile are: `weights` of its first row, and how many rows there are from there on.
  struct Place {
    const std::byte* weights[Matrices];
    int rows;

    STRATA_INLINE const std::byte* of(int matrix) const { return matrix == 0 ? weights[0] : weights[Matrices - 1]; }
  };

  // Makes the sums of all jobs; a barrier has to follow.
  template <simt::Simt S>
  STRATA_INLINE void multiply(const S& simt, const Place& place, const Inputs& inputs, const PassRows& rows) {
    const int columns = static_cast<int>(inputs.columns);
    const int bits = slice_bits(columns);
    const int parts = ((place.rows < Rows ? place.rows : Rows) + Products::kRows - 1) / Products::kRows;
    const int of_matrix = parts << bits;
    const int jobs = Matrices * of_matrix;
    simt::for_team(simt, jobs, [&](int number, bool is_there) STRATA_LAMBDA {
      if (number + simt::teams(simt) < jobs) prefetch(simt, place, columns, number + simt::teams(simt));
      const int matrix = Matrices == 2 && number >= of_matrix ? 1 : 0;
      const int part = (number - matrix * of_matrix) >> bits;
      const int rest = place.rows - part * Products::kRows;
      const typename Products::Job job{
          .weights = place.of(matrix) + part * Products::bytes(columns),
          .inputs = inputs,
          .rows = rows,
          .slice = number & ((1 << bits) - 1),
          .slices = 1 << bits,
          .valid = rest < Products::kRows ? rest : Products::kRows,
          .is_there = is_there,
      };
      Products::run(simt, job, sums[matrix][number - matrix * of_matrix]);
    });
  }

  // Fetches what job `number` begins with.
  template <simt::Simt S>
  STRATA_INLINE static void prefetch(const S& simt, const Place& place, int columns, int number) {
    const int bits = slice_bits(columns);
    const int parts = ((place.rows < Rows ? place.rows : Rows) + Products::kRows - 1) / Products::kRows;
    const int matrix = Matrices == 2 && number >= parts << bits ? 1 : 0;
    const int part = (number - matrix * (parts << bits)) >> bits;
    const std::byte* weights = place.of(matrix) + part * Products::bytes(columns);
    Products::prefetch(simt, weights, columns, number & ((1 << bits) - 1));
  }

  // The product of one row of the tile with the input of a token of the pass.
  STRATA_INLINE float product(int row, int token, int columns, int matrix = 0) const {
    const int slices = 1 << slice_bits(columns);
    const int first = row / Products::kRows * slices;
    float sum = sums[matrix][first][token][row % Products::kRows];
    for (int slice = 1; slice < slices; ++slice) sum += sums[matrix][first + slice][token][row % Products::kRows];
    return sum;
  }
};

// Bytes of a device matrix: groups of quantised rows, the last one filled up with zeros; rows of floats as stored.
template <class Format>
STRATA_INLINE std::int64_t matrix_bytes(std::int64_t rows, int columns) {
  using Products = ProductsOf<Format>;
  if constexpr (kIsQuantized<Format>) {
    return (rows + kGroupRows - 1) / kGroupRows * Products::bytes(columns);
  } else {
    return rows * (Products::bytes(columns) / Products::kRows);
  }
}

// Bytes before row `row`, the first of a group.
template <class Format>
STRATA_INLINE std::int64_t row_offset(int row, int columns) {
  using Products = ProductsOf<Format>;
  return row / Products::kRows * Products::bytes(columns);
}

// The inputs of a format's products: `q` of quantised ones, else `x`; [rows, columns].
template <class Format>
STRATA_INLINE typename ProductsOf<Format>::Inputs inputs_of(const float* x, const std::byte* q, std::int64_t rows,
                                                            int columns) {
  if constexpr (kIsQuantized<Format>) {
    return QuantizedRows::at(q, rows, columns);
  } else {
    return {x, columns};
  }
}

// Why inputs do not fit; null when they do.
template <class Format>
const char* inputs_refusal(const float* x, const std::byte* q, int columns) {
  if (columns % static_cast<int>(Format::kBlock) != 0) return "blocks of the format do not divide the columns";
  if constexpr (kIsQuantized<Format>) {
    return q == nullptr ? "a null address of quantised inputs" : QuantizedRows::refusal(q, columns);
  } else {
    return x == nullptr ? "a null address of inputs" : nullptr;
  }
}

}  // namespace strata::device
