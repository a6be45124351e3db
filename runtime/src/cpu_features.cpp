#include "strata/cpu_features.hpp"

namespace strata {
namespace {

struct Named {
  CpuFeature feature;
  const char* name;
  bool present;
};

template <class Visit>
void for_each_feature(const Visit& visit) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
#define STRATA_FEATURE(flag, text) visit(Named{flag, text, __builtin_cpu_supports(text) != 0})
#else
#define STRATA_FEATURE(flag, text) visit(Named{flag, text, false})
#endif
  STRATA_FEATURE(kSse3, "sse3");
  STRATA_FEATURE(kSsse3, "ssse3");
  STRATA_FEATURE(kSse41, "sse4.1");
  STRATA_FEATURE(kSse42, "sse4.2");
  STRATA_FEATURE(kPopcnt, "popcnt");
  STRATA_FEATURE(kAvx, "avx");
  STRATA_FEATURE(kAvx2, "avx2");
  STRATA_FEATURE(kFma, "fma");
  STRATA_FEATURE(kF16c, "f16c");
  STRATA_FEATURE(kBmi, "bmi");
  STRATA_FEATURE(kBmi2, "bmi2");
  STRATA_FEATURE(kLzcnt, "lzcnt");
  STRATA_FEATURE(kAvx512F, "avx512f");
  STRATA_FEATURE(kAvx512Bw, "avx512bw");
  STRATA_FEATURE(kAvx512Cd, "avx512cd");
  STRATA_FEATURE(kAvx512Dq, "avx512dq");
  STRATA_FEATURE(kAvx512Vl, "avx512vl");
  STRATA_FEATURE(kAvx512Vbmi, "avx512vbmi");
  STRATA_FEATURE(kAvx512Bf16, "avx512bf16");
  STRATA_FEATURE(kAvx512Vnni, "avx512vnni");
#undef STRATA_FEATURE
}

}  // namespace

CpuFeatures host_features() {
  CpuFeatures found = 0;
  for_each_feature([&](const Named& named) { found |= named.present ? named.feature : 0u; });
  return found;
}

std::string feature_names(CpuFeatures features) {
  std::string names;
  for_each_feature([&](const Named& named) {
    if ((features & named.feature) == 0) return;
    if (!names.empty()) names += ' ';
    names += named.name;
  });
  return names;
}

}  // namespace strata
