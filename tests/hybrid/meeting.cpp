// Both halves of windows, and a pool behind the host half, for a thread sanitizer to watch: layers with and without
// slots, split, deferred, planned by either half, and words that come late, never, early and twice.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "strata/device/flag_wait.hpp"
#include "strata/device/late_add.hpp"
#include "strata/device/rows_copy.hpp"
#include "strata/hybrid/host_half.hpp"
#include "strata/simt/inline.hpp"

namespace {

using namespace strata;
using protocol::Signal;

constexpr int kLayers = 3;
constexpr int kExperts = 6;
constexpr int kHidden = 64;
constexpr int kWidth = 32;
constexpr int kTokens = 2;
constexpr int kTopK = 3;
constexpr int kEntries = kTokens * kTopK;
constexpr float kHeavy = 0.5f;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

struct Model {
  std::deque<std::vector<float>> memory;
  std::vector<Experts> layers;
  std::vector<std::int32_t> slots = std::vector<std::int32_t>(kLayers * kExperts, -1);

  Model() {
    for (int layer = 0; layer < kLayers; ++layer) {
      const ExpertPart gate = part(kWidth * kHidden);
      const ExpertPart up = part(kWidth * kHidden);
      const ExpertPart down = part(kHidden * kWidth);
      layers.emplace_back(kHidden, kWidth, gate, up, down);
    }
    // The second layer has slots for every second expert.
    for (int expert = 0; expert < kExperts; expert += 2) slots[static_cast<std::size_t>(kExperts + expert)] = expert;
  }

  ExpertPart part(std::size_t size) {
    ExpertPart all{format_named("f32"), {}, {}};
    for (int expert = 0; expert < kExperts; ++expert) {
      std::vector<float>& values = memory.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) {
        values[i] = static_cast<float>((i * 7 + memory.size() * 13) % 17) / 64.0f - 0.1f;
      }
      all.blocks.push_back(reinterpret_cast<const std::byte*>(values.data()));
    }
    return all;
  }

  std::vector<HybridLayer> hybrid() const {
    std::vector<HybridLayer> all;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      all.push_back({&layers[layer], slots.data() + layer * kExperts});
    }
    return all;
  }
};

struct Options {
  bool device_plans = false;
  bool splits = false;
  bool defers = false;
  std::vector<SignalFault> faults = {};
  std::chrono::milliseconds timeout{30'000};
};

std::unique_ptr<HostHalf> make_half(const Model& model, const Options& options) {
  std::vector<Signal> present = {Signal::kSeq, Signal::kPcieReady, Signal::kRowsReady, Signal::kPlanError,
                                 Signal::kWaitError};
  if (!options.device_plans) present.push_back(Signal::kPlanReady);
  if (options.splits) present.push_back(Signal::kPartialReady);
  auto pool = std::make_unique<Runner>(best_level(), PoolOptions{2, std::chrono::microseconds(5), Pinning::kOff}, 0);
  return std::make_unique<HostHalf>(std::move(pool), model.hybrid(),
                                    HostHalfOptions{.hidden = kHidden,
                                                    .slots = kExperts,
                                                    .heavy_from = options.splits ? std::optional(kHeavy) : std::nullopt,
                                                    .timeout = options.timeout,
                                                    .present = present,
                                                    .faults = options.faults});
}

// One window: the device half's side of every layer. Rows of slots are left out. Returns the residual.
std::vector<float> window(const Options& options, HostHalf& half, int round) {
  std::vector<float> residual(kTokens * kHidden, 1.0f);
  std::vector<float> rows(kEntries * kHidden);
  std::vector<float> weights(kEntries);
  std::vector<std::int32_t> ids(kEntries);
  const auto take = [&](device::Which which, bool late) {
    simt::run_inline<device::RowsCopy>({.from = half.rows(),
                                        .owner = half.plan().owner,
                                        .weights = weights.data(),
                                        .to = rows.data(),
                                        .entries = kEntries,
                                        .hidden = kHidden,
                                        .which = which,
                                        .threshold = kHeavy,
                                        .zero_others = !late});
    simt::run_inline<device::LateAdd>({.rows = rows.data(),
                                       .owner = half.plan().owner,
                                       .weights = weights.data(),
                                       .residual = residual.data(),
                                       .tokens = kTokens,
                                       .top_k = kTopK,
                                       .hidden = kHidden,
                                       .which = which,
                                       .threshold = kHeavy});
  };
  std::uint32_t late = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    if (late != 0) {
      half.wait(Signal::kRowsReady, late);
      take(options.splits ? device::Which::kBelow : device::Which::kAll, true);
      late = 0;
    }
    for (int entry = 0; entry < kEntries; ++entry) {
      const auto at = static_cast<std::size_t>(entry);
      ids[at] = (entry * 5 + layer + round) % kExperts;
      weights[at] = static_cast<float>((entry + round) % 4) / 4.0f;
    }
    const Routed routed{layer, kTokens, kTopK, residual.data(), ids.data(), weights.data()};
    if (options.device_plans) half.make_plan(routed, false);
    const std::uint32_t ring = half.publish(routed);
    if (!options.device_plans) half.wait(Signal::kPlanReady, ring);
    half.wait(Signal::kPcieReady, ring);
    if (options.splits) half.wait(Signal::kPartialReady, ring);
    if (!options.defers || layer == kLayers - 1) {
      half.wait(Signal::kRowsReady, ring);
      take(device::Which::kAll, false);
      continue;
    }
    late = ring;
    if (options.splits) take(device::Which::kAtLeast, false);
  }
  return residual;
}

// Windows with one faulty signal: the sums are right after one that came late, and after an early one without data; all
// other faults are noticed.
void stand(const Model& model, Options options, const std::vector<float>& expected, Signal signal,
           SignalFault::Kind kind) {
  const bool is_survived =
      kind == SignalFault::Kind::kLate || (kind == SignalFault::Kind::kEarly && signal == Signal::kPcieReady);
  // An early one that is noticed ends its delay.
  options.faults = {{signal, kind, 2, std::chrono::milliseconds(is_survived ? 3 : 5'000)}};
  if (kind == SignalFault::Kind::kNever) options.timeout = std::chrono::milliseconds(50);
  const auto half = make_half(model, options);
  try {
    require(window(options, *half, 0) == expected, "other sums after a faulty signal");
    require(is_survived, "a faulty signal was not noticed");
  } catch (const StallError&) {
    require(!is_survived, "a signal that came was taken for a lost one");
    require(half->stop(std::chrono::seconds(5)), "the host half did not end");
  }
}

// A kernel's plain store after a release must not bring a word back to life.
void release_between(SignalFault::Kind* fault) {
  protocol::Signals signals;
  std::vector<SignalFault> faults;
  if (fault != nullptr) faults.push_back({Signal::kSeq, *fault, 1});
  Board board(signals, {Signal::kSeq}, faults);
  board.raise(Signal::kSeq, 1, [&](std::uint32_t* word) {
    board.release();
    std::atomic_ref(*word).store(1, std::memory_order_release);
  });
  require(board.value(Signal::kSeq) == protocol::kReleased, "a raised word undid a release");
  require(!board.wait(Signal::kSeq, 1), "a released word was waited for");
}

// The same with threads, whichever comes first.
void release_meanwhile(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    protocol::Signals signals;
    Board board(signals, {Signal::kSeq});
    std::thread releaser([&] { board.release(); });
    board.raise(Signal::kSeq, 1,
                [&](std::uint32_t* word) { std::atomic_ref(*word).store(1, std::memory_order_release); });
    releaser.join();
    require(board.value(Signal::kSeq) == protocol::kReleased, "a raised word undid a release");
  }
}

// A waiter that did not run until its limit was over, while the word was raised.
class Suspended : public simt::Inline {
 public:
  Suspended(std::uint32_t& word, std::uint32_t raised) : Inline(0, 1), word_(word), raised_(raised) {}

  std::uint64_t nanoseconds() const {
    if (looked_) word_ = raised_;
    looked_ = true;
    return word_ == 0 ? 0 : 1'000'000;
  }

 private:
  std::uint32_t& word_;
  std::uint32_t raised_;
  mutable bool looked_ = false;
};

std::uint32_t error_of_suspended(std::uint32_t raised) {
  std::uint32_t word = 0;
  std::uint32_t error = 0;
  device::FlagWait::Shared shared;
  device::FlagWait::run(Suspended(word, raised), shared,
                        {.word = &word,
                         .base = nullptr,
                         .stamp = nullptr,
                         .error = &error,
                         .offset = 5,
                         .error_value = 1,
                         .looks = 0,
                         .nanoseconds = 1'000});
  return error;
}

}  // namespace

int main(int, char** arguments) {
  const int rounds = std::atoi(arguments[1]);
  release_between(nullptr);
  for (SignalFault::Kind kind : {SignalFault::Kind::kLate, SignalFault::Kind::kEarly}) release_between(&kind);
  release_meanwhile(rounds);
  require(error_of_suspended(5) == 0, "a word that had been raised was reported as missing");
  require(error_of_suspended(4) == 1, "a word that had not been raised was not reported");
  const Model model;
  int runs = 0;
  for (int bits = 0; bits < 8; ++bits) {
    const Options options{.device_plans = (bits & 1) != 0, .splits = (bits & 2) != 0, .defers = (bits & 4) != 0};
    const auto half = make_half(model, options);
    const std::vector<float> first = window(options, *half, 0);
    for (int round = 1; round < rounds; ++round) window(options, *half, round);
    require(window(options, *half, 0) == first, "another window's rows");
    for (const Signal signal :
         {Signal::kSeq, Signal::kPlanReady, Signal::kPcieReady, Signal::kRowsReady, Signal::kPartialReady}) {
      if (signal == Signal::kPlanReady && options.device_plans) continue;
      if (signal == Signal::kPartialReady && !options.splits) continue;
      for (const auto kind : {SignalFault::Kind::kLate, SignalFault::Kind::kNever, SignalFault::Kind::kEarly,
                              SignalFault::Kind::kTwice}) {
        stand(model, options, first, signal, kind);
        ++runs;
      }
    }
  }
  std::printf("%d faults\n", runs);
}
