#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "inputs.hpp"
#include "products.hpp"
#include "strata/ops.hpp"

namespace strata {
namespace {

// Tokens computed at a time: bounds the scratch memory of a long prompt.
constexpr std::size_t kTokensPerPass = 512;

// Rows of gate and up that are claimed together: what the smallest block of the next product holds.
constexpr std::size_t kRowBlock = Int8Row::kBlock;

// Rows of gate that are read before as many of up: going from one matrix to the other stops what fetches ahead. Divides
// the largest block of the next product.
constexpr std::size_t kRowsInTurn = 128;

// Entries that share one expert; `first` and `last` delimit them in Groups::entries.
struct Group {
  const Experts::Expert* expert;
  std::size_t first;
  std::size_t last;
};

struct Groups {
  std::vector<Group> groups;         // by first appearance
  std::vector<std::size_t> entries;  // t * top_k + k, by group, ascending inside a group
};

void require_ids(const Experts& layer, std::size_t tokens, std::size_t top_k, const std::int32_t* ids) {
  for (std::size_t entry = 0; entry < tokens * top_k; ++entry) {
    const std::int32_t id = ids[entry];
    if (id == -1 || (id >= 0 && static_cast<std::size_t>(id) < layer.all.size())) continue;
    throw std::invalid_argument("experts: id " + std::to_string(id) + " of token " + std::to_string(entry / top_k) +
                                ", pick " + std::to_string(entry % top_k) + " is not -1 and not one of the " +
                                std::to_string(layer.all.size()) + " experts");
  }
}

Groups group_entries(const Experts& layer, std::size_t entries, const std::int32_t* ids) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> group_of(layer.all.size(), kNone);
  Groups result;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (ids[entry] < 0) continue;
    const auto id = static_cast<std::size_t>(ids[entry]);
    if (group_of[id] == kNone) {
      group_of[id] = result.groups.size();
      result.groups.push_back({&layer.all[id], 0, 0});
    }
    ++result.groups[group_of[id]].last;
  }
  std::size_t total = 0;
  for (Group& group : result.groups) {
    const std::size_t count = group.last;
    group.first = group.last = total;
    total += count;
  }
  result.entries.resize(total);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (ids[entry] < 0) continue;
    Group& group = result.groups[group_of[static_cast<std::size_t>(ids[entry])]];
    result.entries[group.last++] = entry;
  }
  return result;
}

// Groups with an entry of at least split.heavy_from, and the others; each in the order of `all`.
std::pair<Groups, Groups> parted(const Groups& all, const ExpertSplit& split) {
  std::pair<Groups, Groups> parts;
  for (const Group& group : all.groups) {
    const auto first = all.entries.begin() + static_cast<std::ptrdiff_t>(group.first);
    const auto last = all.entries.begin() + static_cast<std::ptrdiff_t>(group.last);
    const bool heavy =
        std::any_of(first, last, [&](std::size_t entry) { return split.weights[entry] >= split.heavy_from; });
    Groups& part = heavy ? parts.first : parts.second;
    part.groups.push_back({group.expert, part.entries.size(), part.entries.size() + (group.last - group.first)});
    part.entries.insert(part.entries.end(), first, last);
  }
  return parts;
}

// silu(gate) * up of every entry, in the form that the down product takes.
//
// Where one scale is for more rows than are finished together, values wait as floats until the last worker that had
// rows of a block quantises it: the bits do not depend on who that is.
class Middle {
 public:
  Middle(const LevelKernels& kernels, const Groups& groups, Activation activation, std::size_t width)
      : quantize_(quantizer(kernels, activation)),
        groups_(groups),
        activation_(activation),
        width_(width),
        block_(input_block(activation)),
        stride_(rounded_up(input_bytes(activation, width), Workspace::kAlignment)),
        blocks_(waits() ? width / block_ : 0),
        done_(groups.groups.size() * blocks_) {}

  static std::size_t bytes(Activation activation, std::size_t width, std::size_t entries) {
    const std::size_t stride = rounded_up(input_bytes(activation, width), Workspace::kAlignment);
    return entries * (stride + (input_block(activation) > kRowBlock ? width * sizeof(float) : 0));
  }

  // Memory of bytes(activation, width, entries) bytes.
  void place(std::byte* memory, std::size_t entries) {
    rows_ = memory;
    floats_ = reinterpret_cast<float*>(memory + entries * stride_);
  }

  const std::byte* row(std::size_t entry) const { return rows_ + entry * stride_; }

  // Rows [first, first + count) of one entry.
  void store(std::size_t entry, std::size_t first, std::size_t count, const float* values) const {
    if (waits()) {
      std::copy_n(values, count, floats_ + entry * width_ + first);
    } else if (activation_ == Activation::kFloat) {
      std::copy_n(values, count, reinterpret_cast<float*>(rows_ + entry * stride_) + first);
    } else {
      quantize_(values, first / block_, count / block_, width_, rows_ + entry * stride_);
    }
  }

  // Rows [first, first + count) are there for all entries of a group.
  void finish(const Group& group, std::size_t first, std::size_t count) {
    if (!waits()) return;
    const std::size_t block = first / block_;
    const auto index = static_cast<std::size_t>(&group - groups_.groups.data());
    const std::size_t before = done_[index * blocks_ + block].fetch_add(count, std::memory_order_acq_rel);
    if (before + count != block_) return;
    for (std::size_t i = group.first; i < group.last; ++i) {
      const std::size_t entry = groups_.entries[i];
      quantize_(floats_ + entry * width_ + block * block_, block, 1, width_, rows_ + entry * stride_);
    }
  }

 private:
  bool waits() const { return block_ > kRowBlock; }

  Quantize quantize_;
  const Groups& groups_;
  Activation activation_;
  std::size_t width_;
  std::size_t block_;
  std::size_t stride_;
  std::size_t blocks_;
  std::vector<std::atomic<std::size_t>> done_;  // rows, by group and block
  std::byte* rows_ = nullptr;
  float* floats_ = nullptr;
};

// One pass of the two phases over some tokens.
class Pass {
 public:
  Pass(const Runner& runner, const Experts& layer, const Groups& groups, std::size_t top_k, Middle& middle)
      : runner_(runner), layer_(layer), groups_(groups), top_k_(top_k), middle_(middle) {}

  // Gate and up rows [first, last) of one expert for all entries of its group.
  void gate_up(const Group& group, std::size_t first, std::size_t last, const Inputs& gate_inputs,
               const Inputs& up_inputs) const {
    const std::size_t rows = last - first;
    for_tiles(group, [&](const std::size_t* entries, std::size_t count) {
      std::array<std::array<float, kRowsInTurn>, kMaxTokens> gate;
      std::array<std::array<float, kRowsInTurn>, kMaxTokens> up;
      std::array<const std::byte*, kMaxTokens> gate_from;
      std::array<const std::byte*, kMaxTokens> up_from;
      std::array<float*, kMaxTokens> to_gate;
      std::array<float*, kMaxTokens> to_up;
      for (std::size_t t = 0; t < count; ++t) {
        gate_from[t] = gate_inputs[entries[t] / top_k_];
        up_from[t] = up_inputs[entries[t] / top_k_];
        to_gate[t] = gate[t].data();
        to_up[t] = up[t].data();
      }
      dot(group.expert->gate, first, last, count, gate_from.data(), to_gate.data());
      dot(group.expert->up, first, last, count, up_from.data(), to_up.data());
      for (std::size_t t = 0; t < count; ++t) {
        runner_.kernels.silu_multiply(gate[t].data(), up[t].data(), rows);
        middle_.store(entries[t], first, rows, gate[t].data());
      }
    });
    middle_.finish(group, first, rows);
  }

  // Down rows [first, last) of one expert for all entries of its group.
  void down(const Group& group, std::size_t first, std::size_t last, float* out) const {
    for_tiles(group, [&](const std::size_t* entries, std::size_t count) {
      std::array<const std::byte*, kMaxTokens> from;
      std::array<float*, kMaxTokens> to;
      for (std::size_t t = 0; t < count; ++t) {
        from[t] = middle_.row(entries[t]);
        to[t] = out + entries[t] * layer_.hidden + first;
      }
      dot(group.expert->down, first, last, count, from.data(), to.data());
    });
  }

  const Experts& layer() const { return layer_; }
  const Groups& groups() const { return groups_; }

 private:
  template <class Body>
  void for_tiles(const Group& group, const Body& body) const {
    for (std::size_t first = group.first; first < group.last; first += kMaxTokens) {
      body(groups_.entries.data() + first, std::min(kMaxTokens, group.last - first));
    }
  }

  void dot(const Matrix& matrix, std::size_t first, std::size_t last, std::size_t tokens, const std::byte* const* from,
           float* const* to) const {
    products(runner_, matrix, first, last, tokens, from, to);
  }

  const Runner& runner_;
  const Experts& layer_;
  const Groups& groups_;
  std::size_t top_k_;
  Middle& middle_;
};

// Calls body(group, first row, last row) for items [begin, end) of a list that holds every group's `rows` rows in
// blocks of kRowBlock.
template <class Body>
void for_row_blocks(const Groups& groups, std::size_t rows, std::size_t begin, std::size_t end, const Body& body) {
  const std::size_t blocks = rounded_up(rows, kRowBlock) / kRowBlock;
  for (std::size_t item = begin; item < end;) {
    const std::size_t group = item / blocks;
    const std::size_t stop = std::min(end, (group + 1) * blocks);
    body(groups.groups[group], item % blocks * kRowBlock, std::min(rows, (stop - group * blocks) * kRowBlock));
    item = stop;
  }
}

// Both phases for all groups of a pass.
void run_phases(Pool::Session& session, const Runner& runner, const Pass& pass, const Inputs& gate_inputs,
                const Inputs& up_inputs, float* out) {
  const Experts& layer = pass.layer();
  const Groups& groups = pass.groups();
  const Matrix& gate = layer.all.front().gate;
  const Matrix& up = layer.all.front().up;
  const Matrix& down = layer.all.front().down;
  const std::size_t shared = at_least_one(groups.entries.size() / groups.groups.size());
  // Rows of all groups count as one list; a claim takes whole blocks of it.
  const auto grain = [&](const Matrix& matrix, std::size_t row_bytes) {
    const std::size_t rows =
        claim_grain(runner.claim_rows, groups.groups.size() * matrix.rows(), row_bytes, shared, session.threads());
    return at_least_one(rows / kRowBlock);
  };
  const auto items = [&](std::size_t rows) { return groups.groups.size() * (rounded_up(rows, kRowBlock) / kRowBlock); };
  session.run(
      items(layer.width), grain(gate, gate.row_bytes() + up.row_bytes()), [&](std::size_t begin, std::size_t end) {
        for_row_blocks(groups, layer.width, begin, end, [&](const Group& group, std::size_t first, std::size_t last) {
          for (std::size_t row = first; row < last; row = row / kRowsInTurn * kRowsInTurn + kRowsInTurn) {
            const std::size_t stop = std::min(last, row / kRowsInTurn * kRowsInTurn + kRowsInTurn);
            pass.gate_up(group, row, stop, gate_inputs, up_inputs);
          }
        });
      });
  session.run(items(layer.hidden), grain(down, down.row_bytes()), [&](std::size_t begin, std::size_t end) {
    for_row_blocks(groups, layer.hidden, begin, end, [&](const Group& group, std::size_t first, std::size_t last) {
      pass.down(group, first, last, out);
    });
  });
}

void experts_pass(Pool::Session& session, const Runner& runner, const Experts& layer, std::size_t tokens,
                  std::size_t top_k, const float* x, const std::int32_t* ids, float* out, const ExpertSplit* split) {
  const std::size_t entries = tokens * top_k;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (ids[entry] < 0) std::fill_n(out + entry * layer.hidden, layer.hidden, 0.0f);
  }
  const Groups all = group_entries(layer, entries, ids);
  if (all.groups.empty()) {
    if (split != nullptr) split->heavy_done();
    return;
  }
  const Matrix& gate = layer.all.front().gate;
  const Matrix& up = layer.all.front().up;
  const Matrix& down = layer.all.front().down;
  const bool one_form = gate.format().activation == up.format().activation;
  const auto space = [&](const Matrix& matrix) {
    return rounded_up(tokens * input_bytes(matrix.format().activation, layer.hidden), Workspace::kAlignment);
  };
  const std::size_t gate_space = space(gate);
  const std::size_t up_space = one_form ? 0 : space(up);
  const Activation between = down.format().activation;
  std::byte* scratch = session.scratch(gate_space + up_space + Middle::bytes(between, layer.width, entries));
  const auto prepared = [&](const Matrix& matrix, std::byte* to) {
    return prepare_inputs(session, runner.kernels, matrix.format().activation, tokens, layer.hidden, x, to);
  };
  const Inputs gate_inputs = prepared(gate, scratch);
  const Inputs up_inputs = one_form ? gate_inputs : prepared(up, scratch + gate_space);
  const auto run_groups = [&](const Groups& groups) {
    if (groups.groups.empty()) return;
    Middle middle(runner.kernels, groups, between, layer.width);
    middle.place(scratch + gate_space + up_space, entries);
    run_phases(session, runner, Pass(runner, layer, groups, top_k, middle), gate_inputs, up_inputs, out);
  };
  if (split == nullptr) {
    run_groups(all);
    return;
  }
  const auto [heavy, light] = parted(all, *split);
  run_groups(heavy);
  split->heavy_done();
  run_groups(light);
}

}  // namespace

void run_experts(Runner& runner, const Experts& layer, std::size_t tokens, std::size_t top_k, const float* x,
                 const std::int32_t* ids, float* out, const ExpertSplit* split) {
  if (tokens == 0 || top_k == 0) return;
  if (x == nullptr || ids == nullptr || out == nullptr) {
    throw std::invalid_argument("experts: null address of inputs, ids or outputs");
  }
  const Experts::Expert& any = layer.all.front();
  for (const Matrix* matrix : {&any.gate, &any.up, &any.down}) require_layout(runner.kernels, *matrix);
  require_ids(layer, tokens, top_k, ids);
  if (split != nullptr && tokens > kTokensPerPass) {
    throw std::invalid_argument("experts: " + std::to_string(tokens) + " tokens are too many to split by weight");
  }
  Pool::Session session = runner.open();
  for (std::size_t first = 0; first < tokens; first += kTokensPerPass) {
    const std::size_t count = std::min(kTokensPerPass, tokens - first);
    experts_pass(session, runner, layer, count, top_k, x + first * layer.hidden, ids + first * top_k,
                 out + first * top_k * layer.hidden, split);
  }
}

}  // namespace strata
