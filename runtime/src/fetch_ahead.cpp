#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "inputs.hpp"
#include "strata/intrinsics.hpp"
#include "strata/ops.hpp"

namespace strata {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kColumns = 2048;
constexpr std::size_t kPairs = 12;                         // of pieces, one for each kernel
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // of a worker, at most
constexpr std::size_t kMostBytes = std::size_t{96} << 20;  // of all pieces
constexpr double kWorthIt = 1.05;                          // below this it is noise

struct Free {
  void operator()(std::byte* at) const noexcept { ::operator delete(at, std::align_val_t{kHugePage}); }
};

// Zeros that no cache holds, in huge pages where there are such, as weights in the compute layout are.
std::unique_ptr<std::byte, Free> cold_zeros(Pool::Session& session, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kHugePage})));
  static_cast<void>(madvise(memory.get(), bytes, MADV_HUGEPAGE));
  session.run(bytes / kLine, kHugePage / kLine, [&](std::size_t begin, std::size_t end) {
    auto* at = reinterpret_cast<__m128i*>(memory.get() + begin * kLine);
    auto* const last = reinterpret_cast<__m128i*>(memory.get() + end * kLine);
    for (; at < last; ++at) _mm_stream_si128(at, _mm_setzero_si128());
    _mm_sfence();
  });
  return memory;
}

// The format that most models come in, where it has both kernels: the CPU decides, the formats agree. Null without it.
const formats::Info* timed_format(const LevelKernels& level) {
  for (const formats::Info& format : formats::all()) {
    const InterleavedKernels* kernels = level.formats[format.id]->interleaved;
    if (format.name == "q4_k" && kernels != nullptr && !kernels->interleaved_dot_ahead.empty()) return &format;
  }
  return nullptr;
}

bool measure(Runner& runner, const formats::Info& format) {
  const InterleavedKernels& kernels = *runner.kernels.formats[format.id]->interleaved;
  const std::size_t group_bytes = kColumns / format.block * kernels.block_bytes;
  const auto workers = static_cast<std::size_t>(runner.pool.threads());
  const std::size_t piece = std::min(workers * kPieceBytes, kMostBytes / (2 * kPairs));
  const std::size_t groups = at_least_one(piece / group_bytes);
  const std::vector<std::byte> input(input_bytes(format.activation, kColumns));
  std::vector<float> products(groups * kernels.rows);

  Pool::Session session = runner.pool.open();
  const auto memory = cold_zeros(session, 2 * kPairs * groups * group_bytes);
  const auto seconds = [&](const RowsDot& dot, std::size_t index) {
    const std::byte* weights = memory.get() + index * groups * group_bytes;
    const auto start = std::chrono::steady_clock::now();
    session.run(groups, at_least_one(groups / (4 * workers)), [&](std::size_t begin, std::size_t end) {
      const std::byte* from = input.data();
      float* to = products.data() + begin * kernels.rows;
      dot({weights + begin * group_bytes, group_bytes, (end - begin) * kernels.rows, kColumns, &from, &to});
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::array<double, kPairs> gains;
  for (std::size_t pair = 0; pair < kPairs; ++pair) {
    // Which one is first changes in turn.
    std::array<double, 2> taken;
    for (std::size_t turn = 0; turn < 2; ++turn) {
      const bool ahead = (pair + turn) % 2 == 1;
      const RowsDot& dot = ahead ? kernels.interleaved_dot_ahead.front() : kernels.interleaved_dot.front();
      taken[ahead ? 1 : 0] = seconds(dot, 2 * pair + turn);
    }
    gains[pair] = taken[0] / taken[1];
  }
  // Three of four pairs must agree: what else the machine does makes single ones say anything.
  const auto quarter = gains.begin() + kPairs / 4;
  std::nth_element(gains.begin(), quarter, gains.end());
  return *quarter > kWorthIt;
}

}  // namespace

bool fetching_ahead_pays(Runner& runner) {
  const formats::Info* format = timed_format(runner.kernels);
  if (format == nullptr) return false;
  static const bool pays = [&] {
    try {
      return measure(runner, *format);
    } catch (const std::bad_alloc&) {
      return false;  // memory that is this short is needed for other things
    }
  }();
  return pays;
}

}  // namespace strata
