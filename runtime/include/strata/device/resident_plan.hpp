// Splits the entries of a window between the experts that the device holds and the CPU.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/plan.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Entries of id -1, and of weight exactly 0 where weights are given, are nobody's. In all-resident mode an expert
// without a slot is a problem, as are ids outside [-1, experts) and slots outside [-1, slots) always: then the error
// word is raised and the plan is empty, so that nothing is computed from it.
struct ResidentPlan {
  using Launch = gen::ResidentPlanLaunch;

  struct Args {
    const std::int32_t* ids;             // [tokens, top_k]
    const float* weights;                // [tokens, top_k], or null
    const std::int32_t* slot_of_expert;  // [experts], -1: not resident
    Plan* plan;
    std::uint32_t* error;
    int tokens;
    int top_k;
    int experts;
    int slots;
    bool all_resident;
  };

  // Numbers of 4 bytes throughout: comparing them with each other is vectorised.
  struct Shared {
    std::int32_t ids[kMaxEntries];  // -1: nobody's
    std::int32_t slots[kMaxEntries];
    std::int32_t problems[kMaxEntries];
    std::int32_t leads[kMaxEntries];  // 1: the first of its group
    std::int32_t sizes[kMaxEntries];  // of its group
    std::int32_t on_cpu[kMaxEntries];
  };

  static const char* refusal(const Args& args) {
    if (!(args.plan && args.error)) return "a null address";
    if (args.tokens > 0 && !(args.ids && args.slot_of_expert)) return "a null address";
    return window_refusal(args.tokens, args.top_k);
  }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const int entries = args.tokens * args.top_k;
    for_entries(simt, 0, entries, [&](int entry) { look_up(shared, args, entry); });
    simt.barrier();
    const int problems = count_if(0, entries, [&](int i) { return shared.problems[i] != 0; });
    if (problems != 0) {
      give_up(simt, shared, args, entries);
      return;
    }
    for_entries(simt, 0, entries, [&](int entry) { compare(shared, entries, entry); });
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) { place(shared, *args.plan, entry); });
    if (simt.thread() != 0) return;
    Plan& plan = *args.plan;
    plan.groups = count_if(0, entries, [&](int i) { return shared.leads[i] != 0; });
    plan.device_entries = count_if(0, entries, [&](int i) { return shared.slots[i] >= 0; });
    plan.cpu_entries = count_if(0, entries, [&](int i) { return shared.on_cpu[i] != 0; });
    plan.dropped = entries - plan.device_entries - plan.cpu_entries;
  }

 private:
  STRATA_INLINE static void look_up(Shared& shared, const Args& args, int entry) {
    const std::int32_t id = args.ids[entry];
    const bool is_known = id >= 0 && id < args.experts;
    const bool is_wanted = is_known && (args.weights == nullptr || args.weights[entry] != 0.0f);
    const std::int32_t slot = is_wanted ? args.slot_of_expert[id] : -1;
    PlanProblem problem = PlanProblem::kNone;
    if (!is_known && id != -1) problem = PlanProblem::kBadId;
    if (slot < -1 || slot >= args.slots) problem = PlanProblem::kBadSlot;
    if (is_wanted && slot == -1 && args.all_resident) problem = PlanProblem::kNotResident;
    shared.ids[entry] = is_wanted ? id : -1;
    shared.slots[entry] = slot;
    shared.problems[entry] = static_cast<std::int32_t>(problem);
    shared.on_cpu[entry] = is_wanted && slot == -1 ? 1 : 0;
  }

  template <simt::Simt S>
  STRATA_INLINE static void give_up(const S& simt, const Shared& shared, const Args& args, int entries) {
    for_entries(simt, 0, entries, [&](int entry) { args.plan->owner[entry] = Owner::kNobody; });
    if (simt.thread() != 0) return;
    args.plan->groups = args.plan->device_entries = args.plan->cpu_entries = 0;
    args.plan->dropped = entries;
    int first = 0;
    while (shared.problems[first] == 0) ++first;
    simt.release(args.error, plan_error(static_cast<PlanProblem>(shared.problems[first]), first));
  }

  STRATA_INLINE static void compare(Shared& shared, int entries, int entry) {
    const std::int32_t id = shared.ids[entry];
    const auto is_same = [&](int i) { return shared.ids[i] == id; };
    const int before = count_if(0, entry, is_same);
    shared.sizes[entry] = before + count_if(entry, entries, is_same);
    shared.leads[entry] = before == 0 && shared.slots[entry] >= 0 ? 1 : 0;
  }

  STRATA_INLINE static void place(const Shared& shared, Plan& plan, int entry) {
    const int cpu_before = count_if(0, entry, [&](int i) { return shared.on_cpu[i] != 0; });
    plan.owner[entry] = shared.slots[entry] >= 0 ? Owner::kDevice : shared.on_cpu[entry] ? Owner::kCpu : Owner::kNobody;
    if (shared.on_cpu[entry] != 0) plan.cpu[cpu_before] = entry;
    if (shared.leads[entry] == 0) return;
    int group = 0;
    int first = 0;
    for (int i = 0; i < entry; ++i) {
      group += shared.leads[i];
      first += shared.leads[i] * shared.sizes[i];
    }
    plan.group[group] = {shared.slots[entry], first, shared.sizes[entry], shared.ids[entry]};
    int next = first;
    for (int i = entry; next < first + shared.sizes[entry]; ++i) {
      if (shared.ids[i] == shared.ids[entry]) plan.entries[next++] = i;
    }
  }
};

}  // namespace strata::device
