// Every kernel, with its arguments taken from a job.
#include "jobs.hpp"
#include "strata/device/ecap_redirect.hpp"
#include "strata/device/router_topk.hpp"

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

}  // namespace

const std::map<std::string, Runner>& kernels() {
  static const std::map<std::string, Runner> all = {
      {"ecap_redirect", ecap_redirect},
      {"router_topk", router_topk},
  };
  return all;
}

}  // namespace strata::device_tests
