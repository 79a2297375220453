#include "tensora/ops/random/random_mt19937.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <numbers>
#include <vector>

#include "tensora/base/fork.h"
#include "tensora/base/mutex.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/random.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/topk.h"

// Registers nothing: the ops of random.cpp and its neighbours take their numbers from here.

namespace tensora {
namespace {

constinit std::atomic<bool> pytorch_numbers_wanted = false;

// The Mersenne Twister of Matsumoto and Nishimura (1998), with access to any position.
class Twister {
 public:
  explicit Twister(uint32_t seed) : seed_(seed) { start(); }

  uint32_t seed() const { return seed_; }
  uint64_t position() const { return block_ * kWords + used_; }

  uint32_t word() {
    if (used_ == kWords) next_block();
    uint32_t word = words_[used_++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9D2C5680u;
    word ^= (word << 15) & 0xEFC60000u;
    return word ^ (word >> 18);
  }

  void seek(uint64_t position) {
    const uint64_t block = position / kWords;
    if (block < block_) {
      const uint64_t kept = std::min<uint64_t>(block / kStride, kept_.size() - 1);
      words_ = kept_[kept];
      block_ = kept * kStride;
    }
    while (block_ < block) next_block();
    used_ = position % kWords;
  }

  // The last pair of normal numbers whose second one is not used yet.
  uint64_t pair = 0;
  double second = 0;

 private:
  static constexpr uint64_t kWords = 624, kShift = 397;
  static constexpr uint64_t kStride = 1024;  // blocks between states that are kept

  void start() {
    words_[0] = seed_;
    for (uint32_t i = 1; i < kWords; ++i)
      words_[i] = 1812433253u * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
    twist();
    block_ = used_ = 0;
    kept_.push_back(words_);
  }

  void next_block() {
    twist();
    ++block_;
    used_ = 0;
    if (block_ == kept_.size() * kStride) kept_.push_back(words_);
  }

  static uint32_t mixed(uint32_t high, uint32_t low) {
    const uint32_t both = (high & 0x80000000u) | (low & 0x7FFFFFFFu);
    return (both >> 1) ^ ((low & 1) ? 0x9908B0DFu : 0);
  }
  void twist() {
    constexpr uint64_t rest = kWords - kShift;
    for (uint64_t i = 0; i < rest; ++i)
      words_[i] = words_[i + kShift] ^ mixed(words_[i], words_[i + 1]);
    for (uint64_t i = rest; i + 1 < kWords; ++i)
      words_[i] = words_[i - rest] ^ mixed(words_[i], words_[i + 1]);
    words_[kWords - 1] = words_[kShift - 1] ^ mixed(words_[kWords - 1], words_[0]);
  }

  uint32_t seed_;
  uint64_t block_ = 0, used_ = 0;
  std::array<uint32_t, kWords> words_;
  std::vector<std::array<uint32_t, kWords>> kept_;
};

// Those of the seeds in use, the latest first. A generator's state is a seed and a position, so the
// twisters can be made again at any time.
struct Twisters {
  Twisters() { hold_over_fork(mutex); }

  Twister& of(uint32_t seed) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& twister) { return twister->seed() == seed; });
    if (found == all.end()) {
      if (all.size() == kMost) all.pop_back();
      all.insert(all.begin(), std::make_unique<Twister>(seed));
    } else {
      std::rotate(all.begin(), found, found + 1);
    }
    return *all.front();
  }

  static constexpr size_t kMost = 16;
  Mutex mutex;
  std::vector<std::unique_ptr<Twister>> all;
};

Twisters& twisters() {
  static Twisters* const kept = new Twisters;  // threads may draw while the process ends
  return *kept;
}

// Draws from the current generator while it lives.
//
// Note [A generator's offset under PyTorch's numbers]
// The lower 42 bits of PhiloxState::offset count the 32-bit words that were drawn. Normal numbers
// of small tensors come in pairs, of which the second waits for the next call; the upper 22 bits
// say how many words ago its pair was drawn, 0: none waits. So a state of 16 bytes is complete,
// unless more than four million words were drawn since; then the twister's own note of the pair
// counts.
class Draws {
 public:
  Draws() : lock_(twisters().mutex), generator_(current_generator()) {
    const PhiloxState state = generator_.state();
    seed_ = state.seed;
    twister_ = &twisters().of(static_cast<uint32_t>(state.seed));
    const uint64_t drawn = state.offset & kMostWords, ago = state.offset >> kWordBits;
    if (ago > 0 && !(ago == kFarthest && twister_->pair < drawn)) find_pair(drawn - ago);
    waits_ = ago > 0;
    twister_->seek(drawn);
  }
  ~Draws() {
    const uint64_t drawn = twister_->position();
    const uint64_t ago = waits_ ? std::min(drawn - twister_->pair, kFarthest) : 0;
    generator_.set_state({seed_, (drawn & kMostWords) | (ago << kWordBits)});
  }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  uint32_t word() { return twister_->word(); }
  uint64_t two_words() {
    const uint64_t high = word();
    return (high << 32) | word();
  }
  float unit_float() { return static_cast<float>(word() & 0xFFFFFFu) * 0x1p-24f; }
  double unit() { return static_cast<double>(two_words() & ((uint64_t{1} << 53) - 1)) * 0x1p-53; }

  double normal() {
    if (waits_) {
      waits_ = false;
      return twister_->second;
    }
    const double first = draw_pair();
    waits_ = true;
    return first;
  }

 private:
  static constexpr int kWordBits = 42;
  static constexpr uint64_t kMostWords = (uint64_t{1} << kWordBits) - 1;
  static constexpr uint64_t kFarthest = (uint64_t{1} << 22) - 1;

  void find_pair(uint64_t position) {
    if (twister_->pair == position && twister_->second != 0) return;
    twister_->seek(position);
    draw_pair();
  }
  double draw_pair() {
    twister_->pair = twister_->position();
    const double angle = 2 * std::numbers::pi * unit();
    const double radius = std::sqrt(-2 * std::log1p(-unit()));
    twister_->second = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

  std::lock_guard<Mutex> lock_;
  Generator& generator_;
  uint64_t seed_ = 0;
  Twister* twister_ = nullptr;
  bool waits_ = false;
};

// Dense, in the order of the memory of `like`.
Tensor dense_like(const Tensor& like, DType dtype) {
  return empty_strided(like.sizes(), kept_strides(like.sizes(), like.strides()), {.dtype = dtype});
}
DType computed(const Tensor& like) { return like.dtype() == kFloat64 ? kFloat64 : kFloat32; }

// Calls value(draws) for each element in the order of memory.
template <class T, class Value>
Tensor each(const Tensor& like, DType dtype, const Value& value) {
  const Tensor result = dense_like(like, dtype);
  T* const out = static_cast<T*>(result.data_ptr());
  Draws draws;
  for (int64_t i = 0, n = result.numel(); i < n; ++i) out[i] = static_cast<T>(value(draws));
  return result;
}
template <class Value>
Tensor each_floating(const Tensor& like, const Value& value) {
  return computed(like) == kFloat64 ? each<double>(like, kFloat64, value)
                                    : each<float>(like, kFloat32, value);
}

// Box and Muller's: eight radii, then eight angles. PyTorch is compiled with fused multiply-adds
// here and in uniform numbers.
template <class T>
void make_normal(T* block, T mean, T std) {
  for (int i = 0; i < 8; ++i) {
    const T radius = std::sqrt(T(-2) * std::log(1 - block[i]));
    const T angle = T(2 * std::numbers::pi) * block[i + 8];
    block[i] = std::fma(radius * std::cos(angle), std, mean);
    block[i + 8] = std::fma(radius * std::sin(angle), std, mean);
  }
}

template <class T>
void fill_normal(T* out, int64_t n, T mean, T std) {
  Draws draws;
  const auto draw = [&](T* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = std::is_same_v<T, double> ? static_cast<T>(draws.unit()) : T(draws.unit_float());
  };
  draw(out, n);
  parallel_for(n / 16, 512, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) make_normal(out + 16 * block, mean, std);
  });
  if (n % 16 == 0) return;
  draw(out + n - 16, 16);
  make_normal(out + n - 16, mean, std);
}

Tensor large_normal(const Tensor& like, const Normal& distribution) {
  const int64_t n = like.numel();
  if (like.dtype() == kFloat64) {
    const Tensor result = dense_like(like, kFloat64);
    fill_normal(static_cast<double*>(result.data_ptr()), n, distribution.mean, distribution.std);
    return result;
  }
  const float mean = static_cast<float>(distribution.mean);
  const float std = static_cast<float>(distribution.std);
  if (like.dtype() == kFloat32) {
    const Tensor result = dense_like(like, kFloat32);
    fill_normal(static_cast<float*>(result.data_ptr()), n, mean, std);
    return result;
  }
  // The 16-bit formats: whole blocks, of which the last one is moved to the end.
  const Tensor blocks = empty({(n + 15) / 16 * 16}, {.dtype = kFloat32});
  fill_normal(static_cast<float*>(blocks.data_ptr()), blocks.numel(), mean, std);
  if (n % 16 == 0) return reshape(blocks, like.sizes());
  const Tensor used =
      cat({narrow(blocks, 0, 0, n - 16), narrow(blocks, 0, blocks.numel() - 16, 16)});
  return reshape(used, like.sizes());
}

}  // namespace

void use_pytorch_numbers(bool on) { pytorch_numbers_wanted = on; }
bool uses_pytorch_numbers() { return pytorch_numbers_wanted.load(std::memory_order_relaxed); }
bool has_pytorch_numbers(const Tensor& like) { return uses_pytorch_numbers() && like.is_cpu(); }

Tensor pytorch_numbers(const Tensor& like, const Uniform& distribution) {
  if (like.dtype() == kFloat64)
    return each<double>(like, kFloat64, [&](Draws& draws) {
      return std::fma(draws.unit(), distribution.to - distribution.from, distribution.from);
    });
  const float from = static_cast<float>(distribution.from);
  const float range = static_cast<float>(distribution.to) - from;
  const Tensor numbers = each<float>(
      like, kFloat32, [&](Draws& draws) { return std::fma(draws.unit_float(), range, from); });
  if (like.dtype() == kFloat32) return numbers;
  const Tensor rounded = to(to(numbers, like.dtype()), kFloat32);
  return where(rounded == distribution.to, full_like(rounded, distribution.from), rounded);
}

Tensor pytorch_numbers(const Tensor& like, const Normal& distribution) {
  if (like.numel() >= 16 && like.is_contiguous()) return large_normal(like, distribution);
  return each_floating(
      like, [&](Draws& draws) { return draws.normal() * distribution.std + distribution.mean; });
}

Tensor pytorch_numbers(const Tensor& like, const Exponential& distribution) {
  return each_floating(
      like, [&](Draws& draws) { return -std::log1p(-draws.unit()) / distribution.lambd; });
}

Tensor pytorch_numbers(const Tensor& like, const Bernoulli& distribution) {
  return each<float>(like, kFloat32, [&](Draws& draws) { return draws.unit() < distribution.p; });
}

Tensor pytorch_numbers(const Tensor& like, const RandomInteger& distribution) {
  const uint64_t low = static_cast<uint64_t>(distribution.low);
  // Without bounds, the numbers of int64 include the largest one, and those of int32 take one word.
  const bool all = distribution.low == 0 && distribution.range == INT64_MAX;
  const uint64_t range = all ? uint64_t{1} << 63 : distribution.range;
  const bool all_of_int32 = like.dtype() == kInt32 && range == uint64_t{1} << 31;
  if (range < (uint64_t{1} << 28) || all_of_int32)
    return each<int64_t>(like, kInt64, [&](Draws& draws) { return draws.word() % range + low; });
  return each<int64_t>(like, kInt64, [&](Draws& draws) { return draws.two_words() % range + low; });
}

Tensor pytorch_numbers(const Tensor& like, const Cauchy& distribution) {
  return each_floating(like, [&](Draws& draws) {
    return distribution.median +
           distribution.sigma * std::tan(std::numbers::pi * (draws.unit() - 0.5));
  });
}

Tensor pytorch_numbers(const Tensor& like, const LogNormal& distribution) {
  return each_floating(like, [&](Draws& draws) {
    return std::exp(draws.normal() * distribution.std + distribution.mean);
  });
}

Tensor pytorch_numbers(const Tensor& like, const Geometric& distribution) {
  return each<double>(like, kFloat64, [&](Draws& draws) {
    return std::ceil(std::log(draws.unit()) / distribution.log_failure);
  });
}

Tensor pytorch_bernoulli(const Tensor& like, const Tensor& p) {
  const bool wide = p.dtype() == kFloat64;
  const Tensor uniform = each<double>(like, kFloat64, [&](Draws& draws) {
    return wide ? draws.unit() : static_cast<double>(draws.unit_float());
  });
  return to(uniform < to(p, kFloat64), kFloat32);
}

Tensor pytorch_permutation(int64_t n) {
  const Tensor result = empty({n}, {.dtype = kInt64});
  int64_t* const out = static_cast<int64_t*>(result.data_ptr());
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  Draws draws;
  const bool small = n < int64_t{UINT32_MAX} / 20;
  for (int64_t i = 0; i + 1 < n; ++i) {
    const uint64_t left = static_cast<uint64_t>(n - i);
    const uint64_t step = (small ? draws.word() : draws.two_words()) % left;
    std::swap(out[i], out[i + static_cast<int64_t>(step)]);
  }
  return result;
}

Tensor pytorch_multinomial(const Tensor& weights, int64_t num_samples, bool replacement) {
  if (!replacement || num_samples == 1) {
    const Tensor waits = exponential_(empty_like(weights), 1);
    const Tensor ratios = weights / waits;
    return num_samples == 1 ? argmax(ratios, -1, true) : std::get<1>(topk(ratios, num_samples, -1));
  }
  const Tensor rows = reshape(to(weights, kFloat64), {-1, weights.sizes().back()}).contiguous();
  const int64_t categories = rows.size(1);
  Shape sizes = weights.sizes();
  sizes[sizes.size() - 1] = num_samples;
  const Tensor result = empty(sizes, {.dtype = kInt64});
  int64_t* out = static_cast<int64_t*>(result.data_ptr());
  const double* row = static_cast<const double*>(rows.data_ptr());
  std::vector<double> sums(static_cast<size_t>(categories));
  Draws draws;
  for (int64_t r = 0; r < rows.size(0); ++r, row += categories) {
    double sum = 0;
    for (int64_t c = 0; c < categories; ++c) sums[static_cast<size_t>(c)] = sum += row[c];
    for (int64_t i = 0; i < num_samples; ++i) {
      const auto found = std::lower_bound(sums.begin(), sums.end(), draws.unit() * sum);
      *out++ = std::min<int64_t>(found - sums.begin(), categories - 1);
    }
  }
  return result;
}

}  // namespace tensora
