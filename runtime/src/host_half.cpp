#include "strata/hybrid/host_half.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "strata/device/flag_wait.hpp"
#include "strata/device/publish.hpp"
#include "strata/device/resident_plan.hpp"
#include "strata/hybrid/shared_blocks.hpp"
#include "strata/simt/inline.hpp"

namespace strata {
namespace {

using device::Owner;
using device::Plan;
using device::PlanProblem;
using protocol::Doorbell;
using protocol::Signal;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLastPatience{500};

enum class Stage { kIdle, kPlan, kHeavy, kLight, kEnded };

const char* in_words(Stage stage) {
  switch (stage) {
    case Stage::kIdle:
      return "waiting for the next layer";
    case Stage::kPlan:
      return "making the plan";
    case Stage::kHeavy:
      return "computing the first rows";
    case Stage::kLight:
      return "computing the late rows";
    case Stage::kEnded:
      break;
  }
  return "ended";
}

std::string in_seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

const char* name_of(Signal signal) { return protocol::kSignals[static_cast<std::size_t>(signal)].name; }

// "ring value 7 of layer 3"; of a layer below 0 nothing is known.
std::string place_of(std::uint32_t ring, int layer) {
  return "ring value " + std::to_string(ring) + (layer < 0 ? "" : " of layer " + std::to_string(layer));
}

void wait_until_readable(int file) {
  pollfd one{file, POLLIN, 0};
  while (poll(&one, 1, -1) < 0 && errno == EINTR) {
  }
}

std::string plan_problem(std::uint32_t error, const std::int32_t* ids, int top_k) {
  const int entry = static_cast<int>(error >> 8);
  const std::string where = "expert " + std::to_string(ids[entry]) + " (token " + std::to_string(entry / top_k) +
                            ", pick " + std::to_string(entry % top_k) + ")";
  switch (static_cast<PlanProblem>(error & 0xFF)) {
    case PlanProblem::kNotResident:
      return where + " has no slot, and all experts must have one";
    case PlanProblem::kBadSlot:
      return where + " has a slot that is none";
    default:
      return where + " does not exist";
  }
}

}  // namespace

struct HostHalf::State {
  State(std::shared_ptr<Runner> runner, std::vector<HybridLayer> all, HostHalfOptions wanted)
      : options(std::move(wanted)),
        pool(std::move(runner)),
        layers(std::move(all)),
        blocks(options.hidden),
        board(blocks.signals(), options.present, options.faults) {}

  const HostHalfOptions options;
  const std::shared_ptr<Runner> pool;
  const std::vector<HybridLayer> layers;
  const SharedBlocks blocks;
  Board board;
  std::atomic<Stage> stage{Stage::kIdle};
  std::atomic<std::uint32_t> answered{0};
  std::atomic<std::uint32_t> answering{0};
  std::atomic<int> layer{-1};  // of `answering`, -1: not known
  std::atomic<std::int64_t> since{Clock::now().time_since_epoch().count()};
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool ended = false;
  std::uint32_t awaited = 0;  // ring value whose answer somebody sleeps for
  std::string failure;
  std::string words;                              // as they stood when they were released
  std::optional<Clock::time_point> asked_to_end;  // when `stop` or `end` was called first
  const pid_t owner = getpid();
  std::shared_ptr<State> left;  // itself, where it may never be destroyed

  // Where the ring value of the data behind a signal stands; null for a signal without data.
  std::uint32_t* stamp_of(Signal signal) const {
    const auto stamp = protocol::kSignals[static_cast<std::size_t>(signal)].stamp;
    return stamp == nullptr ? nullptr : stamp(blocks.all());
  }

  // Raises a signal of the host once the data behind it are there.
  void raise(Signal signal, std::uint32_t ring) {
    board.raise(signal, ring, [&](std::uint32_t*) {
      if (std::uint32_t* stamp = stamp_of(signal)) std::atomic_ref(*stamp).store(ring, std::memory_order_release);
    });
  }

  // Throws std::runtime_error when a signal that was raised to `ring` and its data do not agree.
  void require_stamped(Signal signal, std::uint32_t ring) const {
    if (const std::uint32_t value = board.value(signal); value != ring) {
      throw std::runtime_error(std::string(name_of(signal)) + " was raised to " + std::to_string(value) +
                               " while ring value " + std::to_string(ring) + " was still to be answered");
    }
    std::uint32_t* stamp = stamp_of(signal);
    if (stamp == nullptr) return;
    const std::uint32_t found = std::atomic_ref(*stamp).load(std::memory_order_acquire);
    if (found != ring) {
      throw std::runtime_error(std::string(name_of(signal)) + " was raised to " + std::to_string(ring) +
                               " before its data were there: they are of ring value " + std::to_string(found));
    }
  }

  void enter(Stage next) {
    since.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    stage.store(next, std::memory_order_relaxed);
  }

  bool is_owner() const noexcept { return getpid() == owner; }

  // Releases every word, and keeps how they stood for the report.
  void release() {
    pool->pool.stay_awake(false);
    {
      const std::lock_guard lock(mutex);
      if (words.empty()) words = board.describe();
      board.release();
    }
    changed.notify_all();
  }

  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (failure.empty()) {
        failure =
            place_of(answering.load(std::memory_order_relaxed), layer.load(std::memory_order_relaxed)) + ": " + why;
      }
    }
    release();
  }

  bool wait_for_end(std::unique_lock<std::mutex>& lock, Clock::time_point until) {
    return changed.wait_until(lock, until, [&] { return ended; });
  }

  void require_sane(std::uint32_t ring) const {
    require_stamped(Signal::kSeq, ring);
    const Doorbell& bell = blocks.doorbell();
    const bool fits = bell.layer >= 0 && static_cast<std::size_t>(bell.layer) < layers.size() && bell.tokens >= 0 &&
                      bell.tokens <= device::kMaxTokens && bell.top_k >= 1 && bell.top_k <= device::kMaxTopK;
    if (fits) return;
    throw std::runtime_error("the doorbell block is damaged: layer " + std::to_string(bell.layer) + ", " +
                             std::to_string(bell.tokens) + " tokens, top " + std::to_string(bell.top_k));
  }

  // Returns the error word of the plan.
  std::uint32_t make_plan(const Routed& routed, bool all_resident) const {
    const HybridLayer& layer = layers.at(static_cast<std::size_t>(routed.layer));
    std::uint32_t error = 0;
    simt::run_inline<device::ResidentPlan>({.ids = routed.ids,
                                            .weights = routed.weights,
                                            .slot_of_expert = layer.slot_of_expert,
                                            .plan = &blocks.plan(),
                                            .error = &error,
                                            .tokens = routed.tokens,
                                            .top_k = routed.top_k,
                                            .experts = static_cast<int>(layer.experts->all.size()),
                                            .slots = options.slots,
                                            .all_resident = all_resident,
                                            .pcie_share = options.pcie_share});
    return error;
  }

  void plan_for(const Doorbell& bell) const {
    const Routed routed{bell.layer, bell.tokens, bell.top_k,
                        nullptr,    bell.ids,    bell.has_weights != 0 ? bell.weights : nullptr};
    const std::uint32_t error = make_plan(routed, false);
    if (error != 0) throw std::runtime_error(plan_problem(error, bell.ids, bell.top_k));
  }

  void compute(const Doorbell& bell, const std::function<void()>& heavy_done) {
    const Plan& plan = blocks.plan();
    std::array<std::int32_t, device::kMaxEntries> ids;
    ids.fill(-1);
    for (int i = 0; i < plan.cpu_entries; ++i) {
      const auto entry = static_cast<std::size_t>(plan.cpu[i]);
      ids[entry] = bell.ids[entry];
    }
    const ExpertSplit split{bell.weights, options.heavy_from.value_or(0.0f), heavy_done};
    const bool splits = options.heavy_from.has_value() && bell.has_weights != 0;
    run_experts(*pool, *layers[static_cast<std::size_t>(bell.layer)].experts, static_cast<std::size_t>(bell.tokens),
                static_cast<std::size_t>(bell.top_k), blocks.activations(), ids.data(), blocks.rows(),
                splits ? &split : nullptr);
  }

  // Entries that are nobody's ask for nothing.
  void tell_asked(const Doorbell& bell) const {
    const HybridLayer& layer = layers[static_cast<std::size_t>(bell.layer)];
    std::int64_t with_slot = 0;
    std::int64_t all = 0;
    for (int entry = 0; entry < bell.tokens * bell.top_k; ++entry) {
      const std::int32_t id = bell.ids[entry];
      const bool is_wanted = bell.has_weights == 0 || bell.weights[entry] != 0.0f;
      if (!is_wanted || id < 0 || static_cast<std::size_t>(id) >= layer.experts->all.size()) continue;
      ++all;
      if (layer.slot_of_expert[id] >= 0) ++with_slot;
      if (layer.asked != nullptr) layer.asked[id] = 1;
    }
    if (options.entries == nullptr) return;
    std::atomic_ref(options.entries[0]).fetch_add(with_slot, std::memory_order_relaxed);
    std::atomic_ref(options.entries[1]).fetch_add(all, std::memory_order_relaxed);
  }

  void answer(std::uint32_t ring) {
    layer.store(-1, std::memory_order_relaxed);
    answering.store(ring, std::memory_order_relaxed);
    enter(Stage::kPlan);
    require_sane(ring);
    const Doorbell& bell = blocks.doorbell();
    layer.store(bell.layer, std::memory_order_relaxed);
    if (board.has(Signal::kPlanReady)) plan_for(bell);
    raise(Signal::kPlanReady, ring);
    raise(Signal::kPcieReady, ring);
    enter(Stage::kHeavy);
    tell_asked(bell);
    if (options.wedge >= 0) {
      const Pool::Session session = pool->pool.open();
      wait_until_readable(options.wedge);
    }
    bool heavy_done = false;
    compute(bell, [&] {
      heavy_done = true;
      raise(Signal::kPartialReady, ring);
      enter(Stage::kLight);
    });
    if (!heavy_done) raise(Signal::kPartialReady, ring);
    raise(Signal::kRowsReady, ring);
    {
      const std::lock_guard lock(mutex);
      answered.store(ring, std::memory_order_relaxed);
      if (ring == awaited) changed.notify_all();
    }
    enter(Stage::kIdle);
  }

  void serve() noexcept {
    for (std::uint32_t ring = 1; board.wait(Signal::kSeq, ring); ++ring) {
      try {
        answer(ring);
      } catch (const std::exception& problem) {
        fail(problem.what());
      } catch (...) {
        fail("an exception without a message");
      }
    }
    enter(Stage::kEnded);
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }

  std::string doing() const {
    const Stage now = stage.load(std::memory_order_relaxed);
    const std::string text = in_words(now);
    if (now == Stage::kIdle || now == Stage::kEnded) return text;
    return text + " of " + place_of(answering.load(std::memory_order_relaxed), layer.load(std::memory_order_relaxed));
  }

  std::string report() const {
    const auto start = Clock::time_point(Clock::duration(since.load(std::memory_order_relaxed)));
    const std::string thread = "  host half: " + doing() + " for " + in_seconds(Clock::now() - start) + "; answered " +
                               std::to_string(answered.load(std::memory_order_relaxed)) + "; pool of " +
                               std::to_string(pool->pool.threads()) +
                               (pool->pool.threads() == 1 ? " worker" : " workers") + "\n";
    // Another thread of the parent may have held the mutex at a fork.
    if (!is_owner()) return board.describe() + thread;
    const std::lock_guard lock(mutex);
    return (words.empty() ? board.describe() : words) + thread +
           (failure.empty() ? "" : "  host half failed: " + failure + "\n");
  }
};

HostHalf::HostHalf(std::shared_ptr<Runner> pool, std::vector<HybridLayer> layers, HostHalfOptions options) {
  for (const HybridLayer& layer : layers) {
    if (layer.experts->hidden == options.hidden) continue;
    throw std::invalid_argument("a layer's experts have rows of " + std::to_string(layer.experts->hidden) +
                                " values, not " + std::to_string(options.hidden));
  }
  if (std::find(options.present.begin(), options.present.end(), Signal::kSeq) == options.present.end()) {
    throw std::invalid_argument("without the signal seq nobody can ring for the host half");
  }
  state_ = std::make_shared<State>(std::move(pool), std::move(layers), std::move(options));
  // The thread keeps what it uses alive, for the case that it is left behind.
  std::thread([state = state_] { state->serve(); }).detach();
}

HostHalf::~HostHalf() {
  end();
  if (!state_->is_owner()) state_->left = state_;
}

const Plan& HostHalf::plan() const noexcept { return state_->blocks.plan(); }
const float* HostHalf::rows() const noexcept { return state_->blocks.rows(); }

void HostHalf::require_owner() const {
  if (state_->is_owner()) return;
  throw std::logic_error("this host half was made before fork(): make another in the child process");
}

void HostHalf::stalled(const std::string& why) {
  // Before the words are released, for the thread goes on then.
  const std::string text = why + "\n" + report();
  state_->release();
  throw StallError(text);
}

void HostHalf::make_plan(const Routed& routed, bool all_resident) {
  require_owner();
  const std::uint32_t error = state_->make_plan(routed, all_resident);
  if (error != 0) state_->board.raise_error(Signal::kPlanError, ring_, error);
  if (const std::uint32_t raised = state_->board.value(Signal::kPlanError); raised != 0) {
    stalled("the plan of layer " + std::to_string(routed.layer) +
            " was given up: " + plan_problem(raised, routed.ids, routed.top_k));
  }
  // An error word that did not come must not pass for a plan: every entry has an owner, or is nobody's.
  const int entries = routed.tokens * routed.top_k;
  int nobodys = 0;
  for (int i = 0; i < entries; ++i) {
    nobodys += routed.ids[i] == -1 || (routed.weights != nullptr && routed.weights[i] == 0.0f) ? 1 : 0;
  }
  if (plan().dropped == nobodys) return;
  stalled("the plan of layer " + std::to_string(routed.layer) + " leaves out " +
          std::to_string(plan().dropped - nobodys) + " of " + std::to_string(entries) + " entries");
}

std::uint32_t HostHalf::publish(const Routed& routed) {
  require_owner();
  if (state_->board.released()) throw StallError("this window was released and runs no more\n" + report());
  const std::uint32_t ring = ring_ + 1;
  const device::Publish::Args args{.x = routed.x,
                                   .ids = routed.ids,
                                   .weights = routed.weights,
                                   .base = nullptr,
                                   .doorbell = &state_->blocks.doorbell(),
                                   .sequence = nullptr,
                                   .offset = ring,
                                   .layer = routed.layer,
                                   .tokens = routed.tokens,
                                   .top_k = routed.top_k,
                                   .hidden = static_cast<int>(state_->options.hidden)};
  state_->board.raise(Signal::kSeq, ring, [&](std::uint32_t* word) {
    device::Publish::Args raising = args;
    raising.sequence = word;
    simt::run_inline<device::Publish>(raising);
  });
  ring_ = ring;
  return ring;
}

void HostHalf::wait(Signal signal, std::uint32_t ring) {
  require_owner();
  Board& board = state_->board;
  if (!board.has(signal)) throw std::logic_error(std::string("nobody raises ") + name_of(signal));
  // The pool needs this thread's core: the kernel looks when there is something to see.
  board.wait(signal, ring, Clock::now() + state_->options.timeout);
  std::uint32_t error = 0;
  simt::run_inline<device::FlagWait>({.word = board.address(signal),
                                      .base = nullptr,
                                      .stamp = nullptr,
                                      .error = &error,
                                      .offset = ring,
                                      .error_value = static_cast<std::uint32_t>(signal) + 1,
                                      .looks = 1,
                                      .nanoseconds = 0});
  if (error != 0) {
    board.raise_error(Signal::kWaitError, ring, error);
    stalled("waited " + in_seconds(state_->options.timeout) + " for " + name_of(signal) + " to reach " +
            std::to_string(ring));
  }
  if (board.released()) stalled(std::string("the window was released while it waited for ") + name_of(signal));
  try {
    state_->require_stamped(signal, ring);
  } catch (const std::runtime_error& problem) {
    stalled(problem.what());
  }
}

std::vector<std::pair<const void*, std::size_t>> HostHalf::memory() const { return state_->blocks.memory(); }

const std::uint32_t* HostHalf::word(Signal signal) const noexcept { return state_->board.address(signal); }

const std::uint32_t* HostHalf::stamp(Signal signal) const noexcept { return state_->stamp_of(signal); }

const void* HostHalf::doorbell() const noexcept { return &state_->blocks.doorbell(); }

void HostHalf::begin_window() {
  require_owner();
  if (state_->board.released()) throw StallError("this window was released and runs no more\n" + report());
  state_->board.watch(true);
  state_->pool->pool.stay_awake(true);
}

void HostHalf::await_answers(std::uint32_t rings) {
  require_owner();
  std::unique_lock lock(state_->mutex);
  state_->awaited = ring_ + rings;
  state_->changed.wait_for(lock, state_->options.timeout, [&] {
    return state_->answered.load(std::memory_order_relaxed) >= state_->awaited || state_->board.released();
  });
}

void HostHalf::end_window(std::uint32_t rings) {
  require_owner();
  Board& board = state_->board;
  board.watch(false);
  state_->pool->pool.stay_awake(false);
  ring_ += rings;
  if (const std::uint32_t error = board.value(Signal::kWaitError); error != 0) {
    const std::string name = name_of(static_cast<Signal>((error & 0xFF) - 1));
    if ((error & device::FlagWait::kAhead) != 0) stalled(name + " was not at the ring value that was waited for");
    if ((error & device::FlagWait::kUnstamped) != 0) stalled(name + " was raised before its data were there");
    stalled("waited " + in_seconds(state_->options.timeout) + " for " + name);
  }
  if (const std::uint32_t error = board.value(Signal::kPlanError); error != 0) {
    const auto problem = static_cast<PlanProblem>(error & 0xFF);
    const std::string what = problem == PlanProblem::kNotResident ? "an expert without a slot where all must have one"
                             : problem == PlanProblem::kBadSlot   ? "a slot that is none"
                                                                  : "an expert that is none";
    stalled("a plan met " + what + " (entry " + std::to_string(error >> 8) + " of its layer)");
  }
  if (board.released()) stalled("the window was released");
}

bool HostHalf::stop(std::chrono::nanoseconds patience) noexcept {
  if (!state_->is_owner()) return false;
  state_->release();
  std::unique_lock lock(state_->mutex);
  const Clock::time_point now = Clock::now();
  if (!state_->asked_to_end) state_->asked_to_end = now;
  return state_->wait_for_end(lock, now + patience);
}

bool HostHalf::end() noexcept {
  if (!state_->is_owner()) return false;
  state_->release();
  std::unique_lock lock(state_->mutex);
  if (!state_->asked_to_end) state_->asked_to_end = Clock::now();
  return state_->wait_for_end(lock, *state_->asked_to_end + kLastPatience);
}

std::string HostHalf::report() const { return state_->report(); }

}  // namespace strata
