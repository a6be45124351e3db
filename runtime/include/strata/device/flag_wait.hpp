// Waits until the host has raised a word.
#pragma once

#include <cstdint>

#include "strata/device/ring.hpp"
#include "strata/gen/launches.hpp"
#include "strata/simt/simt.hpp"

namespace strata::device {

// Ends when the word is at least the value, compared as unsigned numbers, or when a limit is over: then the error word
// is raised to `error_value`, unless one more look finds the value. A limit is a number of looks or a time; 0 is none,
// and without both there is no wait.
//
// An error word that was raised before ends it too, a while later: a window that has failed waits once, and not in
// every layer that is still to come.
//
// With a `stamp`, the ring value of the data behind the word, the word must be exactly the value, and so must the
// stamp: a word that came early or twice raises the error word too, with kAhead or kUnstamped added.
struct FlagWait {
  using Launch = gen::FlagWaitLaunch;

  struct Args {
    const std::uint32_t* word;
    const std::uint32_t* base;
    const std::uint32_t* stamp;  // null: the word stands for itself
    std::uint32_t* error;
    std::uint32_t offset;
    std::uint32_t error_value;
    std::uint64_t looks;
    std::uint64_t nanoseconds;
    std::uint64_t* waited = nullptr;  // the time is added to it, in nanoseconds; null: not told
  };

  struct Shared {};

  static constexpr std::uint64_t kLooksBetweenErrors = 256;  // the error word is as far away as the word
  static constexpr std::uint32_t kAhead = 0x100;
  static constexpr std::uint32_t kUnstamped = 0x200;

  static const char* refusal(const Args& args) {
    if (!(args.word && args.error)) return "a null address";
    if (args.looks == 0 && args.nanoseconds == 0) return "a wait needs a limit, in looks or nanoseconds";
    if (args.error_value == 0) return "an error word of 0 says nothing";
    return nullptr;
  }

  static int blocks(const Args&) { return Launch::blocks(); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared&, const Args& args) {
    if (simt.thread() != 0) return;
    const std::uint32_t value = ring_value(args.base, args.offset);
    if (simt.acquire(args.word) >= value) return check(simt, args, value);
    const std::uint64_t start = args.nanoseconds == 0 && args.waited == nullptr ? 0 : simt.nanoseconds();
    for (std::uint64_t looks = 1;; ++looks) {
      const bool is_over = (args.looks != 0 && looks >= args.looks) ||
                           (args.nanoseconds != 0 && simt.nanoseconds() - start >= args.nanoseconds);
      if (is_over) break;
      if (looks % kLooksBetweenErrors == 0 && simt.acquire(args.error) != 0) return;
      simt.pause(looks);
      if (simt.acquire(args.word) < value) continue;
      if (args.waited != nullptr) *args.waited += simt.nanoseconds() - start;
      return check(simt, args, value);
    }
    // A thread that did not run for longer than the limit has not waited for that long.
    if (simt.acquire(args.word) >= value) return check(simt, args, value);
    simt.release(args.error, args.error_value);
  }

 private:
  template <simt::Simt S>
  STRATA_INLINE static void check(const S& simt, const Args& args, std::uint32_t value) {
    if (args.stamp == nullptr) return;
    if (simt.acquire(args.word) != value) {
      simt.release(args.error, args.error_value | kAhead);
    } else if (simt.acquire(args.stamp) != value) {
      simt.release(args.error, args.error_value | kUnstamped);
    }
  }
};

}  // namespace strata::device
