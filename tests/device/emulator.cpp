#include "emulator.hpp"

#include <ucontext.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace strata::emulator {
namespace {

// A thread goes on until it has to wait for others: for the lanes of its wave or for its block.
enum class State { kReady, kExchange, kBallot, kBarrier, kDone };

constexpr const char* kNames[] = {"nothing", "a shuffle", "a ballot", "the block's barrier", "the end"};

thread_local Fibers* running = nullptr;  // where a fiber that begins finds its block

}  // namespace

class Fibers final : public Block {
 public:
  Fibers(int threads, int wave) : wave_(wave), order_(static_cast<std::size_t>(threads)), threads_(order_.size()) {
    if (threads % wave != 0) throw std::logic_error("a block has whole waves");
  }

  void run(std::uint64_t seed, const std::function<void(Block&)>& body) {
    running = this;
    body_ = &body;
    std::iota(order_.begin(), order_.end(), 0);
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(seed));
    for (Thread& thread : threads_) begin(thread);
    while (!all(0, threads_.size(), State::kDone)) {
      for (const int thread : order_) {
        if (at(thread).state == State::kReady) resume(thread);
        if (error_) std::rethrow_exception(error_);
      }
      release();
    }
  }

  int thread() const override { return current_; }

  std::uint64_t exchange(std::uint64_t value, int lane) override {
    at(current_).sent = value;
    wait(State::kExchange);
    return left(lane);
  }

  std::uint64_t left(int lane) override { return at(current_ - current_ % wave_ + lane).seen; }

  std::uint64_t ballot(bool predicate) override {
    at(current_).sent = predicate ? 1 : 0;
    wait(State::kBallot);
    std::uint64_t votes = 0;
    for (int lane = 0; lane < wave_; ++lane) votes |= at(current_ - current_ % wave_ + lane).seen << lane;
    return votes;
  }

  void barrier() override { wait(State::kBarrier); }
  void pause() override { wait(State::kReady); }

 private:
  static constexpr std::size_t kStackBytes = 128 * 1024;

  struct Thread {
    State state = State::kReady;
    std::uint64_t sent = 0;
    std::uint64_t seen = 0;  // what was sent when the wave was complete
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  };

  Thread& at(int thread) { return threads_[static_cast<std::size_t>(thread)]; }

  void begin(Thread& thread) {
    thread.state = State::kReady;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, [] { running->enter(); }, 0);
  }

  void enter() {
    arrived(nullptr);
    try {
      (*body_)(*this);
    } catch (...) {
      error_ = std::current_exception();
    }
    at(current_).state = State::kDone;
    leave(nullptr);
    swapcontext(&at(current_).context, &main_);
  }

  void wait(State state) {
    at(current_).state = state;
    const int self = current_;
    void* fake = nullptr;
    leave(&fake);
    swapcontext(&at(self).context, &main_);
    arrived(fake);
  }

  void resume(int thread) {
    current_ = thread;
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, at(thread).stack.get(), kStackBytes);
    swapcontext(&main_, &at(thread).context);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    swapcontext(&main_, &at(thread).context);
#endif
  }

  // A fiber goes; null: for good.
  void leave([[maybe_unused]] void** fake) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, main_stack_, main_bytes_);
#endif
  }

  void arrived([[maybe_unused]] void* fake) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, &main_stack_, &main_bytes_);
#endif
  }

  bool all(std::size_t first, std::size_t last, State state) const {
    const auto begin = threads_.begin();
    return std::all_of(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
                       [&](const Thread& thread) { return thread.state == state; });
  }

  void go_on(std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) threads_[i].seen = threads_[i].sent;
    for (std::size_t i = first; i < last; ++i) threads_[i].state = State::kReady;
  }

  // Lets those go on whose company is complete; throws when nobody can.
  void release() {
    const auto lanes = static_cast<std::size_t>(wave_);
    for (std::size_t first = 0; first < threads_.size(); first += lanes) {
      if (all(first, first + lanes, State::kExchange) || all(first, first + lanes, State::kBallot)) {
        go_on(first, first + lanes);
      }
    }
    if (all(0, threads_.size(), State::kBarrier)) go_on(0, threads_.size());
    const auto is = [&](State state) {
      return std::find_if(threads_.begin(), threads_.end(), [&](const Thread& t) { return t.state == state; });
    };
    if (is(State::kReady) != threads_.end() || all(0, threads_.size(), State::kDone)) return;
    std::string message = "threads of a block wait for each other for ever:";
    for (const State state : {State::kExchange, State::kBallot, State::kBarrier, State::kDone}) {
      const auto found = is(state);
      if (found == threads_.end()) continue;
      message +=
          " thread " + std::to_string(found - threads_.begin()) + " is at " + kNames[static_cast<int>(state)] + ";";
    }
    message.pop_back();
    throw std::logic_error(message);
  }

  int wave_;
  const std::function<void(Block&)>* body_ = nullptr;
  std::vector<int> order_;
  std::vector<Thread> threads_;
  std::exception_ptr error_;
  ucontext_t main_{};
  int current_ = 0;
  [[maybe_unused]] const void* main_stack_ = nullptr;
  [[maybe_unused]] std::size_t main_bytes_ = 0;
};

Processor::Processor(int threads, int wave) : fibers_(std::make_unique<Fibers>(threads, wave)) {}
Processor::~Processor() = default;

void Processor::run(std::uint64_t seed, const std::function<void(Block&)>& body) { fibers_->run(seed, body); }

}  // namespace strata::emulator
