// Splits the entries of a window between the device, which holds experts and reads others from the host, and the CPU.
#pragma once

#include <cstdint>

#include "strata/device/entries.hpp"
#include "strata/device/entry_set.hpp"
#include "strata/device/plan.hpp"
#include "strata/gen/launches.hpp"

namespace strata::device {

// Entries of id -1, and of weight exactly 0 where weights are given, are nobody's. In all-resident mode an expert
// without a slot is a problem, as are ids outside [-1, experts) and slots outside [-1, slots) always: then the error
// word is raised and the plan is empty, so that nothing is computed from it.
//
// Of the experts without a slot the device reads a share from the host's memory, rounded to whole experts: those of the
// most entries, and of equals those that appear first. Each costs it one read, whatever its entries, and the CPU a read
// and a row an entry.
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
    const std::int32_t* pcie_share = nullptr;  // [1], of kWholeShare; null is none
  };

  // Numbers of 4 bytes throughout: comparing them with each other is vectorised.
  struct Shared {
    std::int32_t ids[kMaxEntries];  // -1: nobody's
    std::int32_t slots[kMaxEntries];
    std::int32_t problems[kMaxEntries];
    std::int32_t leads[kMaxEntries];   // the first entry of its expert; kNone for nobody's
    std::int32_t before[kMaxEntries];  // how many of its group come before it
    std::int32_t sizes[kMaxEntries];   // of its group
    EntrySet wrong;
    EntrySet device;  // of experts with slots
    EntrySet pcie;    // of experts that the device reads from the host
    EntrySet cpu;
    EntrySet first;       // entries that lead a group of `device`
    EntrySet missing;     // entries that lead an expert without a slot
    EntrySet pcie_first;  // those of them that lead a group of `pcie`
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
    shared.wrong.fill(simt, entries, [&](int entry) { return shared.problems[entry] != 0; });
    shared.device.fill(simt, entries, [&](int entry) { return shared.slots[entry] >= 0; });
    for_entries(simt, 0, entries, [&](int entry) { compare(shared, entries, entry); });
    simt.barrier();
    if (shared.wrong.count() != 0) {
      give_up(simt, shared, args, entries);
      return;
    }
    shared.first.fill(simt, entries, [&](int entry) { return leads(shared, entry) && shared.slots[entry] >= 0; });
    if (args.all_resident) {
      shared.pcie_first.clear(simt);
      shared.pcie.clear(simt);
      shared.cpu.clear(simt);
    } else {
      share_out(simt, shared, args, entries);
    }
    simt.barrier();
    for_entries(simt, 0, entries, [&](int entry) { place(shared, *args.plan, entries, entry); });
    if (simt.thread() != 0) return;
    Plan& plan = *args.plan;
    plan.groups = shared.first.count();
    plan.pcie_groups = shared.pcie_first.count();
    plan.device_entries = shared.device.count() + shared.pcie.count();
    plan.cpu_entries = shared.cpu.count();
    plan.dropped = entries - plan.device_entries - plan.cpu_entries;
  }

 private:
  static constexpr std::int32_t kNone = kMaxEntries;

  // Divides the entries of experts without a slot between the device and the CPU.
  template <simt::Simt S>
  STRATA_INLINE static void share_out(const S& simt, Shared& shared, const Args& args, int entries) {
    shared.missing.fill(simt, entries, [&](int entry) { return leads(shared, entry) && shared.slots[entry] < 0; });
    simt.barrier();
    const int wanted = args.pcie_share == nullptr ? 0 : share_of(shared.missing.count(), *args.pcie_share);
    shared.pcie_first.fill(simt, entries, [&](int entry) { return is_taken(shared, entries, wanted, entry); });
    simt.barrier();
    const auto is_pcie = [&](int entry) {
      return shared.leads[entry] != kNone && shared.pcie_first.has(shared.leads[entry]);
    };
    shared.pcie.fill(simt, entries, is_pcie);
    shared.cpu.fill(simt, entries,
                    [&](int entry) { return shared.ids[entry] >= 0 && shared.slots[entry] < 0 && !is_pcie(entry); });
  }

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
  }

  template <simt::Simt S>
  STRATA_INLINE static void give_up(const S& simt, const Shared& shared, const Args& args, int entries) {
    for_entries(simt, 0, entries, [&](int entry) { args.plan->owner[entry] = Owner::kNobody; });
    if (simt.thread() != 0) return;
    args.plan->groups = args.plan->pcie_groups = args.plan->device_entries = args.plan->cpu_entries = 0;
    args.plan->dropped = entries;
    const int first = shared.wrong.first();
    simt.release(args.error, plan_error(static_cast<PlanProblem>(shared.problems[first]), first));
  }

  STRATA_INLINE static void compare(Shared& shared, int entries, int entry) {
    const std::int32_t id = shared.ids[entry];
    std::int32_t before = 0;
    std::int32_t size = 0;
    std::int32_t lead = kNone;
    for (int i = 0; i < entries; ++i) {
      const std::int32_t is_same = shared.ids[i] == id ? 1 : 0;
      before += i < entry ? is_same : 0;
      size += is_same;
      lead = is_same != 0 && i < lead ? i : lead;
    }
    shared.before[entry] = before;
    shared.sizes[entry] = size;
    shared.leads[entry] = id >= 0 ? lead : kNone;
  }

  STRATA_INLINE static bool leads(const Shared& shared, int entry) { return shared.leads[entry] == entry; }

  STRATA_INLINE static int share_of(int experts, std::int32_t share) {
    return (experts * share + kWholeShare / 2) / kWholeShare;
  }

  // Whether an entry leads one of the `wanted` experts without a slot that have the most entries.
  STRATA_INLINE static bool is_taken(const Shared& shared, int entries, int wanted, int entry) {
    if (wanted == 0 || !shared.missing.has(entry)) return false;
    const std::int32_t size = shared.sizes[entry];
    return count_if(0, entries, [&](int i) {
             const bool is_before = shared.sizes[i] > size || (shared.sizes[i] == size && i < entry);
             return is_before && shared.missing.has(i);
           }) < wanted;
  }

  STRATA_INLINE static void place(const Shared& shared, Plan& plan, int entries, int entry) {
    const bool is_cpu = shared.cpu.has(entry);
    const bool is_pcie = shared.pcie.has(entry);
    const bool is_device = is_pcie || shared.device.has(entry);
    plan.owner[entry] = is_device ? Owner::kDevice : is_cpu ? Owner::kCpu : Owner::kNobody;
    if (is_cpu) plan.cpu[shared.cpu.count_below(entry)] = entry;
    if (!is_device) return;
    const EntrySet& own = is_pcie ? shared.pcie : shared.device;
    const std::int32_t lead = shared.leads[entry];
    const int earlier = count_if(0, entries, [&](int i) { return own.has(i) && shared.leads[i] < lead; });
    const int first = is_pcie ? shared.device.count() + earlier : earlier;
    plan.entries[first + shared.before[entry]] = entry;
    if (lead != entry) return;
    const std::int32_t id = shared.ids[entry];
    const int group =
        is_pcie ? shared.first.count() + shared.pcie_first.count_below(entry) : shared.first.count_below(entry);
    plan.group[group] = {is_pcie ? id : shared.slots[entry], first, shared.sizes[entry], id};
  }
};

}  // namespace strata::device
