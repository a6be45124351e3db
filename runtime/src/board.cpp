#include "strata/hybrid/board.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <utility>

namespace strata {
namespace {

using protocol::kReleased;
using protocol::kSignals;
using protocol::Signal;
using protocol::WordInfo;
using protocol::WordKind;

constexpr int kBriefSpins = 500;                       // a few microseconds
constexpr std::chrono::milliseconds kLongestSleep{5};  // a writer that cannot wake anybody is seen after that

std::size_t index_of(Signal signal) noexcept { return static_cast<std::size_t>(signal); }

std::uint64_t bit(Signal signal) noexcept { return std::uint64_t{1} << index_of(signal); }

static_assert(protocol::kSignalCount <= 64);

}  // namespace

Board::Board(protocol::Signals& signals, std::vector<Signal> present, std::vector<SignalFault> faults)
    : signals_(signals), faults_(std::move(faults)) {
  for (const Signal signal : present) present_ |= bit(signal);
}

bool Board::has(Signal signal) const noexcept { return (present_ & bit(signal)) != 0; }

protocol::Word& Board::word(Signal signal) const noexcept {
  std::byte* at = reinterpret_cast<std::byte*>(&signals_) + kSignals[index_of(signal)].offset;
  return *reinterpret_cast<protocol::Word*>(at);
}

std::uint32_t Board::value(Signal signal) const noexcept {
  return std::atomic_ref(word(signal).value).load(std::memory_order_acquire);
}

const SignalFault* Board::fault_of(Signal signal, std::uint32_t ring) const noexcept {
  for (const SignalFault& fault : faults_) {
    if (fault.signal == signal && fault.ring == ring) return &fault;
  }
  return nullptr;
}

void Board::silence(Signal signal) noexcept { silenced_.fetch_or(bit(signal), std::memory_order_relaxed); }

bool Board::is_silenced(Signal signal) const noexcept {
  return (silenced_.load(std::memory_order_relaxed) & bit(signal)) != 0;
}

void Board::pause_for(std::chrono::nanoseconds time) const noexcept {
  using Clock = std::chrono::steady_clock;
  for (const auto until = Clock::now() + time; Clock::now() < until && !released();) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Board::store(Signal signal, std::uint32_t ring) noexcept {
  if (!has(signal) || is_silenced(signal)) return;
  // A release that comes in between must stand.
  std::atomic_ref value(word(signal).value);
  for (std::uint32_t seen = value.load(std::memory_order_relaxed);
       seen != kReleased && !value.compare_exchange_weak(seen, ring, std::memory_order_acq_rel);) {
  }
  wake_all(word(signal));
}

// A kernel's plain store may have come after a release, which must stand.
void Board::keep_released(Signal signal) noexcept {
  // Of two read-modify-writes one is first: either this one sees the release, or the release's words come after the
  // kernel's.
  bool is_released = false;
  if (released_.compare_exchange_strong(is_released, false, std::memory_order_acq_rel)) return;
  std::atomic_ref(word(signal).value).store(kReleased, std::memory_order_release);
}

void Board::raise_error(Signal signal, std::uint32_t ring, std::uint32_t value) {
  const SignalFault* fault = fault_of(signal, ring);
  if (fault != nullptr && fault->kind == SignalFault::Kind::kNever) return;
  if (fault != nullptr && fault->kind == SignalFault::Kind::kLate) pause_for(fault->delay);
  store(signal, value);
}

void Board::sleep_on(protocol::Word& word, std::uint32_t seen) const noexcept {
  const timespec limit{0, static_cast<long>(std::chrono::nanoseconds(kLongestSleep).count())};
  sleepers_.fetch_add(1, std::memory_order_acq_rel);
  syscall(SYS_futex, &word.value, FUTEX_WAIT_PRIVATE, seen, &limit, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

// After the word was written. A sleeper that counts itself too late to be seen here finds the word changed.
void Board::wake_all(protocol::Word& word) const noexcept {
  // Of two read-modify-writes one is first.
  if (sleepers_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  syscall(SYS_futex, &word.value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Board::watch(bool is_on) noexcept {
  watched_.store(is_on, std::memory_order_relaxed);
  if (!is_on) return;
  for (std::size_t index = 0; index < kSignals.size(); ++index) wake_all(word(static_cast<Signal>(index)));
}

bool Board::wait(Signal signal, std::uint32_t ring, std::optional<Time> until) const {
  if (!has(signal)) throw std::logic_error(std::string("nobody raises ") + kSignals[index_of(signal)].name);
  for (int spins = 0;; spins += spins < kBriefSpins ? 1 : 0) {
    const std::uint32_t seen = value(signal);
    if (seen == kReleased || released()) return false;
    if (seen >= ring) return true;
    const bool is_brief = spins < kBriefSpins;
    if (!is_brief && until && std::chrono::steady_clock::now() >= *until) return false;
    if (is_brief || watched_.load(std::memory_order_relaxed)) {
      __builtin_ia32_pause();
    } else {
      sleep_on(word(signal), seen);
    }
  }
}

void Board::release() noexcept {
  released_.exchange(true, std::memory_order_acq_rel);
  for (std::size_t index = 0; index < kSignals.size(); ++index) {
    const auto signal = static_cast<Signal>(index);
    if (kSignals[index].kind != WordKind::kRing) continue;
    std::atomic_ref(word(signal).value).store(kReleased, std::memory_order_release);
    wake_all(word(signal));
  }
}

std::string Board::describe() const {
  std::string text;
  for (std::size_t index = 0; index < kSignals.size(); ++index) {
    const auto signal = static_cast<Signal>(index);
    if (!has(signal)) continue;
    const WordInfo& info = kSignals[index];
    const std::uint32_t now = value(signal);
    text += std::string("  ") + info.name + " = " + (now == kReleased ? "released" : std::to_string(now)) + " (" +
            (info.writer == protocol::Side::kDevice ? "device" : "host") + "; " + info.raised + ")\n";
  }
  return text;
}

Signal signal_named(std::string_view name) {
  std::string known;
  for (std::size_t index = 0; index < kSignals.size(); ++index) {
    if (kSignals[index].name == name) return static_cast<Signal>(index);
    known += (known.empty() ? "" : ", ") + std::string(kSignals[index].name);
  }
  throw std::invalid_argument("unknown signal '" + std::string(name) + "': there are " + known);
}

SignalFault::Kind fault_named(std::string_view name) {
  if (name == "late") return SignalFault::Kind::kLate;
  if (name == "never") return SignalFault::Kind::kNever;
  if (name == "early") return SignalFault::Kind::kEarly;
  if (name == "twice") return SignalFault::Kind::kTwice;
  throw std::invalid_argument("unknown fault '" + std::string(name) + "': there are late, never, early, twice");
}

}  // namespace strata
