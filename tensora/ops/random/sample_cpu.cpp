#include <algorithm>
#include <atomic>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/generate.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/random/sample.h"

// Note [Shuffling by sorting]
// A permutation is the order of n random 64-bit keys (equal keys, which almost never occur, keep
// their order). Unlike swapping elements one after another this can be done in parallel, and gives
// the same permutation on every device. The keys are dealt into buckets by their leading bits,
// which are uniform, and each bucket is sorted by itself, in cache.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int kLanes = kPhiloxLanes;

// The 64 random bits of element i of an op that uses two words an element. See Note [Lanes].
uint64_t word_pair(uint64_t seed, uint64_t offset, int64_t i) {
  const int64_t block = i / (2 * kLanes), place = i % (2 * kLanes);
  const PhiloxWords words = philox(
      seed, offset + static_cast<uint64_t>(block) * kLanes + static_cast<uint64_t>(place % kLanes));
  const int k = place < kLanes ? 0 : 2;
  return (uint64_t{words.word[k]} << 32) | words.word[k + 1];
}

double unit_pair(uint64_t seed, uint64_t offset, int64_t i) {
  const uint64_t word = word_pair(seed, offset, i);
  return random_detail::unit(static_cast<unsigned>(word >> 32), static_cast<unsigned>(word));
}

struct Keyed {
  uint64_t key;
  int64_t index;
  bool operator<(const Keyed& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

void randperm_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  const int64_t n = out.numel;
  if (n == 0) return;
  int bits = 0;  // of buckets, so that each holds about a thousand keys
  while (bits < 16 && (n >> bits) > 1024) ++bits;
  const auto bucket_of = [&](uint64_t key) {
    return bits == 0 ? size_t{0} : static_cast<size_t>(key >> (64 - bits));
  };
  const size_t buckets = size_t{1} << bits;
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  parallel_for(n, 16 * 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      keys[static_cast<size_t>(i)] = word_pair(attrs.seed, attrs.offset, i);
  });
  std::vector<int64_t> starts(buckets + 1);
  for (const uint64_t key : keys) ++starts[bucket_of(key) + 1];
  for (size_t b = 0; b < buckets; ++b) starts[b + 1] += starts[b];
  std::vector<Keyed> dealt(static_cast<size_t>(n));
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = keys[static_cast<size_t>(i)];
    dealt[static_cast<size_t>(next[bucket_of(key)]++)] = {key, i};
  }
  const StoreFn store = store_fn<int64_t>(out.dtype);
  const int64_t step = out.strides[0] * static_cast<int64_t>(element_size(out.dtype));
  parallel_for(static_cast<int64_t>(buckets), 16, [&](int64_t begin, int64_t end) {
    const int64_t first = starts[static_cast<size_t>(begin)];
    for (int64_t b = begin; b < end; ++b)
      std::sort(dealt.begin() + starts[static_cast<size_t>(b)],
                dealt.begin() + starts[static_cast<size_t>(b) + 1]);
    for (int64_t i = first; i < starts[static_cast<size_t>(end)]; ++i)
      store(&dealt[static_cast<size_t>(i)].index, out.as<char>() + i * step, 1, 1);
  });
}

// ---- multinomial ------------------------------------------------------------------------------

enum class Fault { none, invalid, zero_sum, too_few };

// Draws by the cumulative weights: the category whose stretch holds the random point.
Fault draw_with_replacement(const MultinomialAttrs& attrs, int64_t row, std::vector<double>& w,
                            int64_t* to) {
  double sum = 0;
  size_t last = 0;  // the last category of weight above zero: rounding must not go beyond it
  for (size_t i = 0; i < w.size(); ++i) {
    if (w[i] > 0) last = i;
    w[i] = sum += w[i];
  }
  if (!(sum > 0)) return Fault::zero_sum;
  for (int64_t s = 0; s < attrs.num_samples; ++s) {
    const double point = sum * unit_pair(attrs.seed, attrs.offset, row * attrs.num_samples + s);
    const auto found = static_cast<size_t>(std::upper_bound(w.begin(), w.end(), point) - w.begin());
    to[s] = static_cast<int64_t>(std::min(found, last));
  }
  return Fault::none;
}

// A race: each category arrives after an exponential time of its own rate; the first ones are
// drawn. That is the distribution of drawing one after another without putting back.
Fault draw_without_replacement(const MultinomialAttrs& attrs, int64_t row, std::vector<double>& w,
                               int64_t* to) {
  std::vector<std::pair<double, int64_t>> arrivals;
  const int64_t categories = static_cast<int64_t>(w.size());
  for (int64_t i = 0; i < categories; ++i) {
    const double weight = w[static_cast<size_t>(i)];
    if (weight == 0) continue;
    const double u = 1 - unit_pair(attrs.seed, attrs.offset, row * categories + i);  // in (0, 1]
    arrivals.emplace_back(-random_detail::log_of(u) / weight, i);
  }
  if (arrivals.empty()) return Fault::zero_sum;
  if (static_cast<int64_t>(arrivals.size()) < attrs.num_samples) return Fault::too_few;
  std::partial_sort(arrivals.begin(), arrivals.begin() + attrs.num_samples, arrivals.end());
  for (int64_t s = 0; s < attrs.num_samples; ++s) to[s] = arrivals[static_cast<size_t>(s)].second;
  return Fault::none;
}

void multinomial_kernel(const KernelContext& context, const MultinomialAttrs& attrs) {
  const View &weights = context.input(0), &out = context.output();
  const int64_t categories = weights.sizes.back(), rows = weights.numel / categories;
  const LoadFn load = load_fn<double>(weights.dtype);
  std::atomic<Fault> fault = Fault::none;
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> w(static_cast<size_t>(categories));
    for (int64_t row = begin; row < end; ++row) {
      gather_rows(weights, load, row * categories, categories, w.data(), sizeof(double));
      Fault found = Fault::none;
      for (const double weight : w)
        if (!(weight >= 0) || weight > 1.7e308) found = Fault::invalid;
      int64_t* const to = out.as<int64_t>() + row * attrs.num_samples;
      if (found == Fault::none)
        found = attrs.replacement ? draw_with_replacement(attrs, row, w, to)
                                  : draw_without_replacement(attrs, row, w, to);
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
