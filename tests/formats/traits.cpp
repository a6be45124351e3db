// Prints for every format of integers how many are not the same for vector code as for scalar code.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "strata/formats.hpp"
#include "strata/gen/format_types.hpp"
#include "strata/inline.hpp"
#include "strata/simd/generic.hpp"

namespace {

template <class Format>
int differences() {
  using Isa = strata::simd::generic;
  using Bytes = std::array<std::int8_t, Isa::kBytes>;
  int bias = 0;
  if constexpr (requires { Format::kBias; }) bias = Format::kBias;
  int count = 0;
  std::uint32_t random = 1;
  for (int trial = 0; trial < 50; ++trial) {
    std::array<std::byte, Format::kBytes> block;
    for (std::byte& byte : block) byte = static_cast<std::byte>((random = random * 1664525u + 1013904223u) >> 24);
    const typename Format::template Vectors<Isa> vectors(Isa::Blocks{{block.data()}});
    strata::unroll<Format::kBlock / Bytes{}.size()>([&](auto step) {
      const Bytes found = strata::bit_cast<Bytes>(vectors.template quants<step>());
      for (std::size_t i = 0; i < found.size(); ++i) {
        count += found[i] - bias != Format::quant(block.data(), found.size() * step + i);
      }
    });
  }
  return count;
}

}  // namespace

int main() {
  for (const strata::formats::Info& format : strata::formats::all()) {
    const int count = strata::formats::visit(
        format.id, []<class Format>(std::type_identity<Format>) { return differences<Format>(); });
    std::printf("%s %d\n", format.name.data(), count);
  }
}
