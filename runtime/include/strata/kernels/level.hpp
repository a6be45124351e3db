// The kernels of one instruction set as a table of plain addresses: reading it runs none of them. Every kernel in it
// has a spec of its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "strata/cpu_features.hpp"
#include "strata/kernels/attention.hpp"
#include "strata/kernels/format_kernels.hpp"

namespace strata {

// Quantises blocks of one input vector from block `first` on.
using Quantize =
    Named<void(const float* x, std::size_t first, std::size_t blocks, std::size_t columns, std::byte* row)>;

using SiluMultiply = Named<void(float* gate, const float* up, std::size_t count)>;

using AttendSpanKernel = Named<void(const AttendSpanArgs& args)>;

using XorWords = Named<void(const std::byte* data, std::size_t words, std::uint64_t* result)>;

struct LevelKernels {
  const char* name;
  const char* isa;
  CpuFeatures needs;
  AttendSpanKernel attend_span;
  Quantize quantize_input_int8;
  Quantize quantize_input_int8_256;
  SiluMultiply silu_multiply;
  XorWords xor_words;
  const FormatKernels* const* formats;  // indexed by formats::Info::id
};

// Levels in the library, weakest first.
std::span<const LevelKernels* const> all_levels();

// The strongest level that this CPU can run. Throws std::runtime_error naming what is missing when there is none.
const LevelKernels& best_level();

// The level of an instruction set by its name. Throws std::invalid_argument when it is not in the library or this CPU
// cannot run it.
const LevelKernels& level_named(std::string_view isa);

// Whether this CPU has all that a level needs.
bool runs_here(const LevelKernels& level);

}  // namespace strata
