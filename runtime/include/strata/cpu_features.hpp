// What a CPU must support before code of a level may run on it.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

// Bits of a set of CPU features; the names are in cpu_features.cpp.
using CpuFeatures = std::uint32_t;

enum CpuFeature : CpuFeatures {
  kSse3 = 1u << 0,
  kSsse3 = 1u << 1,
  kSse41 = 1u << 2,
  kSse42 = 1u << 3,
  kPopcnt = 1u << 4,
  kAvx = 1u << 5,
  kAvx2 = 1u << 6,
  kFma = 1u << 7,
  kF16c = 1u << 8,
  kBmi = 1u << 9,
  kBmi2 = 1u << 10,
  kLzcnt = 1u << 11,
  kAvx512F = 1u << 12,
  kAvx512Bw = 1u << 13,
  kAvx512Cd = 1u << 14,
  kAvx512Dq = 1u << 15,
  kAvx512Vl = 1u << 16,
  kAvx512Vbmi = 1u << 17,
  kAvx512Bf16 = 1u << 18,
  kAvx512Vnni = 1u << 19,
};

// Which of these the compiler may use in this translation unit, from its own macros, whatever the flags were. What else
// a level's flags allow (MOVBE, XSAVE) every CPU with AVX2 has.
constexpr CpuFeatures compiled_features() {
  return 0u
#ifdef __SSE3__
         | kSse3
#endif
#ifdef __SSSE3__
         | kSsse3
#endif
#ifdef __SSE4_1__
         | kSse41
#endif
#ifdef __SSE4_2__
         | kSse42
#endif
#ifdef __POPCNT__
         | kPopcnt
#endif
#ifdef __AVX__
         | kAvx
#endif
#ifdef __AVX2__
         | kAvx2
#endif
#ifdef __FMA__
         | kFma
#endif
#ifdef __F16C__
         | kF16c
#endif
#ifdef __BMI__
         | kBmi
#endif
#ifdef __BMI2__
         | kBmi2
#endif
#ifdef __LZCNT__
         | kLzcnt
#endif
#ifdef __AVX512F__
         | kAvx512F
#endif
#ifdef __AVX512BW__
         | kAvx512Bw
#endif
#ifdef __AVX512CD__
         | kAvx512Cd
#endif
#ifdef __AVX512DQ__
         | kAvx512Dq
#endif
#ifdef __AVX512VL__
         | kAvx512Vl
#endif
#ifdef __AVX512VBMI__
         | kAvx512Vbmi
#endif
#ifdef __AVX512BF16__
         | kAvx512Bf16
#endif
#ifdef __AVX512VNNI__
         | kAvx512Vnni
#endif
      ;
}

// Features of this CPU that the operating system lets programs use.
CpuFeatures host_features();

// Names of a set, separated by spaces.
std::string feature_names(CpuFeatures features);

}  // namespace strata
