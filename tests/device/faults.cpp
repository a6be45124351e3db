// Kernels that are wrong in ways that only a GPU notices; the emulator must notice too.
#include "faults.hpp"

#include "strata/simt/wave.hpp"

namespace strata::device_tests {
namespace {

struct OneBlock {
  static constexpr const char* kKernel = "fault";
  static constexpr int threads(int) { return 128; }
};

// What the faulty kernels share: one value out per thread.
struct Fault {
  using Launch = OneBlock;
  struct Args {
    std::int32_t* out;  // [128]
  };
  struct Shared {
    std::int32_t values[128];
  };
  static const char* refusal(const Args&) { return nullptr; }
  static int blocks(const Args&) { return 1; }
};

// Half of the threads never reach the barrier.
struct DivergentBarrier : Fault {
  template <simt::Simt S>
  static void run(const S& simt, Shared&, const Args&) {
    if (simt.thread() % 2 == 0) simt.barrier();
  }
};

// One lane leaves before its wave exchanges values.
struct DivergentShuffle : Fault {
  template <simt::Simt S>
  static void run(const S& simt, Shared&, const Args& args) {
    if (simt.thread() == 5) return;
    args.out[simt.thread()] = simt.shuffle(simt.thread(), 0);
  }
};

// Lanes of one wave are at different operations.
struct MixedOperations : Fault {
  template <simt::Simt S>
  static void run(const S& simt, Shared&, const Args& args) {
    args.out[simt.thread()] = simt.lane() == 0 ? simt.shuffle(1, 0) : static_cast<std::int32_t>(simt.ballot(true));
  }
};

// A value is read before a barrier has made it visible.
struct MissingBarrier : Fault {
  template <simt::Simt S>
  static void run(const S& simt, Shared& shared, const Args& args) {
    const int own = simt.thread();
    shared.values[own] = own;
    args.out[own] = shared.values[simt.threads() - 1 - own];
  }
};

struct Barrier : Fault {
  template <simt::Simt S>
  static void run(const S& simt, Shared& shared, const Args& args) {
    const int own = simt.thread();
    shared.values[own] = own;
    simt.barrier();
    args.out[own] = shared.values[simt.threads() - 1 - own];
  }
};

template <class Kernel>
void run_fault(const Job& job) {
  run<Kernel>(job, {job.array<std::int32_t>(0)});
}

}  // namespace

const std::map<std::string, Runner>& faults() {
  static const std::map<std::string, Runner> all = {
      {"barrier", run_fault<Barrier>},
      {"divergent_barrier", run_fault<DivergentBarrier>},
      {"divergent_shuffle", run_fault<DivergentShuffle>},
      {"missing_barrier", run_fault<MissingBarrier>},
      {"mixed_operations", run_fault<MixedOperations>},
  };
  return all;
}

}  // namespace strata::device_tests
