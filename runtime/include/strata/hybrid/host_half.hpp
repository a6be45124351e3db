// The host half of a window: a thread that answers the device half's doorbell with the pool's rows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "strata/device/plan.hpp"
#include "strata/hybrid/board.hpp"
#include "strata/ops.hpp"

namespace strata {

// One half waited for the other in vain, or found that a signal and its data do not agree, or a plan that cannot be
// followed. what() is the report.
struct StallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One layer with routed experts, as both halves see it.
struct HybridLayer {
  const Experts* experts;
  const std::int32_t* slot_of_expert;  // [experts], -1: the CPU's
  std::uint8_t* asked = nullptr;       // [experts], set to 1 for those that a doorbell asked for; null: not told
};

// What a router chose for one layer. Entries of id -1 are nobody's.
struct Routed {
  int layer;  // index into the layers of the host half
  int tokens;
  int top_k;
  const float* x;           // [tokens, hidden]
  const std::int32_t* ids;  // [tokens, top_k]
  const float* weights;     // [tokens, top_k], or null: not published
};

struct HostHalfOptions {
  std::size_t hidden;
  int slots = 0;
  const std::int32_t* pcie_share = nullptr;  // see device::ResidentPlan
  std::int64_t* entries = nullptr;           // [2], doorbells' entries of experts with a slot, and all; null: not told
  // Experts with an entry of at least this weight come first, and partial_ready follows them; none: no split.
  std::optional<float> heavy_from;
  std::chrono::nanoseconds timeout;
  std::vector<protocol::Signal> present;  // with plan_ready the host half plans, without it the device half does
  std::vector<SignalFault> faults;
  int wedge = -1;  // a test's: a call of the pool does not come back before this file can be read
};

// Owns the words, the blocks, and the thread between them and the pool. Where the device half runs on a CPU, it calls
// `plan`, `publish` and `wait`, which run its kernels on the calling thread.
//
// Ring values count layers from 1 on. After `stop`, a stall or a failure all words are released and the object refuses
// to go on: make another one. It does not survive fork(): in the child it throws std::logic_error, `stop` and `end` do
// nothing, and all that it uses is left behind.
class HostHalf {
 public:
  // `pool` may be the caller's too: its sessions and the thread's take turns. `layers` outlive the object. Throws
  // std::invalid_argument for layers of another hidden size, and without `seq`, which the thread waits for.
  HostHalf(std::shared_ptr<Runner> pool, std::vector<HybridLayer> layers, HostHalfOptions options);
  HostHalf(const HostHalf&) = delete;
  HostHalf& operator=(const HostHalf&) = delete;
  ~HostHalf();

  const device::Plan& plan() const noexcept;
  const float* rows() const noexcept;  // [tokens * top_k, hidden]

  // The last ring value. Numbers end: make another object long before UINT32_MAX.
  std::uint32_t ring() const noexcept { return ring_; }

  // Makes the plan as the device half does. Throws StallError when it cannot be followed: an expert that is none, or
  // with `all_resident` one without a slot.
  void make_plan(const Routed& routed, bool all_resident);

  // Rings the doorbell; returns the ring value. Throws StallError when the words were released.
  std::uint32_t publish(const Routed& routed);

  // Waits until `signal` has reached `ring` and the data behind it are there. Throws StallError after the timeout,
  // when the thread has failed, and when word and stamp disagree; all words are released then.
  void wait(protocol::Signal signal, std::uint32_t ring);

  // For a device half whose kernels are elsewhere, and use words and blocks themselves. All that both halves see, in
  // whole pages; a word or the stamp of the data behind it, null where there are none; and the doorbell block.
  std::vector<std::pair<const void*, std::size_t>> memory() const;
  const std::uint32_t* word(protocol::Signal signal) const noexcept;
  const std::uint32_t* stamp(protocol::Signal signal) const noexcept;
  const void* doorbell() const noexcept;

  // A window of such a device half begins: the thread looks for its doorbell without sleeping. Throws StallError when
  // the words were released.
  void begin_window();

  // Sleeps until it has answered so many more ring values, which is all that the pool has to do for the window; until
  // the words were released; or for as long as the timeout.
  void await_answers(std::uint32_t rings);

  // It has ended, and has used so many ring values. Throws StallError when the halves did not meet.
  void end_window(std::uint32_t rings);

  // Releases every word and waits for the thread for as long as `patience`. Returns whether it has ended: one that is
  // stuck in the pool is left behind, with all that it uses, the pool too. Idempotent.
  bool stop(std::chrono::nanoseconds patience) noexcept;

  // What the destructor does: stops with the rest of half a second, which began with the first call of `stop` or `end`.
  bool end() noexcept;

  // Every word, as it stood before all were released, and what the thread is doing for how long.
  std::string report() const;

 private:
  struct State;

  void require_owner() const;
  [[noreturn]] void stalled(const std::string& why);

  std::shared_ptr<State> state_;
  std::uint32_t ring_ = 0;
};

}  // namespace strata
