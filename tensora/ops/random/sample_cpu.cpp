#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/random/random_tile.h"
#include "tensora/ops/random/sample.h"
#include "tensora/ops/random/sample_values.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class V, class Distribution>
void draw(const Distribution& distribution, V* to, int64_t n) {
  View view;
  view.data = to;
  view.sizes = Shape{n};
  view.strides = Strides{1};
  view.dtype = std::is_same_v<V, double> ? kFloat64 : kInt64;
  view.update();
  run_generate(view, random_tile<Distribution, V>, view.dtype, &distribution);
}

enum class Fault { none, invalid, zero_sum, too_few };

// The largest weight, or -1 if one is not valid. In lanes, so that the loop vectorises.
double largest_of(std::span<const double> weights) {
  constexpr size_t kLanes = 16;
  double largest[kLanes] = {};
  int64_t invalid[kLanes] = {};
  const auto take = [&](size_t i, size_t count) {
#pragma omp simd
    for (size_t j = 0; j < count; ++j) {
      const double weight = weights[i + j];
      invalid[j] |= is_valid_weight(weight) ? 0 : 1;
      largest[j] = weight > largest[j] ? weight : largest[j];
    }
  };
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) take(i, kLanes);
  take(i, weights.size() - i);
  for (const int64_t lane : invalid)
    if (lane) return -1;
  return *std::max_element(largest, largest + kLanes);
}

// The weights as integers; they are scaled in place. A product with a power of two is what
// integer_weight's ldexp gives, if there is such a number.
void make_integers(std::span<double> w, int exponent, uint64_t* to) {
  const double factor = std::ldexp(1.0, exponent);
  if (!std::isnormal(factor)) {
    for (const double weight : w) *to++ = integer_weight(weight, exponent);
    return;
  }
#pragma omp simd
  for (size_t i = 0; i < w.size(); ++i) {
    const double scaled = w[i] > 0 ? std::max(w[i] * factor, 1.0) : 0.0;
    to[i] = static_cast<uint64_t>(static_cast<int64_t>(scaled));
  }
}

// Draws by the cumulative weights: the category whose interval holds the random point. See
// Note [Weights as integers]. Only every 16th sum is kept: those of the block that a point falls
// into are added up again, which takes less time than to write and search all of them.
Fault draw_with_replacement(std::span<double> w, double largest, std::span<const long long> words,
                            int64_t* to) {
  constexpr int64_t kBlock = 16;
  if (largest == 0) return Fault::zero_sum;
  const int64_t n = std::ssize(w), blocks = (n + kBlock - 1) / kBlock;
  const HostScratch<uint64_t> integers(n), sums(blocks);
  make_integers(w, weight_exponent(largest, n), integers.data());
  uint64_t sum = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint64_t *const first = integers.data() + b * kBlock, *const last = integers.data() + n;
    sums.data()[b] = sum = std::accumulate(first, std::min(first + kBlock, last), sum);
  }
  for (const long long word : words) {
    uint64_t rest = RandomInteger::high_product(static_cast<uint64_t>(word), sum);
    const int64_t block = std::upper_bound(sums.data(), sums.data() + blocks, rest) - sums.data();
    if (block > 0) rest -= sums.data()[block - 1];
    int64_t category = block * kBlock;
    while (rest >= integers.data()[category]) rest -= integers.data()[category++];
    *to++ = category;
  }
  return Fault::none;
}

// A race: each category arrives after an exponential time of its own rate; the first ones are
// drawn. That is the distribution of successive draws without replacement.
Fault draw_without_replacement(std::span<const double> w, std::span<const double> times,
                               int64_t count, int64_t* to) {
  std::vector<std::pair<uint64_t, int64_t>> arrivals;
  arrivals.reserve(w.size());
  for (size_t i = 0; i < w.size(); ++i)
    if (w[i] > 0) arrivals.emplace_back(arrival(times[i], w[i]), static_cast<int64_t>(i));
  if (arrivals.empty()) return Fault::zero_sum;
  if (static_cast<int64_t>(arrivals.size()) < count) return Fault::too_few;
  std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
  for (int64_t s = 0; s < count; ++s) to[s] = arrivals[static_cast<size_t>(s)].second;
  return Fault::none;
}

void multinomial_kernel(const KernelContext& context, const MultinomialAttrs& attrs) {
  const View &weights = context.input(0), &out = context.output();
  const int64_t categories = weights.sizes.back(), rows = weights.numel / categories;
  const int64_t samples = attrs.num_samples;
  const int64_t per_row = attrs.replacement ? samples : categories;
  const HostScratch<long long> words(attrs.replacement ? rows * per_row : 0);
  const HostScratch<double> times(attrs.replacement ? 0 : rows * per_row);
  if (attrs.replacement)
    draw(RandomInteger{attrs.seed, attrs.offset, 0, 0}, words.data(), rows * per_row);
  else
    draw(Exponential{attrs.seed, attrs.offset}, times.data(), rows * per_row);
  const LoadFn load = load_fn<double>(weights.dtype);
  std::atomic<Fault> fault = Fault::none;
  parallel_for(rows, std::max<int64_t>(1, 4096 / categories), [&](int64_t begin, int64_t end) {
    std::vector<double> w(static_cast<size_t>(categories));
    const auto count = static_cast<size_t>(per_row);
    for (int64_t row = begin; row < end; ++row) {
      gather_rows(weights, load, row * categories, categories, w.data(), sizeof(double));
      int64_t* const to = out.as<int64_t>() + row * samples;
      const double largest = largest_of(w);
      Fault found = Fault::invalid;
      if (largest >= 0 && attrs.replacement)
        found = draw_with_replacement(w, largest, {words.data() + row * per_row, count}, to);
      else if (largest >= 0)
        found = draw_without_replacement(w, {times.data() + row * per_row, count}, samples, to);
      if (found != Fault::none) fault.store(found, std::memory_order_relaxed);
    }
  });
  const Fault seen = fault.load();
  check(seen != Fault::invalid, "multinomial: a weight is negative, infinite or NaN");
  check(seen != Fault::zero_sum, "multinomial: the weights of a row sum to zero");
  check(seen != Fault::too_few, "multinomial: cannot draw ", attrs.num_samples,
        " without replacement: a row has fewer categories of weight above zero");
}

}  // namespace

void register_sample_cpu() { multinomial_op.set_kernel(DeviceType::cpu, multinomial_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
