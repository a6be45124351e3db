// Worker threads that run one job at a time, cut into chunks that whoever is free claims.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/cpus.hpp"
#include "strata/workspace.hpp"

namespace strata {

enum class Pinning {
  kAuto,  // when every worker gets a core of its own and no quota is smaller
  kOn,
  kOff,
};

struct PoolOptions {
  int threads = 0;                        // workers, the calling thread included; 0: one per usable physical core
  std::chrono::nanoseconds spin{50'000};  // how long an idle worker looks for work before it sleeps
  Pinning pinning = Pinning::kAuto;       // the calling thread is never pinned
  std::chrono::nanoseconds patience{0};   // how long `open` waits for another thread's session; 0: without an end
};

// Another thread has had the pool for longer than its patience.
struct PoolBusy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Who goes first where several threads want the pool. A session of the last turn steps aside, between two chunks, while
// one of the first turn waits or the pool is held; it waits without an end.
enum class Turn { kFirst, kLast };

// Does nothing: what production code runs. Tests replace it to put threads to sleep at the worst moments.
struct NoHooks {
  static void before_claim() noexcept {}
  static void before_sleep() noexcept {}
};

// N workers: the thread that calls, and N - 1 of the pool's own.
//
// Work arrives as phases: `count` items cut into chunks of `grain`. One 64-bit word holds the phase's number (epoch)
// and how many of its chunks are unclaimed; a claim takes one from it by compare-and-swap, so that a thread which slept
// through the end of its phase fails to claim instead of taking a chunk of another. A claimed chunk keeps the phase
// open until it is done, hence only a thread that holds one reads the phase's description.
//
// A pool does not survive fork(): in the child `open` throws std::logic_error, and destruction leaves the parent's
// threads alone. Do not open a session from inside a chunk.
template <class Hooks = NoHooks>
class BasicPool {
 public:
  class Session;

  explicit BasicPool(const PoolOptions& options) : BasicPool(options, usable_cpus()) {}

  BasicPool(const PoolOptions& options, const UsableCpus& cpus)
      : workers_(options.threads > 0 ? options.threads : cpus.default_workers()),
        // A spinning worker that shares its CPU keeps the thread that it waits for from running.
        spin_(cpus.spare(workers_) >= kSpareCpus ? options.spin : std::chrono::nanoseconds{0}),
        patience_(options.patience),
        owner_(getpid()) {
    const std::size_t cores = cpus.cores.size();
    const bool fits = cpus.spare(workers_) >= 0 && static_cast<std::size_t>(workers_) <= cores;
    const bool pin = cores > 0 && (options.pinning == Pinning::kOn || (options.pinning == Pinning::kAuto && fits));
    threads_ = std::make_unique<std::vector<std::thread>>();
    threads_->reserve(static_cast<std::size_t>(workers_ - 1));
    try {
      for (int index = 1; index < workers_; ++index) {
        const int cpu = pin ? cpus.cores[static_cast<std::size_t>(index) % cores] : -1;
        if (pin) pinned_.push_back(cpu);
        threads_->emplace_back([this, cpu] { serve(cpu); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  BasicPool(const BasicPool&) = delete;
  BasicPool& operator=(const BasicPool&) = delete;

  ~BasicPool() { close(); }

  int threads() const noexcept { return workers_; }
  bool spins() const noexcept { return spin_.count() > 0; }

  // The CPUs of workers that are pinned.
  const std::vector<int>& pinned() const noexcept { return pinned_; }

  // Whether workers stay awake between sessions, where the next one comes too soon for sleep to be worth it.
  void stay_awake(bool is_on) noexcept { awake_.store(is_on, std::memory_order_relaxed); }

  // Waits for the session in progress, then stops and joins the workers. Idempotent.
  void close() noexcept {
    if (getpid() != owner_) {
      static_cast<void>(threads_.release());  // the parent's threads do not exist here: nothing to join
      return;
    }
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return !is_taken_; });
    stop();
    free_.notify_all();
  }

  // Waits for the sessions of other threads. Throws PoolBusy when patience is over, std::runtime_error on a closed
  // pool.
  Session open(Turn turn = Turn::kFirst) {
    if (getpid() != owner_)
      throw std::logic_error("this pool was made before fork(): make another in the child process");
    // One session of the last turn at a time, also while it has stepped aside: its memory stays.
    std::unique_lock<std::mutex> alone;
    if (turn == Turn::kLast) alone = std::unique_lock(last_mutex_);
    std::unique_lock lock(mutex_);
    take(lock, turn);
    return Session(*this, turn, std::move(alone));
  }

  // Keeps sessions of the last turn from working until as many calls of `let_go`.
  void hold() noexcept {
    const std::lock_guard lock(mutex_);
    wanted_.fetch_add(1, std::memory_order_relaxed);
  }

  void let_go() noexcept {
    const std::lock_guard lock(mutex_);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
    free_.notify_all();
  }

 private:
  static constexpr int kSpareCpus = 2;
  static constexpr int kBriefSpins = 200;  // a few microseconds

  struct Phase {
    void (*invoke)(void* body, std::size_t begin, std::size_t end) = nullptr;
    void* body = nullptr;
    std::size_t first = 0;
    std::size_t count = 0;  // where it ends
    std::size_t grain = 0;
    std::uint32_t chunks = 0;
  };

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  static std::uint32_t left(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }

  bool is_wanted() const noexcept { return wanted_.load(std::memory_order_relaxed) > 0; }

  void take(std::unique_lock<std::mutex>& lock, Turn turn) {
    const bool is_first = turn == Turn::kFirst;
    const auto may_go = [&] {
      return !is_taken_ && (is_first || !is_wanted() || stop_.load(std::memory_order_relaxed));
    };
    wanted_.fetch_add(is_first, std::memory_order_relaxed);
    const bool has_it =
        is_first && patience_.count() > 0 ? free_.wait_for(lock, patience_, may_go) : (free_.wait(lock, may_go), true);
    wanted_.fetch_sub(is_first, std::memory_order_relaxed);
    if (!has_it || stop_.load(std::memory_order_relaxed)) free_.notify_all();  // who waited for this thread to go first
    if (!has_it) throw PoolBusy("another thread does not give the pool back");
    if (stop_.load(std::memory_order_relaxed)) throw std::runtime_error("the pool is closed");
    is_taken_ = true;
  }

  void give_back() noexcept {
    in_session_.store(false, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
    free_.notify_all();  // while it is locked: who is woken may destroy the pool
  }

  // Returns how many chunks were left undone, which only happens in the last turn: those at the end.
  std::uint32_t run(const Phase& phase, Turn turn) {
    phase_ = phase;
    failed_.store(false, std::memory_order_relaxed);
    pending_.store(phase.chunks, std::memory_order_relaxed);
    ++epoch_;
    claims_.store(static_cast<std::uint64_t>(epoch_) << 32 | phase.chunks, std::memory_order_release);
    bell_.fetch_add(1, std::memory_order_release);
    wake(phase.chunks - 1);
    const std::uint32_t undone = work(turn);
    for (int spins = 0; pending_.load(std::memory_order_acquire) != 0;) {
      if (spins < kBriefSpins) {
        ++spins;
        relax();
      } else {
        std::this_thread::yield();
      }
    }
    if (failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error_, nullptr));
    return undone;
  }

  // Wakes as many sleeping workers as can find something to do. One that is missed costs time only: the caller claims
  // whatever is left.
  void wake(std::uint32_t helpers) noexcept {
    if (helpers >= static_cast<std::uint32_t>(workers_ - 1)) {
      bell_.notify_all();
      return;
    }
    for (std::uint32_t helper = 0; helper < helpers; ++helper) bell_.notify_one();
  }

  // Claims and runs chunks of the current phase until none is left. In the last turn whoever opened the session claims
  // all the others when the pool is wanted: returns how many, and leaves them undone.
  std::uint32_t work(Turn turn = Turn::kFirst) noexcept {
    std::uint64_t word = claims_.load(std::memory_order_acquire);
    while (left(word) != 0) {
      Hooks::before_claim();
      const std::uint32_t claimed = turn == Turn::kLast && is_wanted() ? left(word) : 1;
      if (!claims_.compare_exchange_weak(word, word - claimed, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const bool is_leaving = turn == Turn::kLast && claimed > 1;
      if (!is_leaving) run_chunk(phase_.chunks - left(word));
      pending_.fetch_sub(claimed, std::memory_order_release);
      if (is_leaving) return claimed;
      word = claims_.load(std::memory_order_acquire);
    }
    return 0;
  }

  void run_chunk(std::uint32_t chunk) noexcept {
    if (failed_.load(std::memory_order_relaxed)) return;
    const std::size_t begin = phase_.first + chunk * phase_.grain;
    const std::size_t end = phase_.count - begin < phase_.grain ? phase_.count : begin + phase_.grain;
    try {
      phase_.invoke(phase_.body, begin, end);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  void serve(int cpu) noexcept {
    if (cpu >= 0) pin_this_thread(cpu);
    while (true) {
      const std::uint32_t heard = bell_.load(std::memory_order_acquire);
      work();
      if (stop_.load(std::memory_order_acquire)) return;
      if (!rings_soon(heard)) {
        Hooks::before_sleep();
        bell_.wait(heard, std::memory_order_acquire);
      }
    }
  }

  // Waits while waiting is likely to be short. Returns whether the bell has rung since `heard`.
  bool rings_soon(std::uint32_t heard) const noexcept {
    const auto rung = [&] { return bell_.load(std::memory_order_acquire) != heard; };
    for (int spins = 0; spins < kBriefSpins; ++spins) {
      if (rung()) return true;
      relax();
    }
    while (in_session_.load(std::memory_order_relaxed) || awake_.load(std::memory_order_relaxed)) {
      if (rung()) return true;
      std::this_thread::yield();
    }
    if (spin_.count() > 0) {
      const auto until = std::chrono::steady_clock::now() + spin_;
      while (std::chrono::steady_clock::now() < until) {
        if (rung()) return true;
        relax();
      }
    }
    return rung();
  }

  void stop() noexcept {
    stop_.store(true, std::memory_order_release);
    bell_.fetch_add(1, std::memory_order_release);
    bell_.notify_all();
    for (std::thread& thread : *threads_) thread.join();
    threads_->clear();
  }

  const int workers_;
  const std::chrono::nanoseconds spin_;
  const std::chrono::nanoseconds patience_;
  const pid_t owner_;
  std::vector<int> pinned_;
  std::mutex last_mutex_;  // of the session of the last turn
  std::mutex mutex_;       // guards what follows
  std::condition_variable free_;
  bool is_taken_ = false;                // by a session
  std::array<Workspace, 2> workspaces_;  // by turn: a session that steps aside keeps what it has there
  std::uint32_t epoch_ = 0;
  Phase phase_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  alignas(64) std::atomic<std::uint64_t> claims_{0};
  alignas(64) std::atomic<std::uint32_t> pending_{0};  // chunks not yet done
  std::atomic<bool> failed_{false};
  alignas(64) std::atomic<std::uint32_t> bell_{0};  // rung when a phase begins, and to stop
  std::atomic<bool> in_session_{false};
  std::atomic<int> wanted_{0};  // sessions of the first turn that wait, and holds; written while it is locked
  std::atomic<bool> awake_{false};
  std::atomic<bool> stop_{false};
  std::unique_ptr<std::vector<std::thread>> threads_;
};

// The right to run phases. While one is open the workers stay awake between its phases.
template <class Hooks>
class BasicPool<Hooks>::Session {
 public:
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (alone_) alone_.unlock();
    if (is_open_) pool_.give_back();
  }

  int threads() const noexcept { return pool_.workers_; }

  // Memory that stays until the session ends, aligned to 64 bytes; contents are left over from before.
  std::byte* scratch(std::size_t bytes) { return pool_.workspaces_[turn_ == Turn::kLast ? 1 : 0].reserve(bytes); }

  // Calls body(begin, end) for ranges of at most `grain` items that cover [0, count) once, on any thread and in any
  // order, and returns when all are done. Rethrows the first exception of a body; ranges not yet begun are dropped
  // then. In the last turn it may step aside, and throws std::runtime_error when the pool is closed meanwhile.
  template <class Body>
  void run(std::size_t count, std::size_t grain, Body&& body) {
    grain = grain == 0 ? 1 : grain;
    if (const std::size_t fit = count / UINT32_MAX + 1; grain < fit) grain = fit;
    for (std::size_t first = 0; first < count;) {
      first = run_from(first, count, grain, body);
      if (first < count) step_aside();
    }
  }

 private:
  friend class BasicPool;
  Session(BasicPool& pool, Turn turn, std::unique_lock<std::mutex> alone)
      : pool_(pool), turn_(turn), alone_(std::move(alone)) {}

  // Returns where it stopped.
  template <class Body>
  std::size_t run_from(std::size_t first, std::size_t count, std::size_t grain, Body& body) {
    const std::size_t chunks = (count - first - 1) / grain + 1;
    if (chunks == 1 || pool_.workers_ == 1) {
      for (std::size_t begin = first; begin < count; begin += grain) {
        if (begin > first && turn_ == Turn::kLast && pool_.is_wanted()) return begin;
        body(begin, count - begin < grain ? count : begin + grain);
      }
      return count;
    }
    using Plain = std::remove_reference_t<Body>;
    pool_.in_session_.store(true, std::memory_order_relaxed);
    const std::uint32_t undone = pool_.run(
        {[](void* self, std::size_t begin, std::size_t end) { (*static_cast<Plain*>(self))(begin, end); },
         const_cast<void*>(static_cast<const void*>(&body)), first, count, grain, static_cast<std::uint32_t>(chunks)},
        turn_);
    return undone == 0 ? count : first + (chunks - undone) * grain;
  }

  void step_aside() {
    pool_.in_session_.store(false, std::memory_order_relaxed);
    std::unique_lock lock(pool_.mutex_);
    is_open_ = pool_.is_taken_ = false;
    pool_.free_.notify_all();
    pool_.take(lock, turn_);
    is_open_ = true;
  }

  BasicPool& pool_;
  const Turn turn_;
  std::unique_lock<std::mutex> alone_;  // of the last turn
  bool is_open_ = true;
};

using Pool = BasicPool<>;

}  // namespace strata
