// Stress test of the pool: sleepy workers, empty and tiny batches, many callers, exceptions, impatience, shutdown under
// load.
//
//     stress [BATCHES]      batches over all numbers of threads (default 100000)
//
// Bodies write plain memory, so that a sanitizer sees every chunk that runs twice or at the wrong time. Prints one line
// per scenario; exits with 1 and a message at the first violation.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "strata/pool.hpp"

namespace {

using strata::BasicPool;
using strata::NoHooks;
using strata::Pinning;
using strata::PoolOptions;
using strata::UsableCpus;
using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

std::atomic<std::uint32_t> seeds{1};
std::atomic<std::uint64_t> helped{0};  // chunks that ran on another thread than the caller's

std::mt19937& generator() {
  thread_local std::mt19937 random{seeds.fetch_add(1)};
  return random;
}

std::size_t below(std::size_t limit) { return generator()() % limit; }

void nap(std::size_t one_in) {
  if (below(one_in) == 0) std::this_thread::sleep_for(microseconds(below(300)));
}

// Puts threads to sleep between looking at the claims and taking one, and on their way to sleep.
struct Sleepy {
  static void before_claim() noexcept { nap(200); }
  static void before_sleep() noexcept { nap(50); }
};

// Sleeps so often with a claim half made that a thread wakes up in a later batch of the same number of chunks.
struct Late {
  static void before_claim() noexcept { nap(10); }
  static void before_sleep() noexcept {}
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::_Exit(1);
}

void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

// Many CPUs, so that workers spin; or the single one of a busy machine, so that they sleep.
UsableCpus pretended(bool many) {
  UsableCpus cpus;
  cpus.cores = {0};
  cpus.cpus = many ? 64 : 1;
  return cpus;
}

PoolOptions options(int threads, bool spins) {
  return {threads, spins ? microseconds(20) : microseconds(0), Pinning::kOff};
}

std::size_t some_count() {
  constexpr std::array<std::size_t, 8> kCounts = {0, 1, 2, 3, 7, 32, 100, 3000};
  return kCounts[below(kCounts.size())];
}

// Runs one batch and checks that every item ran exactly once.
template <class Session>
void run_batch(Session& session, std::vector<std::uint32_t>& items, std::uint32_t mark) {
  const std::size_t count = some_count();
  const std::size_t grain = below(4) == 0 ? count + below(3) : 1 + below(40);
  for (std::size_t i = 0; i < count; ++i) items[i] = 0;
  const std::thread::id caller = std::this_thread::get_id();
  session.run(count, grain, [&](std::size_t begin, std::size_t end) {
    if (std::this_thread::get_id() != caller) helped.fetch_add(1, std::memory_order_relaxed);
    nap(100);  // long enough for the others to wake up and claim
    require(begin < end && end <= count, "range outside the batch");
    for (std::size_t i = begin; i < end; ++i) items[i] += mark;
  });
  for (std::size_t i = 0; i < count; ++i) require(items[i] == mark, "an item did not run exactly once");
}

// Batches that differ in everything but the number of chunks: a claim that is carried over from one to the next would
// run the wrong items.
void lookalikes(int batches) {
  constexpr std::size_t kChunks = 4;
  const std::thread::id caller = std::this_thread::get_id();
  BasicPool<Late> pool(options(4, true), pretended(true));
  std::vector<std::uint32_t> items(4096);
  for (int batch = 0; batch < batches; ++batch) {
    const std::size_t grain = 1 + below(100);
    const std::size_t count = kChunks * grain;
    auto session = pool.open();
    for (std::size_t i = 0; i < count; ++i) items[i] = 0;
    session.run(count, grain, [&](std::size_t begin, std::size_t end) {
      require(end - begin == grain && end <= count, "range of another batch");
      if (std::this_thread::get_id() != caller) helped.fetch_add(1, std::memory_order_relaxed);
      nap(20);
      for (std::size_t i = begin; i < end; ++i) ++items[i];
    });
    for (std::size_t i = 0; i < count; ++i) require(items[i] == 1, "an item did not run exactly once");
  }
}

template <class Hooks>
void many_batches(int threads, bool spins, int batches) {
  BasicPool<Hooks> pool(options(threads, spins), pretended(spins));
  require(pool.threads() == threads, "number of threads");
  std::vector<std::uint32_t> items(4096);
  for (int batch = 0; batch < batches;) {
    auto session = pool.open();
    const std::size_t phases = 1 + below(4);
    for (std::size_t phase = 0; phase < phases && batch < batches; ++phase, ++batch) {
      run_batch(session, items, static_cast<std::uint32_t>(batch) + 1);
    }
    if (below(500) == 0) std::this_thread::sleep_for(microseconds(below(500)));
  }
}

void many_callers(int batches) {
  BasicPool<Sleepy> pool(options(3, true), pretended(true));
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      std::vector<std::uint32_t> items(4096);
      for (int batch = 0; batch < batches / 4; ++batch) {
        auto session = pool.open();
        run_batch(session, items, static_cast<std::uint32_t>(batch) + 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Sessions of the last turn step aside for others between chunks, and lose neither items nor what is in their memory.
void turns(int batches) {
  constexpr std::size_t kBytes = 4096;
  BasicPool<Sleepy> pool(options(3, true), pretended(true));
  std::atomic<int> inside{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> last;
  for (int caller = 0; caller < 2; ++caller) {
    last.emplace_back([&, caller] {
      std::vector<std::uint32_t> items(2048);
      while (!is_over.load()) {
        auto session = pool.open(strata::Turn::kLast);
        std::byte* memory = session.scratch(kBytes);
        std::fill_n(memory, kBytes, static_cast<std::byte>(caller + 1));
        std::fill(items.begin(), items.end(), 0u);
        session.run(items.size(), 1 + below(100), [&](std::size_t begin, std::size_t end) {
          inside.fetch_add(1);
          nap(20);
          for (std::size_t i = begin; i < end; ++i) ++items[i];
          inside.fetch_sub(1);
        });
        for (const std::uint32_t item : items) require(item == 1, "an item did not run exactly once");
        for (std::size_t i = 0; i < kBytes; ++i)
          require(memory[i] == static_cast<std::byte>(caller + 1), "memory of a session that stepped aside");
      }
    });
  }
  std::vector<std::thread> first;
  for (int caller = 0; caller < 2; ++caller) {
    first.emplace_back([&] {
      std::vector<std::uint32_t> items(4096);
      for (int batch = 0; batch < batches; ++batch) {
        const bool holds = below(2) == 0;
        if (holds) pool.hold();
        for (int again = 0; again < 3; ++again) {
          auto session = pool.open();
          require(inside.load() == 0, "a chunk of the last turn beside a session of the first");
          session.scratch(kBytes)[0] = std::byte{0xff};
          run_batch(session, items, static_cast<std::uint32_t>(batch) + 1);
          require(inside.load() == 0, "a chunk of the last turn beside a session of the first");
        }
        if (holds) pool.let_go();
        nap(5);
      }
    });
  }
  for (std::thread& caller : first) caller.join();
  is_over.store(true);
  for (std::thread& caller : last) caller.join();
}

// A session that has stepped aside for a hold ends with an error when the pool is closed.
void closed_aside(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    BasicPool<Sleepy> pool(options(2, true), pretended(true));
    pool.hold();
    std::atomic<bool> told{false};
    std::thread waiting([&] {
      try {
        pool.open(strata::Turn::kLast);
        fail("the last turn came although the pool was held");
      } catch (const std::runtime_error&) {
        told.store(true);
      }
    });
    std::this_thread::sleep_for(microseconds(below(500)));
    pool.close();
    waiting.join();
    require(told.load(), "nobody was told");
  }
}

void exceptions(int batches) {
  BasicPool<Sleepy> pool(options(4, false), pretended(false));
  std::vector<std::uint32_t> items(4096);
  for (int batch = 0; batch < batches; ++batch) {
    const std::size_t bad = below(64);
    auto session = pool.open();
    try {
      session.run(64, 1, [&](std::size_t begin, std::size_t) {
        if (begin == bad) throw std::range_error("item " + std::to_string(begin));
      });
      fail("the exception was lost");
    } catch (const std::range_error& error) {
      require(error.what() == "item " + std::to_string(bad), "another exception arrived");
    }
    run_batch(session, items, 1);
  }
}

// Nobody begins a chunk once a body has thrown: those that wait for it here are in flight, all others are dropped.
void dropped_chunks(int batches) {
  constexpr std::size_t kChunks = 4096;
  BasicPool<NoHooks> pool(options(4, true), pretended(true));
  for (int batch = 0; batch < batches; ++batch) {
    std::atomic<std::size_t> ran{0};
    std::atomic<bool> thrown{false};
    try {
      pool.open().run(kChunks, 1, [&](std::size_t begin, std::size_t) {
        ran.fetch_add(1, std::memory_order_relaxed);
        if (begin == 0) {
          thrown.store(true);
          throw std::range_error("the first");
        }
        while (!thrown.load()) std::this_thread::yield();
        std::this_thread::sleep_for(microseconds(100));
      });
      fail("the exception was lost");
    } catch (const std::range_error&) {
      require(ran.load() < kChunks, "chunks ran after an exception");
    }
  }
}

// Who waits longer than patience lasts is told so; the pool works on afterwards.
void impatience(int rounds) {
  PoolOptions impatient = options(2, true);
  impatient.patience = microseconds(500);
  BasicPool<Sleepy> pool(impatient, pretended(true));
  std::vector<std::uint32_t> items(4096);
  for (int round = 0; round < rounds; ++round) {
    {
      auto session = pool.open();
      std::thread([&] {
        try {
          pool.open();
          fail("the pool was given to two threads");
        } catch (const strata::PoolBusy&) {
          // What this scenario waits for.
        }
      }).join();
      run_batch(session, items, 1);
    }
    auto next = pool.open();
    run_batch(next, items, 1);
  }
}

void shutdown_under_load(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    BasicPool<Sleepy> pool(options(1 + static_cast<int>(below(4)), below(2) == 0), pretended(true));
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 2; ++caller) {
      callers.emplace_back([&] {
        std::vector<std::uint32_t> items(4096);
        try {
          while (true) {
            auto session = pool.open();
            run_batch(session, items, 1);
          }
        } catch (const std::runtime_error&) {
          // Closed: what this scenario waits for.
        }
      });
    }
    std::this_thread::sleep_for(microseconds(below(2000)));
    pool.close();
    pool.close();
    for (std::thread& caller : callers) caller.join();
  }
}

void start_and_stop(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const BasicPool<Sleepy> pool(options(1 + static_cast<int>(below(8)), below(2) == 0), pretended(below(2) == 0));
  }
}

template <class Scenario>
void timed(const std::string& name, const Scenario& scenario) {
  const auto start = Clock::now();
  helped.store(0);
  scenario();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  std::printf("%-36s ok  %6lld ms  %8llu chunks on other threads\n", name.c_str(), static_cast<long long>(took.count()),
              static_cast<unsigned long long>(helped.load()));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  const int batches = count > 1 ? std::atoi(arguments[1]) : 100'000;
  if (batches < 1) {
    std::fprintf(stderr, "usage: stress [BATCHES], a whole number above 0\n");
    return 2;
  }
  for (int threads = 1; threads <= 8; ++threads) {
    const std::string suffix = ", " + std::to_string(threads) + " threads";
    const bool spins = threads % 2 == 0;
    timed("batches" + suffix, [&] { many_batches<NoHooks>(threads, spins, batches / 16 + 1); });
    timed("batches, sleepy workers" + suffix, [&] { many_batches<Sleepy>(threads, spins, batches / 16 + 1); });
  }
  timed("lookalike batches", [&] { lookalikes(batches / 20 + 1); });
  timed("many callers", [&] { many_callers(batches / 20 + 4); });
  timed("turns", [&] { turns(batches / 200 + 4); });
  timed("closed aside", [&] { closed_aside(batches / 1000 + 1); });
  timed("exceptions", [&] { exceptions(batches / 100 + 1); });
  timed("dropped chunks", [&] { dropped_chunks(batches / 2000 + 1); });
  timed("impatience", [&] { impatience(batches / 1000 + 1); });
  timed("shutdown under load", [&] { shutdown_under_load(batches / 1000 + 1); });
  timed("start and stop", [&] { start_and_stop(batches / 500 + 1); });
  return 0;
}
