// The two halves of a layer meet as they do in a window: a device thread publishes and waits, a host thread answers.
// Rows must be those of the activations that were published, round after round, for a thread sanitizer to watch.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "strata/device/flag_wait.hpp"
#include "strata/device/late_add.hpp"
#include "strata/device/publish.hpp"
#include "strata/device/rows_copy.hpp"
#include "strata/simt/inline.hpp"

namespace {

using namespace strata;

constexpr int kTokens = 3;
constexpr int kTopK = 2;
constexpr int kHidden = 40;
constexpr int kEntries = kTokens * kTopK;

struct Mapped {
  std::vector<std::byte> block = std::vector<std::byte>(device::doorbell_bytes(kHidden) + alignof(device::Doorbell));
  std::vector<float> rows = std::vector<float>(kEntries * kHidden);
  std::uint32_t sequence = 0;
  std::uint32_t rows_ready = 0;
  std::uint32_t error = 0;

  device::Doorbell* doorbell() {
    const auto address = reinterpret_cast<std::uintptr_t>(block.data());
    constexpr std::uintptr_t kAlign = alignof(device::Doorbell);
    return reinterpret_cast<device::Doorbell*>((address + kAlign - 1) / kAlign * kAlign);
  }
};

// Row (t, k) is the activations of token t times its id.
void serve(Mapped& mapped, std::uint32_t rounds) {
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    while (std::atomic_ref<std::uint32_t>(mapped.sequence).load(std::memory_order_acquire) < round) {
      std::this_thread::yield();
    }
    const device::Doorbell& doorbell = *mapped.doorbell();
    const float* x = device::activations_of(mapped.doorbell());
    for (int entry = 0; entry < kEntries; ++entry) {
      for (int i = 0; i < kHidden; ++i) {
        mapped.rows[static_cast<std::size_t>(entry * kHidden + i)] =
            x[entry / kTopK * kHidden + i] * static_cast<float>(doorbell.ids[entry]);
      }
    }
    std::atomic_ref<std::uint32_t>(mapped.rows_ready).store(round, std::memory_order_release);
  }
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

}  // namespace

int main(int, char** arguments) {
  const auto rounds = static_cast<std::uint32_t>(std::atoi(arguments[1]));
  Mapped mapped;
  std::thread host(serve, std::ref(mapped), rounds);
  std::vector<float> x(kTokens * kHidden);
  std::vector<float> rows(kEntries * kHidden);
  std::vector<float> residual(kTokens * kHidden);
  std::vector<float> weights(kEntries, 1.0f);
  std::vector<std::int32_t> ids(kEntries);
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + round % 100);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i + round % 7);
    std::fill(residual.begin(), residual.end(), 0.0f);
    simt::run_inline<device::Publish>({.x = x.data(),
                                       .ids = ids.data(),
                                       .weights = nullptr,
                                       .base = nullptr,
                                       .doorbell = mapped.doorbell(),
                                       .sequence = &mapped.sequence,
                                       .offset = round,
                                       .layer = 0,
                                       .tokens = kTokens,
                                       .top_k = kTopK,
                                       .hidden = kHidden});
    simt::run_inline<device::FlagWait>({.word = &mapped.rows_ready,
                                        .base = nullptr,
                                        .stamp = nullptr,
                                        .error = &mapped.error,
                                        .offset = round,
                                        .error_value = 1,
                                        .looks = 0,
                                        .nanoseconds = 60'000'000'000});
    require(mapped.error == 0, "the rows never came");
    simt::run_inline<device::RowsCopy>({.from = mapped.rows.data(),
                                        .owner = nullptr,
                                        .weights = nullptr,
                                        .to = rows.data(),
                                        .entries = kEntries,
                                        .hidden = kHidden,
                                        .which = device::Which::kAll,
                                        .threshold = 0.0f,
                                        .zero_others = false});
    simt::run_inline<device::LateAdd>({.rows = rows.data(),
                                       .owner = nullptr,
                                       .weights = weights.data(),
                                       .residual = residual.data(),
                                       .tokens = kTokens,
                                       .top_k = kTopK,
                                       .hidden = kHidden,
                                       .which = device::Which::kAll,
                                       .threshold = 0.0f});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t first = i / kHidden * kTopK;
      require(residual[i] == x[i] * static_cast<float>(ids[first]) + x[i] * static_cast<float>(ids[first + 1]),
              "rows of another round");
    }
  }
  host.join();
  std::printf("%u rounds\n", rounds);
}
