#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/random/random_tile.h"
#include "tensora/ops/random/sample.h"
#include "tensora/ops/random/sample_values.h"

// Note [Shuffling by sorting]
// A permutation is the order of n random 64-bit words, in each of which the number of the element
// takes the place of the lowest bits: it names the element and settles ties, which are too few to
// matter. Unlike swapping elements one after another this runs in parallel and gives the same
// permutation on every device. The leading bits are uniform, so distributing the words into buckets
// by them, and each bucket by the next bits, leaves almost nothing to sort.

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

constexpr int kBucketBits = 11;
using Starts = std::array<int64_t, (1 << kBucketBits) + 1>;

// Distributes n words into 2^bits buckets of `to` by the bits below `top`; starts[b] is where
// bucket b begins.
void deal(const uint64_t* words, uint64_t* to, int64_t n, int top, int bits, Starts& starts) {
  const auto bucket = [&](uint64_t word) { return (word >> (top - bits)) & ((1u << bits) - 1); };
  starts.fill(0);
  for (int64_t i = 0; i < n; ++i) ++starts[bucket(words[i]) + 1];
  for (size_t b = 0; b < size_t{1} << bits; ++b) starts[b + 1] += starts[b];
  Starts next = starts;
  for (int64_t i = 0; i < n; ++i) to[next[bucket(words[i])]++] = words[i];
}

void insertion_sort(uint64_t* words, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t word = words[i];
    int64_t k = i;
    for (; k > 0 && words[k - 1] > word; --k) words[k] = words[k - 1];
    words[k] = word;
  }
}

// The words agree in the bits from `top` up.
void sort_words(uint64_t* words, uint64_t* scratch, int64_t n, int top) {
  if (n <= 24) return insertion_sort(words, n);
  const int bits = std::min(kBucketBits, static_cast<int>(std::bit_width(uint64_t(n))) - 2);
  if (bits > top) return std::sort(words, words + n);
  Starts starts;
  deal(words, scratch, n, top, bits, starts);
  std::memcpy(words, scratch, static_cast<size_t>(n) * sizeof(uint64_t));
  for (size_t b = 0; b < size_t{1} << bits; ++b)
    if (const int64_t count = starts[b + 1] - starts[b]; count > 1)
      sort_words(words + starts[b], scratch + starts[b], count, top - bits);
}

void randperm_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  const int64_t n = out.numel;
  if (n == 0) return;
  const HostScratch<long long> numbers(n);
  const HostScratch<uint64_t> dealt(n);
  draw(RandomInteger{attrs.seed, attrs.offset, 0, 0}, numbers.data(), n);
  auto* const drawn = reinterpret_cast<uint64_t*>(numbers.data());
  uint64_t* const words = dealt.data();
  const uint64_t mask = std::bit_ceil(static_cast<uint64_t>(n)) - 1;
  for (int64_t i = 0; i < n; ++i) drawn[i] = (drawn[i] & ~mask) | static_cast<uint64_t>(i);
  Starts starts;
  deal(drawn, words, n, 64, kBucketBits, starts);
  const StoreFn store = store_fn<int64_t>(out.dtype);
  const int64_t step = out.strides[0] * static_cast<int64_t>(element_size(out.dtype));
  parallel_for(1 << kBucketBits, n < 100'000 ? 1 << kBucketBits : 16,
               [&](int64_t begin, int64_t end) {
                 for (int64_t b = begin; b < end; ++b) {
                   const int64_t first = starts[static_cast<size_t>(b)];
                   const int64_t count = starts[static_cast<size_t>(b) + 1] - first;
                   sort_words(words + first, drawn + first, count, 64 - kBucketBits);
                   for (int64_t i = first; i < first + count; ++i) words[i] &= mask;
                   store(words + first, out.as<char>() + first * step, out.strides[0], count);
                 }
               });
}

// ---- multinomial ------------------------------------------------------------------------------

enum class Fault { none, invalid, zero_sum, too_few };

// The largest weight, or -1 if one is not valid.
double largest_of(std::span<const double> weights) {
  double largest = 0;
  int valid = 1;
#pragma omp simd reduction(max : largest) reduction(& : valid)
  for (size_t i = 0; i < weights.size(); ++i) {
    valid &= is_valid_weight(weights[i]);
    largest = std::max(largest, weights[i]);
  }
  return valid ? largest : -1;
}

// The running sums of the weights as integers; the weights are overwritten. A product with a power
// of two is what integer_weight's ldexp gives, if there is such a number.
void sum_weights(std::span<double> w, int exponent, uint64_t* through) {
  const double factor = std::ldexp(1.0, exponent);
  uint64_t sum = 0;
  if (!std::isnormal(factor)) {
    for (const double weight : w) *through++ = sum += integer_weight(weight, exponent);
    return;
  }
#pragma omp simd
  for (size_t i = 0; i < w.size(); ++i) w[i] = w[i] > 0 ? std::max(w[i] * factor, 1.0) : 0.0;
  for (const double scaled : w)
    *through++ = sum += static_cast<uint64_t>(static_cast<int64_t>(scaled));
}

// Draws by the cumulative weights: the category whose interval holds the random point. See
// Note [Weights as integers].
Fault draw_with_replacement(std::span<double> w, double largest, std::span<const long long> words,
                            int64_t* to) {
  if (largest == 0) return Fault::zero_sum;
  const HostScratch<uint64_t> sums(std::ssize(w));
  sum_weights(w, weight_exponent(largest, std::ssize(w)), sums.data());
  const uint64_t *const begin = sums.data(), *const end = begin + w.size();
  for (const long long word : words) {
    const uint64_t point = RandomInteger::high_product(static_cast<uint64_t>(word), end[-1]);
    *to++ = std::upper_bound(begin, end, point) - begin;
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

void register_sample_cpu() {
  randperm_op.set_kernel(DeviceType::cpu, randperm_kernel);
  multinomial_op.set_kernel(DeviceType::cpu, multinomial_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
