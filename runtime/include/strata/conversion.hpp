// Matrices of floats to stored blocks and back.
#pragma once

#include <cstddef>

#include "strata/formats.hpp"
#include "strata/pool.hpp"

namespace strata {

// Encodes `rows` x `columns` floats by the format's rule. `pool` shares the work, null leaves it to this thread; the
// bits are the same. Throws std::invalid_argument for a format without a rule, and naming the first block that cannot
// be stored (for a scaled format: one with an infinity, a NaN, or a scale beyond its field).
void quantize(Pool* pool, const formats::Info& format, std::size_t rows, std::size_t columns, const float* x,
              std::byte* out);

// Decodes blocks with the scalar decoder that the format's spec describes.
void dequantize(Pool* pool, const formats::Info& format, std::size_t rows, std::size_t columns, const std::byte* blocks,
                float* out);

}  // namespace strata
