// What the kernels of attention by tiles share: what they take, and the rows and positions of a block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/device/attention.hpp"
#include "strata/inline.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Why a kernel by tiles does not take the arguments, null if it does; it is for heads of `dim` elements.
inline const char* tiles_refusal(const AttendArgs& args, int dim) {
  return args.shape.dim != dim || args.type == CacheType::kF32 ? "tiles of another kind" : args.refusal();
}

// One head of keys, one number of a span, and some of the queries that share the head: rows, numbered through the
// tokens and each one's queries.
template <class Launch>
struct AttendBlock {
  static constexpr int kRows = Launch::kRowsPerBlock;

  const AttendArgs& args;
  int head;
  int span;
  int rows;
  int first_row;
  int start;       // positions before the first token
  int first;       // of all positions of the rows
  int last;        // behind them
  int all_from;    // every row has the positions from here
  int all_before;  // to here

  template <simt::Simt S>
  STRATA_INLINE AttendBlock(const S& simt, const AttendArgs& given) : args(given) {
    const Heads& shape = args.shape;
    const int all_rows = shape.tokens * shape.group();
    const int blocks = Launch::blocks(1, 1, all_rows);
    const int spans = Splits::of(shape.kv_heads).room(shape.capacity);
    head = simt.block() / blocks / spans;
    span = simt.block() / blocks % spans;
    first_row = simt.block() % blocks * kRows;
    rows = all_rows - first_row < kRows ? all_rows - first_row : kRows;
    start = *args.position;
    // Lengths and widths of spans grow with the token.
    const int shortest = length(0);
    const int longest = length(rows - 1);
    const int narrow = Splits::of(shape.kv_heads).span(shortest);
    const int wide = Splits::of(shape.kv_heads).span(longest);
    first = span * narrow;
    all_from = span * wide;
    last = all_from + wide < longest ? all_from + wide : longest;  // or more, where wide spans have less
    all_before = first + narrow < shortest ? first + narrow : shortest;
  }

  static int count(const AttendArgs& args) {
    const Heads& shape = args.shape;
    return Launch::blocks(shape.kv_heads, Splits::of(shape.kv_heads).room(shape.capacity),
                          shape.tokens * shape.group());
  }

  // Where the keys (part 0) or values (part 1) of a position begin.
  template <int Dim>
  STRATA_INLINE const std::byte* place(int part, int position) const {
    return args.cache + (args.shape.offset(part, head) + static_cast<std::int64_t>(position) * Dim) * 2;
  }
  STRATA_INLINE int token(int row) const { return (first_row + row) / args.shape.group(); }
  STRATA_INLINE int length(int row) const {
    const int wanted = start + token(row) + 1;
    return wanted < args.shape.capacity ? wanted : args.shape.capacity;
  }
  STRATA_INLINE int query(int row) const {
    const int group = args.shape.group();
    return token(row) * args.shape.heads + head * group + (first_row + row) % group;
  }
  // The positions of the span that a row has: [from, before).
  STRATA_INLINE void positions(int row, int& from, int& before) const {
    const int end = length(row);
    const int width = Splits::of(args.shape.kv_heads).span(end);
    from = span * width;
    before = from + width < end ? from + width : end;
  }
};

}  // namespace strata::device
