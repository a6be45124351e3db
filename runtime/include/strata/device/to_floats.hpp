// Device matrices as plain rows of floats, for matrix products of prompts.
#pragma once

#include <cstdint>

#include "strata/device/products.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

enum class FloatType : std::uint8_t { kF32, kBf16, kF16 };

// ToFloats without what depends on the format.
struct ToFloatsCommon {
  using Launch = gen::ToFloatsLaunch;

  static constexpr int kBlocksAtOnce = 2;

  struct Args {
    const std::byte* matrix;       // [rows, columns], of one matrix
    const std::int64_t* matrices;  // [count]: the addresses of several; then `matrix` is null
    const float* scales;           // [count], or null
    void* out;                     // [count, rows, columns]
    float scale;
    int count;
    int rows;
    int columns;
    FloatType type;
  };
};

// value[i] = (scale * integer - minimum) * scale of the matrix, each rounded, and then rounded to the type.
template <class Format>
struct ToFloats : ToFloatsCommon {
  struct Shared {};

  static const char* refusal(const Args& args) {
    if (args.count < 0 || args.rows < 0 || args.columns < 1) return "sizes out of range";
    if (args.columns % static_cast<int>(Format::kBlock) != 0) return "blocks of the format do not divide the columns";
    if (args.count > 0 && args.rows > 0 && !((args.matrix || args.matrices) && args.out)) return "a null address";
    if (args.matrix && args.count > 1) return "several matrices need their addresses";
    return nullptr;
  }

  static int blocks(const Args& args) {
    return Launch::blocks(args.count, tiles_of_rows(args), (args.columns + kTileColumns - 1) / kTileColumns);
  }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    const int tiles = (args.columns + kTileColumns - 1) / kTileColumns;
    const int rows = tiles_of_rows(args);
    const int number = simt.block() / (rows * tiles);
    const int row = simt.block() / tiles % rows * kTileRows;
    const int column = simt.block() % tiles * kTileColumns;
    const std::byte* matrix =
        args.matrices == nullptr ? args.matrix : reinterpret_cast<const std::byte*>(args.matrices[number]);
    const float scale = args.scales == nullptr ? args.scale : args.scales[number];
    const std::int64_t first = (static_cast<std::int64_t>(number) * args.rows + row) * args.columns;
    tile(simt, args, matrix, row, column, scale, first);
  }

 private:
  static constexpr int kTileRows = kGroupRows;
  static constexpr int kTileColumns = 8 * kChunk;  // a chunk for each of eight teams

  STRATA_INLINE static int tiles_of_rows(const Args& args) { return (args.rows + kTileRows - 1) / kTileRows; }

  // 16 rows and up to 2048 columns; `out` is the number of the first value of the first row.
  template <simt::Simt S>
  STRATA_INLINE static void tile(const S& simt, const Args& args, const std::byte* matrix, int row, int column,
                                 float scale, std::int64_t out) {
    const int last = column + kTileColumns < args.columns ? column + kTileColumns : args.columns;
    const int rows = args.rows - row < kTileRows ? args.rows - row : kTileRows;
    if constexpr (kIsQuantized<Format>) {
      using Of = GroupLayout<Format>;
      const std::byte* group = matrix + row_offset<Format>(row, args.columns);
      for (int block = column / Of::kBlock + simt::team(simt); block < last / Of::kBlock; block += simt::teams(simt)) {
        const std::byte* at = group + static_cast<std::int64_t>(block) * Of::kBytes;
        for (int i = 0; i < simt::kTeamValues<S>; ++i) {
          store_block<S>(args, at, simt::team_lane(simt) + i, rows, scale, out + block * Of::kBlock);
        }
      }
    } else {
      const std::int64_t row_bytes = matrix_bytes<Format>(1, args.columns);
      for (int r = simt::team(simt); r < rows; r += simt::teams(simt)) {
        const std::byte* from = matrix + row_bytes * (row + r);
        for (int i = column + simt::team_lane(simt); i < last; i += S::kWave == 1 ? 1 : simt::kTeam) {
          const float value = field::load<typename Format::Value>(from, static_cast<std::size_t>(i)) * scale;
          store(args, out + static_cast<std::int64_t>(r) * args.columns + i, Several<float, 1>{{value}});
        }
      }
    }
  }

  // A lane has two rows of a block, and four columns of either half of a step.
  template <simt::Simt S>
  STRATA_INLINE static void store_block(const Args& args, const std::byte* at, int lane, int rows, float scale,
                                        std::int64_t out) {
    using Of = GroupLayout<Format>;
    constexpr int kRows = 2;
    using Words = RowWords<S, kRows>;
    using Factors = StepFactors<Format, kRows>;
    const int row = lane / 4 * kRows;
    const int four = lane % 4;
    const auto stored = Factors::Stored::load(at, row);
    unroll<2 * Of::kSteps>([&](auto i) STRATA_LAMBDA {
      constexpr int kStep = static_cast<int>(decltype(i)::value) / 2;
      constexpr int kHalf = static_cast<int>(decltype(i)::value) % 2;
      const auto factors = Factors::template of<kStep>(stored);
      const auto words = Of::template words<Words, kStep, kHalf>(at, row, four);
      for (int r = 0; r < kRows; ++r) {
        if (row + r >= rows) break;
        Several<float, 4> values;
        for (int byte = 0; byte < 4; ++byte) {
          const std::int32_t whole = static_cast<std::int32_t>(words.v[r] << (24 - 8 * byte)) >> 24;
          values.v[byte] = factors.template value<Of::kParts == 1 ? 0 : kHalf>(stored, r, whole) * scale;
        }
        store(args, out + std::int64_t{row + r} * args.columns + 32 * kStep + 16 * kHalf + 4 * four, values);
      }
    });
  }

  // Neighbours from value number `at` of the output on.
  template <int Count>
  STRATA_INLINE static void store(const Args& args, std::int64_t at, const Several<float, Count>& values) {
    if (args.type == FloatType::kF32) {
      store_several(static_cast<float*>(args.out) + at, values);
    } else {
      Several<std::uint16_t, Count> halves;
      for (int i = 0; i < Count; ++i) {
        halves.v[i] = args.type == FloatType::kBf16 ? float_to_bf16(values.v[i]) : float_to_f16(values.v[i]);
      }
      store_several(static_cast<std::uint16_t*>(args.out) + at, halves);
    }
  }
};

}  // namespace strata::device
