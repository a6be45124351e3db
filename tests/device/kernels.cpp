// Every kernel, with its arguments taken from a job.
#include <atomic>
#include <chrono>
#include <thread>

#include "jobs.hpp"
#include "strata/device/combine.hpp"
#include "strata/device/ecap_redirect.hpp"
#include "strata/device/flag_wait.hpp"
#include "strata/device/late_add.hpp"
#include "strata/device/publish.hpp"
#include "strata/device/resident_plan.hpp"
#include "strata/device/router_topk.hpp"
#include "strata/device/rows_copy.hpp"
#include "strata/device/tail_skip.hpp"
#include "strata/device/time_stamp.hpp"

namespace strata::device_tests {
namespace {

void router_topk(const Job& job) {
  run<device::RouterTopk>(job, {.logits = job.array<const float>(0),
                                .bias = job.array<const float>(1),
                                .ids = job.array<std::int32_t>(2),
                                .weights = job.array<float>(3),
                                .tokens = job.integer(0),
                                .experts = job.integer(1),
                                .top_k = job.integer(2),
                                .sigmoid = job.integer(3) != 0,
                                .normalised = job.integer(4) != 0,
                                .scale = static_cast<float>(job.number(5))});
}

void ecap_redirect(const Job& job) {
  run<device::EcapRedirect>(job, {.ids = job.array<std::int32_t>(0),
                                  .weights = job.array<float>(1),
                                  .tokens = job.integer(0),
                                  .top_k = job.integer(1),
                                  .cap = job.integer(2)});
}

void resident_plan(const Job& job) {
  run<device::ResidentPlan>(job, {.ids = job.array<const std::int32_t>(0),
                                  .weights = job.array<const float>(1),
                                  .slot_of_expert = job.array<const std::int32_t>(2),
                                  .plan = job.array<device::Plan>(3),
                                  .error = job.array<std::uint32_t>(4),
                                  .tokens = job.integer(0),
                                  .top_k = job.integer(1),
                                  .experts = job.integer(2),
                                  .slots = job.integer(3),
                                  .all_resident = job.integer(4) != 0,
                                  .pcie_share = job.array<const std::int32_t>(5)});
}

void tail_skip(const Job& job) {
  run<device::TailSkip>(job, {.ids = job.array<std::int32_t>(0),
                              .weights = job.array<float>(1),
                              .slot_of_expert = job.array<const std::int32_t>(2),
                              .tokens = job.integer(0),
                              .top_k = job.integer(1),
                              .experts = job.integer(2),
                              .rank = job.integer(3)});
}

void publish(const Job& job) {
  run<device::Publish>(job, {.x = job.array<const float>(0),
                             .ids = job.array<const std::int32_t>(1),
                             .weights = job.array<const float>(2),
                             .base = job.array<const std::uint32_t>(3),
                             .doorbell = job.array<device::Doorbell>(4),
                             .sequence = job.array<std::uint32_t>(5),
                             .offset = static_cast<std::uint32_t>(job.number(0)),
                             .layer = job.integer(4),
                             .tokens = job.integer(1),
                             .top_k = job.integer(2),
                             .hidden = job.integer(3)});
}

// With a fifth number, another thread raises the word to it after the microseconds of a sixth.
void flag_wait(const Job& job) {
  auto* word = job.array<std::uint32_t>(0);
  std::jthread host;
  if (job.numbers.size() > 4) {
    host = std::jthread([word, &job] {
      std::this_thread::sleep_for(std::chrono::microseconds(job.integer(5)));
      std::atomic_ref<std::uint32_t>(*word).store(static_cast<std::uint32_t>(job.number(4)), std::memory_order_release);
    });
  }
  run<device::FlagWait>(job, {.word = word,
                              .base = job.array<const std::uint32_t>(1),
                              .stamp = job.array<const std::uint32_t>(3),
                              .error = job.array<std::uint32_t>(2),
                              .offset = static_cast<std::uint32_t>(job.number(0)),
                              .error_value = static_cast<std::uint32_t>(job.number(1)),
                              .looks = static_cast<std::uint64_t>(job.number(2)),
                              .nanoseconds = static_cast<std::uint64_t>(job.number(3))});
}

void rows_copy(const Job& job) {
  run<device::RowsCopy>(job, {.from = job.array<const float>(0),
                              .owner = job.array<const device::Owner>(1),
                              .weights = job.array<const float>(2),
                              .to = job.array<float>(3),
                              .entries = job.integer(0),
                              .hidden = job.integer(1),
                              .which = static_cast<device::Which>(job.integer(2)),
                              .threshold = static_cast<float>(job.number(3)),
                              .zero_others = job.integer(4) != 0});
}

void combine(const Job& job) {
  run<device::Combine>(job, {.rows = job.array<const float>(0),
                             .weights = job.array<const float>(1),
                             .residual = job.array<float>(2),
                             .tokens = job.integer(0),
                             .top_k = job.integer(1),
                             .hidden = job.integer(2)});
}

void late_add(const Job& job) {
  run<device::LateAdd>(job, {.rows = job.array<const float>(0),
                             .owner = job.array<const device::Owner>(1),
                             .weights = job.array<const float>(2),
                             .residual = job.array<float>(3),
                             .tokens = job.integer(0),
                             .top_k = job.integer(1),
                             .hidden = job.integer(2),
                             .which = static_cast<device::Which>(job.integer(3)),
                             .threshold = static_cast<float>(job.number(4))});
}

// What the tests must know of memory layouts.
void layouts(const Job& job) {
  auto* sizes = job.array<std::int64_t>(0);
  sizes[0] = sizeof(device::Plan);
  sizes[1] = sizeof(device::Doorbell);
  sizes[2] = device::kMaxEntries;
}

}  // namespace

// In files of their own, because they take long to compile.
void add_rows(const Job& job);
void append_heads(const Job& job);
void argmax_rows(const Job& job);
void attend(const Job& job);
void embed_rows(const Job& job);
void expert_down(const Job& job);
void expert_gate_up(const Job& job);
void norm_rows(const Job& job);
void quantize_rows(const Job& job);
void silu_rows(const Job& job);
void to_floats(const Job& job);
void window_linear(const Job& job);

const std::map<std::string, Runner>& kernels() {
  static const std::map<std::string, Runner> all = {
      {"add_rows", add_rows},
      {"append_heads", append_heads},
      {"argmax_rows", argmax_rows},
      {"attend", attend},
      {"combine", combine},
      {"ecap_redirect", ecap_redirect},
      {"embed_rows", embed_rows},
      {"expert_down", expert_down},
      {"expert_gate_up", expert_gate_up},
      {"flag_wait", flag_wait},
      {"time_stamp",
       [](const Job& job) {
         run<device::TimeStamp>(job, {.stamp = job.array<std::uint64_t>(0), .phase = job.integer(0)});
       }},
      {"late_add", late_add},
      {"layouts", layouts},
      {"norm_rows", norm_rows},
      {"publish", publish},
      {"quantize_rows", quantize_rows},
      {"resident_plan", resident_plan},
      {"router_topk", router_topk},
      {"rows_copy", rows_copy},
      {"silu_rows", silu_rows},
      {"tail_skip", tail_skip},
      {"to_floats", to_floats},
      {"window_linear", window_linear},
  };
  return all;
}

}  // namespace strata::device_tests
