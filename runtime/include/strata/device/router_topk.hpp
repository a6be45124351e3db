// Scores of the experts, and each token's best of them with their weights.
#pragma once

#include <cstdint>

#include "strata/device/limits.hpp"
#include "strata/device/order.hpp"
#include "strata/gen/launches.hpp"
#include "strata/inline.hpp"
#include "strata/kernels/elementwise.hpp"
#include "strata/simt/wave.hpp"

namespace strata::device {

// A wave per token. Experts are chosen by score plus bias, equals by the lower number; weights are the scores without
// the bias, in the order of choice.
//
// Logits that are not finite: an infinity counts as the largest finite number of its sign, a NaN as the lowest. So
// every score is a number, and ids are always those of top_k different experts.
struct RouterTopk {
  using Launch = gen::RouterTopkLaunch;

  struct Args {
    const float* logits;  // [tokens, experts]
    const float* bias;    // [experts], or null
    std::int32_t* ids;    // [tokens, top_k]
    float* weights;       // [tokens, top_k]
    int tokens;
    int experts;
    int top_k;
    bool sigmoid;     // scores are sigmoid(logit); else softmax over the experts
    bool normalised;  // weights are divided by their sum + 1e-20
    float scale;      // and multiplied by this at last
  };

  struct Shared {
    float scores[kMaxExperts];
    std::uint64_t orders[kMaxExperts];
    float chosen[kMaxTopK];
  };

  static const char* refusal(const Args& args) {
    if (args.tokens < 0) return "fewer than 0 tokens";
    if (args.tokens > 0 && !(args.logits && args.ids && args.weights)) return "a null address";
    if (args.experts < 1 || args.experts > kMaxExperts) return "experts must be from 1 to window.max_experts";
    if (args.top_k < 1 || args.top_k > kMaxTopK) return "top_k must be from 1 to window.max_top_k";
    if (args.top_k > args.experts) return "top_k is more than the experts";
    return nullptr;
  }

  static int blocks(const Args& args) { return Launch::blocks(args.tokens); }

  template <simt::Simt S>
  STRATA_INLINE static void run(const S& simt, Shared& shared, const Args& args) {
    const std::int64_t token = simt.block();
    const float* logits = args.logits + token * args.experts;
    std::int32_t* ids = args.ids + token * args.top_k;
    float* weights = args.weights + token * args.top_k;
    if constexpr (S::kWave == 1) {
      score(simt, shared, args, logits);
      choose(simt, shared, args, ids, weights);
    } else if (args.experts <= 4 * S::kWave) {
      OnLanes<S, 4>(simt, args, logits).choose(shared, ids, weights);
    } else {
      OnLanes<S, (kMaxExperts + S::kWave - 1) / S::kWave>(simt, args, logits).choose(shared, ids, weights);
    }
  }

 private:
  STRATA_INLINE static float finite(float logit) {
    constexpr float kLargest = 0x1.fffffep127f;
    if (!(logit >= -kLargest)) return -kLargest;
    return logit > kLargest ? kLargest : logit;
  }

  // What is known of the experts lane, lane + kWave, ..., of which a lane has up to `Own`: all in registers, as each
  // choice waits for the one before.
  template <simt::Simt S, int Own>
  struct OnLanes {
    const S& simt;
    const Args& args;
    float scores[Own];
    std::uint64_t orders[Own];  // 0 of those that are not there, or were taken

    STRATA_INLINE OnLanes(const S& s, const Args& a, const float* logits) : simt(s), args(a) {
      const float first = finite(logits[0]);
      float largest = first;
      unroll<Own>([&](auto j) STRATA_LAMBDA {
        scores[j] = is_there(j) ? finite(logits[expert(j)]) : first;
        largest = scores[j] > largest ? scores[j] : largest;
      });
      float divisor = 1.0f;
      if (args.sigmoid) {
        unroll<Own>([&](auto j) STRATA_LAMBDA { scores[j] = 1.0f / (1.0f + kernels::exp_clamped(-scores[j])); });
      } else {
        largest = simt::wave_max(simt, largest);
        simt::PartialSums<S> sums;
        unroll<Own>([&](auto j) STRATA_LAMBDA {
          scores[j] = kernels::exp_clamped(scores[j] - largest);
          if (is_there(j)) sums.sum[static_cast<int>(j) % simt::kSumsPerLane<S>] += scores[j];
        });
        divisor = sums.total(simt);
      }
      unroll<Own>([&](auto j) STRATA_LAMBDA {
        scores[j] /= divisor;
        orders[j] = 0;
        if (!is_there(j)) return;
        const float value = args.bias == nullptr ? scores[j] : scores[j] + args.bias[expert(j)];
        orders[j] = order_of(value, expert(j));
      });
    }

    STRATA_INLINE void choose(Shared& shared, std::int32_t* ids, float* weights) {
      float sum = 0.0f;
      for (int k = 0; k < args.top_k; ++k) {
        std::uint64_t best = orders[0];
        unroll<Own>([&](auto j) STRATA_LAMBDA { best = orders[j] > best ? orders[j] : best; });
        const std::uint64_t taken = simt::wave_max(simt, best);
        const int id = index_in(taken);
        float value = 0.0f;
        unroll<Own>([&](auto j) STRATA_LAMBDA {
          value = orders[j] == taken ? scores[j] : value;
          orders[j] = orders[j] == taken ? 0 : orders[j];
        });
        value = simt.shuffle(value, id % S::kWave);
        sum += value;
        if (simt.lane() == k % S::kWave) {
          ids[k] = id;
          shared.chosen[k] = value;
        }
      }
      const float divisor = args.normalised ? sum + 1e-20f : 1.0f;
      for (int k = simt.lane(); k < args.top_k; k += S::kWave) weights[k] = shared.chosen[k] / divisor * args.scale;
    }

   private:
    STRATA_INLINE int expert(int j) const { return j * S::kWave + simt.lane(); }
    STRATA_INLINE bool is_there(int j) const { return expert(j) < args.experts; }
  };

  // A lane that has all experts knows the best of every so many, so that taking one means looking at few others again.
  static constexpr int kOwnPerGroup = 32;
  template <simt::Simt S>
  static constexpr int kGroups = (kMaxExperts + S::kWave * kOwnPerGroup - 1) / (S::kWave * kOwnPerGroup);

  template <simt::Simt S>
  STRATA_INLINE static void score(const S& simt, Shared& shared, const Args& args, const float* logits) {
    const int experts = args.experts;
    float largest = finite(logits[0]);
    for (int i = simt.lane(); i < experts; i += S::kWave) {
      const float logit = finite(logits[i]);
      shared.scores[i] = logit;
      largest = logit > largest ? logit : largest;
    }
    float divisor = 1.0f;
    if (args.sigmoid) {
      for (int i = simt.lane(); i < experts; i += S::kWave) {
        shared.scores[i] = 1.0f / (1.0f + kernels::exp_clamped(-shared.scores[i]));
      }
    } else {
      largest = simt::wave_max(simt, largest);
      for (int i = simt.lane(); i < experts; i += S::kWave) {
        shared.scores[i] = kernels::exp_clamped(shared.scores[i] - largest);
      }
      divisor = simt::wave_sum(simt, experts, [&](int i) { return shared.scores[i]; });
    }
    for (int i = simt.lane(); i < experts; i += S::kWave) {
      const float value = shared.scores[i] / divisor;
      shared.scores[i] = value;
      shared.orders[i] = order_of(args.bias == nullptr ? value : value + args.bias[i], i);
    }
  }

  template <simt::Simt S>
  STRATA_INLINE static std::uint64_t best_of_group(const S& simt, const Shared& shared, int experts, int group) {
    const int first = group * kOwnPerGroup * S::kWave;
    const int last = first + kOwnPerGroup * S::kWave;
    std::uint64_t best = 0;
    for (int i = first + simt.lane(); i < (last < experts ? last : experts); i += S::kWave) {
      best = shared.orders[i] > best ? shared.orders[i] : best;
    }
    return best;
  }

  template <simt::Simt S>
  STRATA_INLINE static void choose(const S& simt, Shared& shared, const Args& args, std::int32_t* ids, float* weights) {
    const int groups = (args.experts + S::kWave * kOwnPerGroup - 1) / (S::kWave * kOwnPerGroup);
    std::uint64_t best[kGroups<S>];
    for (int group = 0; group < groups; ++group) best[group] = best_of_group(simt, shared, args.experts, group);
    float sum = 0.0f;
    for (int k = 0; k < args.top_k; ++k) {
      std::uint64_t taken = 0;
      for (int group = 0; group < groups; ++group) taken = best[group] > taken ? best[group] : taken;
      taken = simt::wave_max(simt, taken);
      const int id = index_in(taken);
      const int owner = id % S::kWave;
      float value = 0.0f;
      if (simt.lane() == owner) {
        value = shared.scores[id];
        shared.orders[id] = 0;
        const int group = id / (S::kWave * kOwnPerGroup);
        best[group] = best_of_group(simt, shared, args.experts, group);
      }
      value = simt.shuffle(value, owner);
      sum += value;
      if (simt.lane() == k % S::kWave) {
        ids[k] = id;
        shared.chosen[k] = value;
      }
    }
    const float divisor = args.normalised ? sum + 1e-20f : 1.0f;
    for (int k = simt.lane(); k < args.top_k; k += S::kWave) weights[k] = shared.chosen[k] / divisor * args.scale;
  }
};

}  // namespace strata::device
