// Registers nothing: tables of the kernels.
#include "tensora/ops/fft/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <utility>

#include "tensora/base/thread_pool.h"

namespace tensora::cpu {
namespace {

constexpr int64_t kLargestRadix = 31;
constexpr int64_t kLongestInLanes = 4096;  // elements: two buffers of them fit into the L2 cache
constexpr int64_t kMostBytes = int64_t{64} << 20;

template <class T>
constexpr int64_t kLanes = 32 / static_cast<int64_t>(sizeof(T));

template <class T>
int64_t whole_vectors(int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

/// Writes e^(-2 pi i k / n), exact at multiples of a quarter, and symmetric.
template <class T>
void write_root(int64_t k, int64_t n, T& re, T& im) {
  k %= n;
  const int64_t quarter = 4 * k / n, rest = 4 * k - quarter * n;
  const auto angle = [n](int64_t part) {
    return std::numbers::pi / 2 * (static_cast<double>(part) / static_cast<double>(n));
  };
  const bool steep = 2 * rest > n;
  const double c = steep ? std::sin(angle(n - rest)) : std::cos(angle(rest));
  const double s = steep ? std::cos(angle(n - rest)) : std::sin(angle(rest));
  const double x[] = {c, -s, -c, s}, y[] = {s, c, -s, -c};
  re = static_cast<T>(x[quarter]);
  im = static_cast<T>(-y[quarter]);
}

template <class T>
std::vector<T> roots_of(int64_t count, int64_t n) {
  std::vector<T> roots(static_cast<size_t>(2 * count));
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      T* const pair = roots.data() + 2 * k;
      write_root(k, n, pair[0], pair[1]);
    }
  });
  return roots;
}

/// The radices of n: fours first, then primes; empty if one of these is too large.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> result;
  for (; n % 4 == 0; n /= 4) result.push_back(4);
  for (int64_t prime = 2; prime <= kLargestRadix; ++prime)
    for (; n % prime == 0; n /= prime) result.push_back(prime);
  if (n > 1) result.clear();
  return result;
}

/// The least product of 2, 3 and 5 that is not less than n.
int64_t smooth_length(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5)
    for (int64_t odd = fives; odd < best; odd *= 3) {
      int64_t candidate = odd;
      while (candidate < n) candidate *= 2;
      best = std::min(best, candidate);
    }
  return best;
}

/// The factor of n for the columns: of those that leave few lanes empty, the nearest to the root.
template <class T>
int64_t columns_of(int64_t n) {
  int64_t best = 1;
  double least = std::numeric_limits<double>::max();
  const auto cost = [](int64_t length, int64_t lines) {
    return static_cast<double>(whole_vectors<T>(lines)) * static_cast<double>(length) *
           std::log2(static_cast<double>(length));
  };
  for (auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(n))) + 1; factor > 1;
       --factor) {
    if (n % factor) continue;
    for (const int64_t columns : {factor, n / factor}) {
      const double all = cost(columns, n / columns) + cost(n / columns, columns);
      if (all < 0.95 * least) {
        best = columns;
        least = all;
      }
    }
  }
  return best;
}

template <class T>
void add_passes(FftPlan<T>& plan, const std::vector<int64_t>& radices) {
  int64_t rest = plan.n, stride = 1;
  for (const int64_t radix : radices) {
    FftPass<T> pass{.radix = radix, .blocks = rest / radix, .stride = stride};
    pass.twiddles.resize(static_cast<size_t>(pass.blocks * (radix - 1) * 2));
    T* twiddle = pass.twiddles.data();
    for (int64_t block = 0; block < pass.blocks; ++block)
      for (int64_t j = 1; j < radix; ++j, twiddle += 2)
        write_root(block * j, rest, twiddle[0], twiddle[1]);
    if (radix % 2) pass.roots = roots_of<T>(radix, radix);
    plan.passes.push_back(std::move(pass));
    rest /= radix;
    stride *= radix;
  }
}

template <class T>
void split(FftPlan<T>& plan, int64_t columns, TransformLine<T> transform) {
  const int64_t rows = plan.n / columns;
  plan.columns = fft_plan(columns, FftLines::lane_lines, transform);
  plan.rows = fft_plan(rows, FftLines::lane_lines, transform);
  plan.row_length = whole_vectors<T>(rows);
  plan.twist_re.resize(static_cast<size_t>(columns * plan.row_length));
  plan.twist_im.resize(plan.twist_re.size());
  parallel_for(columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t j = 0; j < rows; ++j) {
        const auto at = static_cast<size_t>(k * plan.row_length + j);
        write_root(k * j, plan.n, plan.twist_re[at], plan.twist_im[at]);
      }
  });
}

template <class T>
void add_convolution(FftPlan<T>& plan, TransformLine<T> transform) {
  const int64_t n = plan.n, length = smooth_length(2 * n - 1);
  plan.convolution = fft_plan(length, FftLines::complex_lines, transform);
  plan.chirp.resize(static_cast<size_t>(2 * n));
  std::vector<T> filter(static_cast<size_t>(2 * length));
  plan.spectrum.resize(filter.size());
  int64_t square = 0;  // k * k modulo 2 n, without overflow
  for (int64_t k = 0; k < n; ++k) {
    T* const pair = plan.chirp.data() + 2 * k;
    write_root(square, 2 * n, pair[0], pair[1]);
    square = (square + 2 * k + 1) % (2 * n);
    for (const int64_t at : {k, (length - k) % length}) {
      filter[static_cast<size_t>(2 * at)] = pair[0] / static_cast<T>(length);
      filter[static_cast<size_t>(2 * at + 1)] = -pair[1] / static_cast<T>(length);
    }
  }
  transform(*plan.convolution, filter.data(), plan.spectrum.data());
}

template <class T>
std::shared_ptr<const FftPlan<T>> make_plan(int64_t n, FftLines lines, TransformLine<T> transform) {
  const auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  if (lines == FftLines::real_lines) {
    plan->packed = fft_plan(n / 2, FftLines::complex_lines, transform);
    plan->roots = roots_of<T>(n / 2 + 1, n);
    return plan;
  }
  if (n == 1) return plan;
  const std::vector<int64_t> radices = radices_of(n);
  if (radices.empty()) {
    add_convolution(*plan, transform);
    return plan;
  }
  const bool in_lanes = lines == FftLines::lane_lines;
  if (in_lanes || n <= kLongestInLanes) add_passes(*plan, radices);
  if (!in_lanes && radices.size() > 1) split(*plan, columns_of<T>(n), transform);
  return plan;
}

template <class T>
struct Cache {
  struct Kept {
    std::shared_ptr<const FftPlan<T>> plan;
    uint64_t used = 0;
  };
  std::mutex mutex;
  std::map<std::pair<int64_t, FftLines>, Kept> plans;
  uint64_t clock = 0;
  int64_t bytes = 0;

  void drop_oldest() {
    const auto oldest = std::min_element(
        plans.begin(), plans.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    bytes -= oldest->second.plan->bytes();
    plans.erase(oldest);
  }
};

template <class T>
Cache<T>& cache() {
  static auto* const kept = new Cache<T>;  // threads may transform while statics are destroyed
  return *kept;
}

}  // namespace

template <class T>
int64_t FftPlan<T>::bytes() const {
  size_t numbers =
      twist_re.size() + twist_im.size() + chirp.size() + spectrum.size() + roots.size();
  for (const FftPass<T>& pass : passes) numbers += pass.twiddles.size() + pass.roots.size();
  return static_cast<int64_t>(sizeof(FftPlan) + numbers * sizeof(T));
}

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n, FftLines lines, TransformLine<T> transform) {
  Cache<T>& kept = cache<T>();
  {
    const std::lock_guard lock(kept.mutex);
    const auto found = kept.plans.find({n, lines});
    if (found != kept.plans.end()) {
      found->second.used = ++kept.clock;
      return found->second.plan;
    }
  }
  std::shared_ptr<const FftPlan<T>> plan = make_plan(n, lines, transform);
  const std::lock_guard lock(kept.mutex);
  const auto [place, is_new] = kept.plans.try_emplace({n, lines});
  if (is_new) {
    place->second = {plan, ++kept.clock};
    kept.bytes += plan->bytes();
    while (kept.bytes > kMostBytes && kept.plans.size() > 1) kept.drop_oldest();
  }
  return plan;
}

template struct FftPlan<float>;
template struct FftPlan<double>;
template std::shared_ptr<const FftPlan<float>> fft_plan(int64_t, FftLines, TransformLine<float>);
template std::shared_ptr<const FftPlan<double>> fft_plan(int64_t, FftLines, TransformLine<double>);

}  // namespace tensora::cpu
