// The kernels between the products of a layer.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attend_tiles.hpp"
#include "jobs.hpp"
#include "strata/device/add_rows.hpp"
#include "strata/device/append_heads.hpp"
#include "strata/device/argmax_rows.hpp"
#include "strata/device/attend_join.hpp"
#include "strata/device/attend_window.hpp"
#include "strata/device/embed_rows.hpp"
#include "strata/device/norm_rows.hpp"
#include "strata/device/silu_rows.hpp"
#include "strata/gen/format_types.hpp"

namespace strata::device_tests {
namespace {

// Tokens, heads, heads of keys, elements, capacity: the first numbers of a job.
device::Heads shape_of(const Job& job) {
  return {.tokens = job.integer(0),
          .heads = job.integer(1),
          .kv_heads = job.integer(2),
          .dim = job.integer(3),
          .capacity = job.integer(4)};
}

template <class Format>
void embed(const Job& job) {
  run<device::EmbedRows<Format>>(job, {.table = job.array<const std::byte>(0),
                                       .ids = job.array<const std::int32_t>(1),
                                       .out = job.array<float>(2),
                                       .tokens = job.integer(1),
                                       .columns = job.integer(2)});
}

}  // namespace

// The first number is the format's id.
void embed_rows(const Job& job) {
  formats::visit(static_cast<std::size_t>(job.number(0)),
                 [&](auto type) { embed<typename decltype(type)::type>(job); });
}

void norm_rows(const Job& job) {
  run<device::NormRows>(job, {.x = job.array<const float>(0),
                              .weight = job.array<const float>(1),
                              .out = job.array<float>(2),
                              .q = job.array<std::byte>(3),
                              .eps = static_cast<float>(job.number(2)),
                              .rows = job.integer(0),
                              .columns = job.integer(1)});
}

void silu_rows(const Job& job) {
  run<device::SiluRows>(job, {.gate = job.array<const float>(0),
                              .up = job.array<const float>(1),
                              .out = job.array<float>(2),
                              .q = job.array<std::byte>(3),
                              .rows = job.integer(0),
                              .columns = job.integer(1)});
}

void add_rows(const Job& job) {
  run<device::AddRows>(job, {.x = job.array<const float>(0), .out = job.array<float>(1), .count = job.integer(0)});
}

void argmax_rows(const Job& job) {
  run<device::ArgmaxRows>(job, {.x = job.array<const float>(0),
                                .out = job.array<std::int32_t>(1),
                                .rows = job.integer(0),
                                .columns = job.integer(1)});
}

void append_heads(const Job& job) {
  run<device::AppendHeads>(job, {.query_norm = job.array<const float>(0),
                                 .key_norm = job.array<const float>(1),
                                 .angles = job.array<const float>(2),
                                 .position = job.array<const std::int32_t>(3),
                                 .cache = job.array<std::byte>(4),
                                 .queries = job.array<float>(5),
                                 .keys = job.array<const float>(6),
                                 .values = job.array<const float>(7),
                                 .shape = shape_of(job),
                                 .type = static_cast<device::CacheType>(job.integer(5)),
                                 .eps = static_cast<float>(job.number(7)),
                                 .scale = static_cast<float>(job.number(8)),
                                 .rope_dim = job.integer(6)});
}

// Both halves, over a workspace of exactly the size that is asked for; with a number more by tiles of a kind.
void attend(const Job& job) {
  const device::Heads shape = shape_of(job);
  std::vector<std::byte> workspace(static_cast<std::size_t>(device::Partials::bytes(shape)), std::byte{0xa5});
  auto* partials = reinterpret_cast<float*>(workspace.data());
  const auto* position = job.array<const std::int32_t>(1);
  const device::AttendArgs args{.cache = job.array<const std::byte>(0),
                                .position = position,
                                .queries = job.array<const float>(2),
                                .partials = partials,
                                .shape = shape,
                                .type = static_cast<device::CacheType>(job.integer(5))};
  if (job.numbers.size() > 6) {
    attend_tiles(job, static_cast<Tiles>(job.integer(6)), args);
  } else {
    run<device::AttendWindow>(job, args);
  }
  run<device::AttendJoin>(job, {.partials = partials,
                                .position = position,
                                .out = job.array<float>(3),
                                .q = job.array<std::byte>(4),
                                .shape = shape});
}

}  // namespace strata::device_tests
