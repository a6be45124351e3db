// Rows of a stored table, as floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/activation.hpp"
#include "strata/gen/launches.hpp"
#include "strata/inline.hpp"
#include "strata/scalar.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// EmbedRows without what depends on the format.
struct EmbedRowsCommon {
  using Launch = gen::EmbedRowsLaunch;

  struct Args {
    const std::byte* table;   // [vocabulary, columns]
    const std::int32_t* ids;  // [tokens]
    float* out;               // [tokens, columns]
    int tokens;
    int columns;
  };
};

// An id below 0 gives a row of zeros.
template <class Format>
struct EmbedRows : EmbedRowsCommon {
  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.tokens < 0 || args.columns < 1) return "tokens or columns out of range";
    if (args.tokens > 0 && !(args.table && args.ids && args.out)) return "a null address";
    if (args.columns % static_cast<int>(Format::kBlock) != 0) return "blocks do not divide columns";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens, args.columns); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const int tiles = Launch::blocks(1, args.columns);
    const int token = simt.block() / tiles;
    const std::int32_t id = args.ids[token];
    constexpr auto kBlock = static_cast<std::int64_t>(Format::kBlock);
    const std::byte* row = args.table + id * (args.columns / kBlock * static_cast<std::int64_t>(Format::kBytes));
    float* out = args.out + static_cast<std::int64_t>(token) * args.columns;
    const int first = simt.block() % tiles * Launch::kColumnsPerBlock;
    const int end = first + Launch::kColumnsPerBlock;
    for (int column = first + simt.thread(); column < end && column < args.columns; column += simt.threads()) {
      out[column] = id < 0 ? 0.0f : value(row + column / kBlock * static_cast<std::int64_t>(Format::kBytes), column);
    }
  }

 private:
  STRATA_INLINE static float value(const std::byte* block, int column) {
    const std::size_t at = static_cast<std::size_t>(column) % Format::kBlock;
    if constexpr (Format::kActivation == Activation::kFloat) {
      return field::load<typename Format::Value>(block, at);
    } else {
      const std::size_t part = at / Format::kPart;
      const float number = Format::scale(block, part) * static_cast<float>(Format::quant(block, at));
      if constexpr (requires { Format::minimum(block, part); }) {
        return number - Format::minimum(block, part);
      } else {
        return number;
      }
    }
  }
};

}  // namespace strata::device
