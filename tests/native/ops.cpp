// Runs every operation over buffers of exactly the right size, for a sanitizer to watch. Weights and inputs are random;
// results are compared with one token at a time on one thread, bit by bit.
#include "strata/ops.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "strata/device/combine.hpp"
#include "strata/simt/inline.hpp"

namespace {

std::mt19937 random_source{1};

std::vector<float> random_floats(std::size_t count) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random_source);
  return values;
}

// Stored weights on the heap with nothing behind them. Without the two upper bits of every byte, whatever is a float
// among them is finite.
std::unique_ptr<std::byte[]> random_blocks(const strata::formats::Info& format, std::size_t rows, std::size_t columns) {
  const std::size_t bytes = rows * strata::row_bytes(format, columns);
  auto blocks = std::make_unique<std::byte[]>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) blocks[i] = static_cast<std::byte>(random_source() & 0x3f);
  return blocks;
}

// The same weights in their compute layout, whose size becomes `bytes`.
std::unique_ptr<std::byte[]> rearranged(strata::Runner& runner, const strata::formats::Info& format, std::size_t rows,
                                        std::size_t columns, const std::byte* blocks, std::size_t& bytes) {
  bytes = strata::interleaved_bytes(format, *runner.kernels.formats[format.id]->interleaved, rows, columns);
  auto result = std::make_unique<std::byte[]>(bytes);
  strata::arrange(runner, format, rows, columns, blocks, result.get());
  return result;
}

bool same_bits(const float* left, const float* right, std::size_t count) {
  return std::memcmp(left, right, count * sizeof(float)) == 0;
}

bool linear_agrees(strata::Runner& many, strata::Runner& one, const strata::formats::Info& format, std::size_t rows,
                   std::size_t columns, std::size_t tokens, bool arranged) {
  auto blocks = random_blocks(format, rows, columns);
  const strata::InterleavedKernels* interleaved = arranged ? many.kernels.formats[format.id]->interleaved : nullptr;
  std::size_t bytes = rows * strata::row_bytes(format, columns);
  if (interleaved != nullptr) blocks = rearranged(many, format, rows, columns, blocks.get(), bytes);
  const strata::Matrix matrix(format, rows, columns, blocks.get(), bytes, 1.0f, interleaved);
  const std::vector<float> x = random_floats(tokens * columns);
  std::vector<float> together(tokens * rows);
  std::vector<float> alone(rows);
  strata::linear(many, matrix, tokens, x.data(), together.data());
  for (std::size_t token = 0; token < tokens; ++token) {
    strata::linear(one, matrix, 1, x.data() + token * columns, alone.data());
    if (!same_bits(alone.data(), together.data() + token * rows, rows)) return false;
  }
  return true;
}

bool experts_agree(strata::Runner& many, strata::Runner& one, const strata::formats::Info& format, std::size_t hidden,
                   std::size_t width, std::size_t tokens, std::size_t top_k, bool arranged) {
  constexpr std::size_t kExperts = 5;
  const strata::InterleavedKernels* interleaved = arranged ? many.kernels.formats[format.id]->interleaved : nullptr;
  std::vector<std::unique_ptr<std::byte[]>> owned;
  std::vector<std::vector<const std::byte*>> parts(3);
  for (std::size_t expert = 0; expert < kExperts; ++expert) {
    for (std::size_t part = 0; part < 3; ++part) {
      const std::size_t rows = part == 2 ? hidden : width;
      const std::size_t columns = part == 2 ? width : hidden;
      owned.push_back(random_blocks(format, rows, columns));
      std::size_t bytes = 0;
      if (interleaved != nullptr) owned.back() = rearranged(many, format, rows, columns, owned.back().get(), bytes);
      parts[part].push_back(owned.back().get());
    }
  }
  const strata::Experts layer(hidden, width, {format, parts[0], {}, interleaved}, {format, parts[1], {}, interleaved},
                              {format, parts[2], {}, interleaved});
  const std::vector<float> x = random_floats(tokens * hidden);
  std::vector<std::int32_t> ids(tokens * top_k);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random_source() % (kExperts + 1)) - 1;
  std::vector<float> together(ids.size() * hidden);
  std::vector<float> alone(hidden);
  strata::run_experts(many, layer, tokens, top_k, x.data(), ids.data(), together.data());
  for (std::size_t entry = 0; entry < ids.size(); ++entry) {
    strata::run_experts(one, layer, 1, 1, x.data() + entry / top_k * hidden, &ids[entry], alone.data());
    if (!same_bits(alone.data(), together.data() + entry * hidden, hidden)) return false;
  }
  std::vector<float> sums(tokens * hidden, 0.0f);
  const std::vector<float> weights = random_floats(ids.size());
  strata::simt::run_inline<strata::device::Combine>({together.data(), weights.data(), sums.data(),
                                                     static_cast<int>(tokens), static_cast<int>(top_k),
                                                     static_cast<int>(hidden)});
  return true;
}

// Heads are prepared and attend behind `filled` positions, in a cache with no room for more.
bool attention_agrees(strata::Runner& many, strata::Runner& one, const strata::HeadShape& shape, std::size_t rope_dim,
                      std::size_t filled, std::size_t tokens) {
  const std::size_t row = shape.heads * shape.dim;
  const std::size_t kv_row = shape.kv_heads * shape.dim;
  const std::size_t capacity = filled + tokens;
  const std::vector<float> angles = random_floats(capacity * rope_dim);
  const std::vector<float> norm = random_floats(shape.dim);
  const std::vector<float> keys = random_floats(tokens * kv_row);
  const std::vector<float> values = random_floats(tokens * kv_row);
  std::vector<float> together = random_floats(tokens * row);
  std::vector<float> alone = together;
  std::vector<float> shared = random_floats(2 * capacity * kv_row);
  std::vector<float> own = shared;
  std::vector<float> found(tokens * row);
  std::vector<float> found_alone(row);
  const strata::HeadRules rules{norm.data(), norm.data(), 1e-6f, 0.25f, rope_dim, angles.data()};
  const strata::LayerCache cache{shared.data(), capacity, filled};
  strata::prepare_heads(many, shape, rules, cache, tokens, together.data(), keys.data(), values.data());
  strata::attend(many, shape, cache, tokens, together.data(), found.data());
  for (std::size_t token = 0; token < tokens; ++token) {
    const strata::LayerCache behind{own.data(), capacity, filled + token};
    strata::prepare_heads(one, shape, rules, behind, 1, alone.data() + token * row, keys.data() + token * kv_row,
                          values.data() + token * kv_row);
    strata::attend(one, shape, behind, 1, alone.data() + token * row, found_alone.data());
    if (!same_bits(found_alone.data(), found.data() + token * row, row)) return false;
  }
  std::vector<float> normed(tokens * row);
  strata::rms_norm(many, tokens, row, together.data(), together.data(), 1e-6f, normed.data());
  return same_bits(own.data(), shared.data(), own.size());
}

}  // namespace

int main() {
  for (const strata::LevelKernels* level : strata::all_levels()) {
    if (!strata::runs_here(*level)) continue;
    strata::Runner one(*level, {1, {}, strata::Pinning::kOff}, 0);
    strata::Runner many(*level, {4, {}, strata::Pinning::kAuto}, 32);
    for (const strata::HeadShape& shape : {strata::HeadShape{1, 1, 2}, {6, 2, 13}, {10, 1, 32}, {8, 2, 128}}) {
      for (const std::size_t filled : {0u, 7u, 253u, 600u}) {
        for (const std::size_t tokens : {1u, 5u, 8u}) {
          if (attention_agrees(many, one, shape, shape.dim / 2 * 2, filled, tokens)) continue;
          std::printf("attention differs: %s, heads of %zu, %zu tokens behind %zu\n", level->isa, shape.dim, tokens,
                      filled);
          return 1;
        }
      }
    }
    for (const strata::formats::Info& format : strata::formats::all()) {
      for (const std::size_t blocks : {1u, 2u, 5u}) {
        // Formats of single values also meet widths that no vector divides.
        const std::size_t columns = format.block == 1 ? blocks * 13 : blocks * format.block;
        for (const std::size_t rows : {1u, 3u, 38u}) {
          for (const std::size_t tokens : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 19u}) {
            if (linear_agrees(many, one, format, rows, columns, tokens, false) &&
                linear_agrees(many, one, format, rows, columns, tokens, true)) {
              continue;
            }
            std::printf("linear differs: %s %s %zu x %zu, %zu tokens\n", level->isa, format.name.data(), rows, columns,
                        tokens);
            return 1;
          }
        }
        for (const std::size_t tokens : {0u, 1u, 3u, 11u}) {
          const std::size_t width = format.block == 256 ? 256 : 2 * columns;
          if (experts_agree(many, one, format, columns, width, tokens, 3, false) &&
              experts_agree(many, one, format, columns, width, tokens, 3, true)) {
            continue;
          }
          std::printf("experts differ: %s %s hidden %zu, %zu tokens\n", level->isa, format.name.data(), columns,
                      tokens);
          return 1;
        }
      }
    }
    std::printf("%s ok\n", level->isa);
  }
  return 0;
}
