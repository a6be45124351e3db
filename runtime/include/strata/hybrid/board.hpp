// The host's hold on the words: raising, waiting, releasing, and saying how they stand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/gen/protocol/signals.hpp"

namespace strata {

// What a test does to one signal when it is raised for ring value `ring`.
struct SignalFault {
  enum class Kind {
    kLate,   // raised after `delay`
    kNever,  // not raised, neither then nor later
    kEarly,  // raised before the data behind it
    kTwice,  // raised for the next ring value as well
  };

  protocol::Signal signal;
  Kind kind;
  std::uint32_t ring;
  std::chrono::nanoseconds delay{0};
};

// The words of one window. One thread raises a word; any number may wait.
//
// `present` says which words exist; the others are not raised, and waiting for them is an error of the caller.
class Board {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Board(protocol::Signals& signals, std::vector<protocol::Signal> present, std::vector<SignalFault> faults = {});
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  bool has(protocol::Signal signal) const noexcept;
  std::uint32_t value(protocol::Signal signal) const noexcept;

  // Calls write(where) for the data behind a word, and raises it to `ring`, as the faults have it. A kernel's write
  // raises `where` itself. A word that does not exist is left alone, its data are written all the same.
  template <class Write>
  void raise(protocol::Signal signal, std::uint32_t ring, const Write& write) {
    const SignalFault* fault = fault_of(signal, ring);
    if (fault == nullptr && has(signal) && !is_silenced(signal)) {
      write(&word(signal).value);
      keep_released(signal);
      store(signal, ring);
      return;
    }
    std::uint32_t nowhere = 0;
    const auto is = [&](SignalFault::Kind kind) { return fault != nullptr && fault->kind == kind; };
    if (is(SignalFault::Kind::kEarly)) store(signal, ring);
    if (is(SignalFault::Kind::kEarly) || is(SignalFault::Kind::kLate)) pause_for(fault->delay);
    write(&nowhere);
    if (is(SignalFault::Kind::kNever)) silence(signal);
    store(signal, is(SignalFault::Kind::kTwice) ? ring + 1 : ring);
  }

  // Raises an error word to `value`, which is about ring value `ring`, as the faults have it.
  void raise_error(protocol::Signal signal, std::uint32_t ring, std::uint32_t value);

  // Waits until the word has reached `ring`, and returns true, or false once it has been released or `until` is over.
  // An idle waiter sleeps.
  bool wait(protocol::Signal signal, std::uint32_t ring, std::optional<Time> until = std::nullopt) const;

  // Whether waiters look without sleeping: for words that a device raises, which wakes nobody.
  void watch(bool is_on) noexcept;

  // For a kernel that looks at the word itself.
  const std::uint32_t* address(protocol::Signal signal) const noexcept { return &word(signal).value; }

  // Lets every waiter go, now and later. Idempotent.
  void release() noexcept;
  bool released() const noexcept { return released_.load(std::memory_order_acquire); }

  // One line per existing word: its value, and who was to raise it.
  std::string describe() const;

 private:
  protocol::Word& word(protocol::Signal signal) const noexcept;
  const SignalFault* fault_of(protocol::Signal signal, std::uint32_t ring) const noexcept;
  void store(protocol::Signal signal, std::uint32_t ring) noexcept;
  void keep_released(protocol::Signal signal) noexcept;
  void sleep_on(protocol::Word& word, std::uint32_t seen) const noexcept;
  void wake_all(protocol::Word& word) const noexcept;
  void silence(protocol::Signal signal) noexcept;
  bool is_silenced(protocol::Signal signal) const noexcept;
  void pause_for(std::chrono::nanoseconds time) const noexcept;

  protocol::Signals& signals_;
  std::uint64_t present_ = 0;               // one bit per signal
  std::atomic<std::uint64_t> silenced_{0};  // by a fault
  std::vector<SignalFault> faults_;
  std::atomic<bool> released_{false};
  std::atomic<bool> watched_{false};
  mutable std::atomic<int> sleepers_{0};
};

// The signal of a name. Throws std::invalid_argument listing the known ones.
protocol::Signal signal_named(std::string_view name);

// A fault by its name: late, never, early, twice. Throws std::invalid_argument for others.
SignalFault::Kind fault_named(std::string_view name);

}  // namespace strata
