#pragma once

// Random programs over all dtypes: views, bit views, writes, casts, reductions, gathers and
// scatters, products, random ops, gradients, mistakes that are caught and that are not, branches on
// values, nested scopes and functions, modes that change, empty tensors.

#include <map>
#include <mutex>
#include <random>
#include <stdexcept>

#include "tensora/autograd/history.h"
#include "tensora/jit/compile.h"
#include "tensora/tensora.h"

namespace tensora::test {

inline constexpr DType kAny[] = {kBool,  kUInt8,   kInt8,     kInt16,   kInt32,
                                 kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

/// What programs do beside calling ops.
struct Habits {
  bool reads = false;      // read values, and branch on them
  bool gradients = false;  // need gradients, and run backward
  bool drops = false;      // let go of tensors
  bool stops = false;      // throw before the last step
  bool replays = false;    // make no tensors that are others in each run: they end a replay
};

/// What can be seen after a run.
struct Outcome {
  std::vector<Tensor> tensors;
  std::vector<std::string> texts;
};

/// A program is a seed: its choices depend on it, and on what it sees of its tensors. Its values
/// are small integers, so that sums are exact in any order.
class MixedProgram {
 public:
  explicit MixedProgram(uint64_t seed, Habits habits) : random_(seed), habits_(habits) {
    stop_ = habits.stops ? static_cast<int>(pick(size_t{kSteps})) : -1;
  }

  void run(std::span<const Tensor> inputs, const Tensor& captured) {
    pool_.assign(inputs.begin(), inputs.end());
    pool_.push_back(captured);
    if (habits_.gradients) add_leaves();
    for (int step = 0; step < kSteps; ++step) {
      if (step == stop_) throw std::runtime_error("the program stops");
      try {
        act();
      } catch (const Error& error) {
        texts_.emplace_back(error.what());
      }
      if (habits_.drops && pick(size_t{4}) == 0 && pool_.size() > 4)
        pool_.erase(pool_.begin() + static_cast<int64_t>(1 + pick(pool_.size() - 1)));
    }
    if (habits_.gradients) run_backward();
  }

  /// Also what was written to; takes the histories from all tensors, some of which own themselves
  /// through theirs.
  Outcome outcome(std::span<const Tensor> inputs, const Tensor& captured) {
    Outcome result{pool_, texts_};
    for (const Tensor& leaf : leaves_)
      result.tensors.push_back(leaf.grad().defined() ? leaf.grad() : leaf.detach());
    for (const Tensor& input : inputs) result.tensors.push_back(input);
    result.tensors.push_back(captured);
    for (Tensor& one : result.tensors) {
      if (AutogradMeta* const meta = autograd_meta_or_null(one)) {
        if (meta->view) autograd_meta(meta->view.base).grad_fn = nullptr;
        meta->grad_fn = nullptr;
      }
      one = one.detach();
    }
    return result;
  }
  std::vector<Tensor> results() const { return pool_; }

 private:
  static constexpr int kSteps = 16;

  size_t pick(size_t count) { return random_() % count; }
  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % uint64_t(count)); }
  const Tensor& any() { return pool_[pick(pool_.size())]; }
  void keep(const Tensor& tensor) { pool_.push_back(tensor); }

  static Tensor small(const Tensor& x) {
    if (x.dtype() == kBool) return x;
    return x.dtype() == kUInt8 ? clamp(x, 0, 8) : clamp(x, -8, 8);
  }
  // Something of `y` that can be broadcast to the sizes, or now and then cannot.
  Tensor fitted(const Tensor& y, const Shape& sizes) {
    if (can_broadcast_to(y.sizes(), sizes) || pick(size_t{20}) == 0) return y;
    if (y.dim() > 0 && sizes.size() > 0 && y.size(-1) == sizes[sizes.size() - 1] && y.numel() > 0)
      return y.reshape({-1, y.size(-1)}).select(0, 0);
    if (y.numel() == 0) return full({}, 2.0);
    return y.reshape({-1}).select(0, pick(y.numel()));
  }
  Tensor positions(int64_t count, int64_t bound) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(pick(bound));
    if (!habits_.replays) return tensor(list, {.dtype = kInt64});
    static std::mutex mutex;
    static std::map<std::vector<int64_t>, Tensor> known;
    const std::lock_guard lock(mutex);
    Tensor& one = known[list];
    if (!one.defined()) one = tensor(list, {.dtype = kInt64});
    return one;
  }

  void act() {
    const Tensor x = any(), y = any();
    switch (pick(size_t{12})) {
      case 0:
      case 1:
      case 2:
        return keep(small(computed(x, fitted(y, x.sizes()))));
      case 3:
        return keep(small(reduced(x)));
      case 4:
      case 5:
        return keep(viewed(x));
      case 6:
      case 7:
        if (x.numel() == 1 || !may_overlap_itself(x.sizes(), x.strides()))
          write(x, fitted(y, x.sizes()));
        return;
      case 8:
        return keep(small(moved(x, y)));
      case 9:
        return keep(small(indexed(x, y)));
      case 10:
        return keep(drawn(x));
      default:
        return act_otherwise(x, y);
    }
  }

  Tensor computed(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{20})) {
      case 0:
      case 1:
        return x + y;
      case 2:
        return x - y;
      case 3:
      case 4:
        return x * y;
      case 5:
        return maximum(x, y);
      case 6:
        return minimum(x, y) * 2;
      case 7:
        return where(x > y, x, y);
      case 8:
        return x >= y;
      case 9:
        return x.to(kAny[pick(std::size(kAny))]);
      case 10:
        return x.abs();
      case 11:
        return -x;
      case 12:
        return x.relu() + 1;
      case 13:
        return x.masked_fill(y != 0, 3);
      case 14:
        return logical_not(x);
      case 15:
        return bitwise_xor(x, y);
      case 16:
        return logical_and(x, y);
      case 17:
        return sign(x) - 2.5;
      case 18:
        return x.square();
      default:
        return floor(x * 0.5) + y;
    }
  }

  Tensor reduced(const Tensor& x) {
    const int64_t last = x.dim() == 0 ? 0 : -1;
    const bool keepdim = pick(size_t{2}) == 0;
    switch (pick(size_t{12})) {
      case 0:
        return x.sum();
      case 1:
        return x.sum({last}, keepdim);
      case 2:
        return x.sum({0}, keepdim);
      case 3:
        return x.amax({last}, true) - x;
      case 4:
        return x.amin({0});
      case 5:
        return x.any({last}, keepdim);
      case 6:
        return x.argmax(last, keepdim);
      case 7:
        return cumsum(x, last);
      case 8:
        return std::get<0>(sort(x, last, keepdim));
      case 9:
        return x.dim() < 2 ? count_nonzero(x) : x.sum({0, 1});
      case 10:
        return std::get<1>(max(x, last));
      default:
        return x.all() + x.sum({last}, true);
    }
  }

  Tensor viewed(const Tensor& x) {
    if (x.dim() == 0) return x.unsqueeze(0);
    const int64_t dim = pick(int64_t{x.dim()}), size = x.size(dim);
    switch (pick(size_t{12})) {
      case 0:
        return size == 0 ? x.unsqueeze(0) : x.select(dim, pick(size));
      case 1:
        return x.slice(dim, pick(size + 1), {}, 1 + pick(int64_t{2}));
      case 2:
        return x.transpose(dim, 0);
      case 3:
        return x.reshape({-1});
      case 4:
        return x.dim() < 4 ? x.unsqueeze(dim) : x.squeeze();
      case 5:
        return size == 1 ? x.expand(with_size(x.sizes(), dim, 3)) : x.detach();
      case 6:
        return x.dim() == 2 ? x.diagonal() : x.movedim({dim}, {0});
      case 7:
        return size < 2 ? x : x.unfold(dim, 2, 1 + pick(int64_t{2}));
      case 8:
        return split(x, std::max<int64_t>(1, size / 2), dim).back();
      case 9:
        return size % 2 ? x : x.unflatten(dim, {2, size / 2});
      case 10:
        return x.flatten();
      default:
        return x.narrow(dim, 0, size);
    }
  }
  static Shape with_size(Shape sizes, int64_t dim, int64_t size) {
    sizes[static_cast<int>(dim)] = size;
    return sizes;
  }

  static DType bits_of(DType dtype) {
    switch (element_size(dtype)) {
      case 2:
        return kInt16;
      case 4:
        return kInt32;
      default:
        return kInt64;
    }
  }

  void write(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{14})) {
      case 0:
        x.add_(y);
        break;
      case 1:
        x.mul_(y);
        break;
      case 2:
      case 3:
        x.copy_(y);
        break;
      case 4:
        x.fill_(static_cast<double>(pick(size_t{5})));
        break;
      case 5:
        x.masked_fill_(y > 1, 1);
        break;
      case 6:
        x.neg_();
        break;
      case 7:
        if (is_floating_point(x.dtype())) dropout_(x, 0.5);
        break;
      case 8:
        x.random_(0, 7);
        break;
      case 9:
        if (x.dim() > 0 && x.size(0) > 0) index_fill_(x, 0, positions(2, x.size(0)), 4);
        break;
      case 10:  // signs change through a view of the bits
        if (is_floating_point(x.dtype()) && !x.requires_grad())
          x.view(bits_of(x.dtype())).bitwise_xor_(Scalar(lowest(bits_of(x.dtype()))));
        return;
      case 11:
        if (x.dim() > 0 && x.size(0) > 1) x.slice(0, 1).copy_(x.slice(0, 0, -1));
        break;
      case 12:
        x.zero_();
        break;
      default:
        bernoulli_(x, 0.5);
        break;
    }
    if (x.dtype() != kBool) x.clamp_(x.dtype() == kUInt8 ? 0 : -8, 8);
  }
  static int64_t lowest(DType dtype) {
    return static_cast<int64_t>(~uint64_t{0} << (8 * element_size(dtype) - 1));
  }

  // Results that hold the elements elsewhere.
  Tensor moved(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{9})) {
      case 0:
        return x.contiguous();
      case 1:
        return cat({x.reshape({-1}), y.reshape({-1})});
      case 2:
        return x.numel() < 600 ? stack({x, x * 2}, 0).select(0, 1) : x;
      case 3:
        return x.dim() == 0 ? x.clone() : flip(x, {-1});
      case 4:
        return x.dim() == 0 ? x.clone() : roll(x, {1}, {-1});
      case 5:
        return x.numel() < 300 ? repeat(x, twice(x.dim())) : x;
      case 6:
        return x.dim() < 2 ? x : tril(x);
      case 7:
        return x.dim() == 0 ? x : pad(x, {1, 2});
      default:
        return x.clone();
    }
  }

  static Shape twice(int dim) {
    Shape repeats{2};
    while (repeats.size() < dim) repeats.push_back(2);
    return repeats;
  }

  Tensor indexed(const Tensor& x, const Tensor& y) {
    if (habits_.replays && x.dim() == 0) return x.clone();
    if (x.dim() == 0 || x.size(0) == 0) return zeros(x.sizes(), {.dtype = x.dtype()}).add_(1);
    const int64_t size = x.size(0);
    switch (pick(size_t{7})) {
      case 0:
        return index_select(x, 0, positions(3, size));
      case 1:
        return x.dim() != 1 ? x : gather(x, 0, positions(4, size));
      case 2:
        return x.dim() != 1 ? x
                            : scatter_add(x, 0, positions(4, 1), repeat(x.narrow(0, 0, 1), {4}));
      case 3:
        return index_add(x, 0, positions(1, size), x.narrow(0, 0, 1));
      case 4:
        return x.numel() == 0 ? x.clone() : take(x, positions(5, x.numel()));
      case 5:
        return x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(1) && x.dtype() == y.dtype()
                   ? matmul(x, y.transpose(0, 1))
                   : x.select(0, 0);
      default:
        return x.dim() == 2 && is_floating_point(x.dtype())
                   ? matmul(x, x.narrow(0, 0, 1).transpose(0, 1))
                   : x.clone();
    }
  }

  Tensor drawn(const Tensor& x) {
    const bool floats = is_floating_point(x.dtype());
    if (habits_.replays) return floats ? dropout(x, 0.5) : x.clone().random_(0, 5);
    switch (pick(size_t{7})) {
      case 0:
        return floats ? dropout(x, 0.5) : x.clone();
      case 1:
        return randint(-3, 4, x.sizes());
      case 2:
        return floor(rand(x.sizes(), {.dtype = floats ? x.dtype() : kFloat32}) * 6);
      case 3:
        return randperm(1 + pick(int64_t{9})).clamp(0, 8);
      case 4:
        return empty(x.sizes(), {.dtype = kBool}).bernoulli_(0.25);
      case 5:
        return floor(randn(x.sizes()).clamp(-4, 4)) + x;
      default:
        return full(x.sizes(), 2, {.dtype = x.dtype()});
    }
  }

  void act_otherwise(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{9})) {
      case 0: {
        const LazyScope inner;
        return keep(small(computed(x, fitted(y, x.sizes()))));
      }
      case 1:
        return keep(compile([&] { return small(computed(x, fitted(y, x.sizes()))); })());
      case 2: {
        const no_grad silent;
        return keep(small(computed(x, fitted(y, x.sizes()))));
      }
      case 3: {
        const OverrideScope<&Modes::deterministic> setting(true);
        return keep(small(reduced(x)));
      }
      case 4:
        if (!habits_.reads) return;
        texts_.push_back(x.numel() < 40 ? x.detach().to_string() : to_string(x.sizes()));
        return;
      case 5:  // sizes depend on values
        if (!habits_.reads || x.dim() == 0) return;
        return keep(small(pick(size_t{2}) ? x.masked_select(x > 0) : nonzero(x)));
      case 6:  // a branch on a value, and a write by the host
        if (!habits_.reads || x.numel() == 0 || x.requires_grad()) return;
        if (x.reshape({-1}).select(0, 0).to(kFloat64).item<double>() > 0)
          keep(small(computed(y, fitted(x, y.sizes()))));
        if (x.dtype() == kFloat32 && x.dim() == 1) x.at<float>({0}) = 3;
        return;
      case 7:
        if (habits_.replays) return;
        return keep(tensor({1.0, 2.0, static_cast<double>(pick(size_t{4}))}));
      default:
        return;
    }
  }

  void add_leaves() {
    for (Tensor& one : pool_) {
      if (!is_floating_point(one.dtype())) continue;
      leaves_.push_back(one.detach().clone().requires_grad_());
      one = leaves_.back() * 1;
    }
  }
  void run_backward() {
    Tensor loss = zeros({}, {.dtype = kFloat64});
    for (const Tensor& one : pool_)
      if (one.requires_grad()) loss = loss + one.sum().to(kFloat64);
    if (loss.requires_grad()) loss.backward();
    const no_grad silent;
    for (const Tensor& leaf : leaves_)
      if (leaf.grad().defined()) leaf.sub_(leaf.grad().clamp(-1, 1));
  }

  std::mt19937_64 random_;
  const Habits habits_;
  int stop_;
  std::vector<Tensor> pool_, leaves_;
  std::vector<std::string> texts_;
};

inline Tensor numbers(const Shape& sizes, DType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool is_signed = dtype != kBool && dtype != kUInt8;
  Tensor result = empty(sizes, {.dtype = kFloat64});
  double* const data = result.data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i)
    data[i] = static_cast<double>(random() % 9) - (is_signed ? 4 : 0);
  return result.to(dtype);
}

/// Three tensors, some of which are parts of others.
inline std::vector<Tensor> inputs_of(uint64_t program, uint64_t draw) {
  std::mt19937_64 random(program * 77 + 5);
  const int64_t widths[] = {0, 1, 3, 7, 16, 33, 65, 130}, heights[] = {1, 2, 5, 9};
  const auto next = [&] {
    // Now and then more elements than a thread or a tile takes.
    const int64_t height = random() % 16 == 0 ? 300 : heights[random() % 4];
    return numbers({height, widths[random() % 8]}, kAny[random() % std::size(kAny)],
                   random() + draw);
  };
  const Tensor x = next(), y = next(), z = next();
  switch (random() % 4) {
    case 0:
      return {x, x.transpose(0, 1), y};
    case 1:
      return {x, y, x.select(0, 0)};
    case 2:
      return {x.slice(1, 0, {}, 2), y, y};
    default:
      return {x, y, z};
  }
}

}  // namespace tensora::test
