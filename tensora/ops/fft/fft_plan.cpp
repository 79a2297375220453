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
// Elements whose two buffers fit into the L2 cache.
constexpr int64_t kLongestAcross = 4096, kLongestAlong = 32768;
constexpr int64_t kAlongMultiple = 64;
constexpr int64_t kMostBytes = int64_t{64} << 20;

/// n rounded up to the lanes of the widest vectors.
template <class T>
int64_t whole_vectors(int64_t n) {
  constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  return (n + kLanes - 1) / kLanes * kLanes;
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

/// All real parts of e^(-2 pi i k / n), k < count, then all imaginary ones.
template <class T>
std::vector<T> roots_of(int64_t count, int64_t n) {
  std::vector<T> roots(static_cast<size_t>(2 * count));
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    T *const re = roots.data(), *const im = re + count;
    for (int64_t k = begin; k < end; ++k) write_root(k, n, re[k], im[k]);
  });
  return roots;
}

/// The radices of n; empty if one of these is too large. Powers of two become eights and, before
/// them, up to two fours; a line along vectors begins with two fours more.
std::vector<int64_t> radices_of(int64_t n, bool along) {
  std::vector<int64_t> result;
  for (int i = 0; along && i < 2; ++i, n /= 4) result.push_back(4);
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (twos == 1) {
    result.push_back(2);
    twos = 0;
  }
  for (; twos % 3 != 0; twos -= 2) result.push_back(4);
  for (int64_t prime = 3; prime <= kLargestRadix; prime += 2)
    for (; n % prime == 0; n /= prime) result.push_back(prime);
  for (; twos > 0; twos -= 3) result.push_back(8);
  if (n > 1) result.clear();
  return result;
}

/// The least product of 2, 3 and 5 that is not less than n; a multiple of `unit` unless that would
/// be much longer.
int64_t smooth_length(int64_t n, int64_t unit) {
  if (n <= 4 * unit) unit = 1;
  int64_t best = unit;
  while (best < n) best *= 2;
  for (int64_t fives = unit; fives < best; fives *= 5)
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
void spread_twiddles(FftPass<T>& pass) {
  for (int64_t table = 0; table < 2 * (pass.radix - 1); ++table)
    for (int64_t block = 0; block < pass.blocks; ++block)
      pass.element_twiddles.insert(
          pass.element_twiddles.end(), static_cast<size_t>(pass.stride),
          pass.twiddles[static_cast<size_t>(block * 2 * (pass.radix - 1) + table)]);
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
    if (plan.along && plan.passes.size() < 2) spread_twiddles(pass);
    plan.passes.push_back(std::move(pass));
    rest /= radix;
    stride *= radix;
  }
}

template <class T>
void split(FftPlan<T>& plan, int64_t columns, const FftKernel<T>& kernel) {
  const int64_t rows = plan.n / columns;
  plan.columns = fft_plan(columns, FftLines::lane_lines, kernel);
  plan.rows = fft_plan(rows, FftLines::lane_lines, kernel);
  using Twists = FftTwists;
  const Twists twists(columns);
  const int64_t groups = (rows + Twists::kGroup - 1) / Twists::kGroup;
  plan.twists.resize(static_cast<size_t>(groups * twists.count * 2 * Twists::kGroup));
  parallel_for(groups, 16, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * Twists::kGroup; j < std::min(end * Twists::kGroup, rows); ++j)
      for (int64_t twist = 0; twist < twists.count; ++twist) {
        const int64_t k = twist < Twists::kFine ? twist : (twist - Twists::kFine) * Twists::kFine;
        T* const re = plan.twists.data() + twists.at(twist, j);
        write_root(k * j, plan.n, re[0], re[Twists::kGroup]);
      }
  });
}

template <class T>
void add_convolution(FftPlan<T>& plan, const FftKernel<T>& kernel) {
  const int64_t n = plan.n, unit = kernel.lanes * kernel.lanes;
  const int64_t length = smooth_length(2 * n - 1, unit), padded = whole_vectors<T>(n);
  plan.convolution = fft_plan(length, FftLines::complex_lines, kernel);
  plan.chirp.resize(static_cast<size_t>(2 * padded));
  std::vector<T> filter(static_cast<size_t>(2 * length)), pairs(filter.size());
  int64_t square = 0;  // k * k modulo 2 n, without overflow
  for (int64_t k = 0; k < n; ++k) {
    T *const re = plan.chirp.data() + k, *const im = re + padded;
    write_root(square, 2 * n, *re, *im);
    square = (square + 2 * k + 1) % (2 * n);
    for (const int64_t at : {k, (length - k) % length}) {
      filter[static_cast<size_t>(2 * at)] = *re / static_cast<T>(length);
      filter[static_cast<size_t>(2 * at + 1)] = -*im / static_cast<T>(length);
    }
  }
  kernel.transform(*plan.convolution, filter.data(), pairs.data());
  for (const size_t part : {0, 1})
    for (size_t k = part; k < pairs.size(); k += 2) plan.spectrum.push_back(pairs[k]);
  if (length % unit || length > kLongestAlong) return;
  plan.convolution_columns = fft_plan(length / kernel.lanes, FftLines::lane_lines, kernel);
  plan.convolution_twists.resize(static_cast<size_t>(2 * length));
  for (int64_t at = 0; at < length; ++at) {
    T* const re = plan.convolution_twists.data() + at;
    write_root(at / kernel.lanes * (at % kernel.lanes), length, re[0], re[length]);
  }
}

template <class T>
std::shared_ptr<const FftPlan<T>> make_plan(int64_t n, FftLines lines, const FftKernel<T>& kernel) {
  const auto plan = std::make_shared<FftPlan<T>>();
  plan->n = n;
  if (lines == FftLines::real_lines) {
    plan->packed = fft_plan(n / 2, FftLines::complex_lines, kernel);
    plan->roots = roots_of<T>(n / 2 + 1, n);
    return plan;
  }
  if (n == 1) return plan;
  const bool across = lines == FftLines::lane_lines;
  plan->along = !across && n % kAlongMultiple == 0 && n <= kLongestAlong;
  const std::vector<int64_t> radices = radices_of(n, plan->along);
  if (radices.empty()) {
    plan->along = false;
    add_convolution(*plan, kernel);
    return plan;
  }
  if (across || plan->along || n <= kLongestAcross) add_passes(*plan, radices);
  if (!across && !plan->along && radices.size() > 1) split(*plan, columns_of<T>(n), kernel);
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
bool FftPlan<T>::runs_across() const {
  if (convolution) return convolution->runs_across();
  return n == 1 || (!passes.empty() && n <= kLongestAcross);
}

template <class T>
int64_t FftPlan<T>::bytes() const {
  size_t numbers =
      convolution_twists.size() + twists.size() + chirp.size() + spectrum.size() + roots.size();
  for (const FftPass<T>& pass : passes)
    numbers += pass.twiddles.size() + pass.roots.size() + pass.element_twiddles.size();
  return static_cast<int64_t>(sizeof(FftPlan) + numbers * sizeof(T));
}

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n, FftLines lines, const FftKernel<T>& kernel) {
  Cache<T>& kept = cache<T>();
  {
    const std::lock_guard lock(kept.mutex);
    const auto found = kept.plans.find({n, lines});
    if (found != kept.plans.end()) {
      found->second.used = ++kept.clock;
      return found->second.plan;
    }
  }
  std::shared_ptr<const FftPlan<T>> plan = make_plan(n, lines, kernel);
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
template std::shared_ptr<const FftPlan<float>> fft_plan(int64_t, FftLines, const FftKernel<float>&);
template std::shared_ptr<const FftPlan<double>> fft_plan(int64_t, FftLines,
                                                         const FftKernel<double>&);

}  // namespace tensora::cpu
