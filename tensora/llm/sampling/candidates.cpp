#include "tensora/llm/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tensora/base/check.h"
#include "tensora/base/math.h"
#include "tensora/ops/sampling/token_keys.h"

namespace tensora::llm {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Floats as integers of the same order.
uint32_t ordered(float value) { return static_cast<uint32_t>(token_key(value, 0) >> 32); }

float highest_of(std::span<const float> values) {
  float most = kForbidden;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < values.size(); ++i) most = values[i] > most ? values[i] : most;
  return most;
}

}  // namespace

int32_t Candidates::token(int64_t i) const { return token_of_key(keys_[i]); }
float Candidates::logit(int64_t i) const { return logit_of_key(keys_[i]); }

void Candidates::select(std::span<const float> logits, int64_t k, float floor) {
  keys_.clear();
  const auto allowed = [&](float logit) { return logit >= floor && logit > kForbidden; };
  const int64_t size = static_cast<int64_t>(logits.size());
  if (k == 0 || k >= size) {
    keys_.reserve(logits.size());
    for (size_t i = 0; i < logits.size(); ++i)
      if (allowed(logits[i])) keys_.push_back(token_key(logits[i], static_cast<unsigned>(i)));
    if (k != 0) std::sort(keys_.begin(), keys_.end(), std::greater<>());
    return;
  }
  // Candidates are gathered above a bound that rises as better ones are found. A block whose
  // highest logit is below the bound is passed over at the speed of memory.
  constexpr size_t kBlock = 64;
  const auto keep = [&] {
    if (std::ssize(keys_) <= k) return;
    std::nth_element(keys_.begin(), keys_.begin() + (k - 1), keys_.end(), std::greater<>());
    keys_.resize(static_cast<size_t>(k));
  };
  const size_t room = static_cast<size_t>(std::max<int64_t>(2 * k, k + 1024));
  uint64_t bound = 0;  // the k-th best so far
  keys_.reserve(room + kBlock);
  for (size_t start = 0; start < logits.size(); start += kBlock) {
    const auto block = logits.subspan(start, std::min(kBlock, logits.size() - start));
    const float most = highest_of(block);
    if (!allowed(most) || token_key(most, 0) < bound) continue;
    for (size_t i = 0; i < block.size(); ++i)
      if (allowed(block[i]) && token_key(block[i], static_cast<unsigned>(start + i)) > bound)
        keys_.push_back(token_key(block[i], static_cast<unsigned>(start + i)));
    if (keys_.size() > room) {
      keep();
      bound = keys_[static_cast<size_t>(k - 1)];
    }
  }
  keep();
  std::sort(keys_.begin(), keys_.end(), std::greater<>());
}

float Candidates::highest() const {
  return logit_of_key(*std::max_element(keys_.begin(), keys_.end()));
}

// Fills weights_ with e to the power of (logit - highest logit) and returns their sum.
double Candidates::weigh() {
  ensure(!keys_.empty(), "candidates: none is left");
  const float most = highest();
  weights_.resize(keys_.size());
  const uint64_t* keys = keys_.data();
  float* weights = weights_.data();
  const size_t size = keys_.size();
#pragma omp simd
  for (size_t i = 0; i < size; ++i) weights[i] = math::exp(logit_of_key(keys[i]) - most);
  double sum = 0;
  for (const float weight : weights_) sum += weight;
  return sum;
}

// The smallest t such that the elements of scratch_ up to t have the mass `target`. Each round
// halves the elements in question, so this is linear in their number.
template <class Mass, class MassOf>
uint64_t Candidates::threshold(Mass target, const MassOf& mass_of) {
  auto from = scratch_.begin(), to = scratch_.end();
  Mass before = 0;
  while (to - from > 32) {
    const auto middle = from + (to - from) / 2;
    std::nth_element(from, middle, to);
    Mass mass = 0;
    for (auto i = from; i < middle; ++i) mass += mass_of(*i);
    if (before + mass >= target) {
      to = middle;
    } else {
      before += mass;
      from = middle;
    }
  }
  std::sort(from, to);
  for (auto i = from; i < to; ++i) {
    before += mass_of(*i);
    if (before >= target) return *i;
  }
  return *(to - 1);
}

void Candidates::top_p(double mass) {
  if (size() < 2) return;
  const float most = highest();
  const auto weight = [&](uint64_t key) {
    return uint64_t{token_weight(logit_of_key(key) - most)};
  };
  uint64_t sum = 0;
  for (const uint64_t key : keys_) sum += weight(key);
  scratch_.resize(keys_.size());
  std::transform(keys_.begin(), keys_.end(), scratch_.begin(), std::bit_not<>());
  const uint64_t least = ~threshold(uint64_t{kept_mass(mass, sum)},
                                    [&](uint64_t inverse) { return weight(~inverse); });
  std::erase_if(keys_, [&](uint64_t key) { return key < least; });
}

void Candidates::typical(double mass) {
  if (size() < 2) return;
  const double sum = weigh();
  const double log_sum = std::log(sum);
  const float most = highest();
  const auto surprise = [&](uint64_t key) {
    return log_sum - static_cast<double>(logit_of_key(key) - most);
  };
  double entropy = 0;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (weights_[i] > 0) entropy += weights_[i] / sum * surprise(keys_[i]);
  // What is ordered is the distance from the entropy; the place breaks ties.
  const auto distance = [&](size_t place) {
    const auto away = static_cast<float>(std::abs(surprise(keys_[place]) - entropy));
    return uint64_t{ordered(away)} << 32 | place;
  };
  scratch_.resize(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) scratch_[i] = distance(i);
  const uint64_t most_distant =
      threshold(mass * sum, [&](uint64_t entry) { return weights_[static_cast<uint32_t>(entry)]; });
  size_t kept = 0;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (distance(i) <= most_distant) scratch_[kept++] = keys_[i];
  keys_.assign(scratch_.begin(), scratch_.begin() + static_cast<ptrdiff_t>(kept));
}

void Candidates::min_p(double part) {
  const float most = highest();
  std::erase_if(keys_, [&](uint64_t key) {
    return token_weight(logit_of_key(key) - most) < least_weight(part);
  });
}

void Candidates::drop_likely(double threshold) {
  if (size() < 2) return;
  const double sum = weigh();
  uint64_t last = ~uint64_t{0};
  for (size_t i = 0; i < keys_.size(); ++i)
    if (weights_[i] >= threshold * sum) last = std::min(last, keys_[i]);
  std::erase_if(keys_, [&](uint64_t key) { return key > last; });
}

void Candidates::scale(double factor) {
  const float most = highest();  // becomes zero
  for (uint64_t& key : keys_)
    key = token_key(colder(logit_of_key(key) - most, factor),
                    static_cast<unsigned>(token_of_key(key)));
}

void Candidates::limit_surprise(double bits) {
  const double least = std::exp2(-bits) * weigh();
  const uint64_t first = *std::max_element(keys_.begin(), keys_.end());
  size_t place = 0;
  std::erase_if(keys_, [&](uint64_t key) { return weights_[place++] < least && key != first; });
}

int32_t Candidates::draw(double uniform) {
  const float most = highest();
  const auto weight = [&](uint64_t key) { return token_weight(logit_of_key(key) - most); };
  uint64_t sum = 0, mass = 0;
  for (const uint64_t key : keys_) sum += weight(key);
  const uint64_t point = choice_point(static_cast<uint64_t>(uniform * 0x1p64), sum);
  for (const uint64_t key : keys_)
    if ((mass += weight(key)) > point) return token_of_key(key);
  return token_of_key(keys_[0]);
}

double Candidates::probability(int32_t token) {
  const double sum = weigh();
  for (size_t i = 0; i < keys_.size(); ++i)
    if (token_of_key(keys_[i]) == token) return weights_[i] / sum;
  return 0;
}

}  // namespace tensora::llm
