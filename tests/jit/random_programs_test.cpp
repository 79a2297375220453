// Random programs of ops, views and in-place writes: what is traced and compiled does exactly what
// the eager program does, to its outputs, its inputs and the tensors it captured.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "tensora/autograd/history.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/graph.h"
#include "tensora/jit/stats.h"
#include "tensora/tensora.h"
#include "tests/jit/training_program.h"

namespace tensora::test {
namespace {

constexpr int kSteps = 14;

/// The seeds of the programs. TENSORA_SOAK=n runs n times as many, for as long as one likes.
uint64_t programs() {
  const char* const soak = std::getenv("TENSORA_SOAK");
  return 300 * (soak ? std::max(1, std::atoi(soak)) : 1);
}

/// TENSORA_SOAK_SEED=n: other programs.
uint64_t first_program() {
  const char* const seed = std::getenv("TENSORA_SOAK_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 0;
}

/// Small integers as float64: all ops below are exact on them.
Tensor numbers(const Shape& sizes, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor result = empty(sizes, {.dtype = kFloat64});
  double* data = result.data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) data[i] = static_cast<double>(random() % 9) - 4;
  return result;
}

/// What programs do beside calling ops.
struct Habits {
  bool drops = false;  // let go of tensors that nobody will read again
  bool reads = false;  // read values, and branch on them
};

/// A program is a seed: its choices depend on it and on the shapes and strides it meets.
class Program {
 public:
  explicit Program(uint64_t seed, Habits habits = {}) : random_(seed), habits_(habits) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Tensor& captured) {
    pool_.assign(inputs.begin(), inputs.end());
    pool_.push_back(captured);
    for (int step = 0; step < kSteps; ++step) {
      const Tensor x = any(), y = any();
      const size_t kind = pick(size_t{3});
      if (kind == 0)
        pool_.push_back(computed(x, fitted(y, x.sizes())));
      else if (kind == 1)
        pool_.push_back(viewed(x));
      else if (x.numel() == 1 || !may_overlap_itself(x.sizes(), x.strides()))
        write(x, fitted(y, x.sizes()));
      if (habits_.reads && pick(size_t{6}) == 0 && is_positive(any()))
        pool_.push_back(computed(y, fitted(x, y.sizes())));
      if (habits_.drops && pick(size_t{3}) == 0 && pool_.size() > 3)
        pool_.erase(pool_.begin() + 1 + pick(static_cast<int64_t>(pool_.size()) - 1));
    }
    return pool_;
  }

  /// Takes the histories from all tensors. A tensor that an op has saved, and that was changed in
  /// place by a result of that op, owns itself through its history until backward reads it; as in
  /// PyTorch.
  void forget_histories() {
    for (const Tensor& one : pool_) {
      AutogradMeta* const meta = autograd_meta_or_null(one);
      if (!meta) continue;
      if (meta->view) autograd_meta(meta->view.base).grad_fn = nullptr;
      meta->grad_fn = nullptr;
    }
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % uint64_t(count)); }
  const Tensor& any() { return pool_[pick(pool_.size())]; }

  static bool is_positive(const Tensor& x) {
    return x.numel() > 0 && x.reshape({-1}).select(0, 0).item<double>() > 0;
  }

  // Something of `y` that can be broadcast to the sizes.
  Tensor fitted(const Tensor& y, const Shape& sizes) {
    if (y.sizes() == sizes || y.numel() == 0) return y.sizes() == sizes ? y : full({}, 2.0);
    return y.reshape({-1}).select(0, pick(y.numel()));
  }

  Tensor computed(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{11})) {
      case 8:
        return clamp(dropout(x, 0.5) + y, -8, 8);
      case 9:
        return floor(x.clone().uniform_(0, 5)) - x;
      case 10:
        return x.dim() < 2 ? x.abs() : x.sum({-1}, true).clamp(-8, 8).expand(x.sizes()) - x;
      case 0:
        return clamp(x + y, -8, 8);
      case 1:
        return clamp(x * y, -8, 8);
      case 2:
        return maximum(x, y) - 1;
      case 3:
        return x.dim() == 0 ? -x : x.sum({0}).clamp(-8, 8);
      case 4:
        return zeros(x.sizes(), {.dtype = kFloat64}).add_(y);
      case 5:
        return x.contiguous();
      case 6:
        return cat({x.reshape({-1}), y.reshape({-1})});
      default:
        return randint(-3, 4, x.sizes(), {.dtype = kFloat64});
    }
  }

  Tensor viewed(const Tensor& x) {
    if (x.dim() == 0) return x.unsqueeze(0);
    const int64_t dim = pick(int64_t{x.dim()});
    const int64_t size = x.size(dim);
    switch (pick(size_t{8})) {
      case 0:
        return size == 0 ? x : x.select(dim, pick(size));
      case 1:
        return x.slice(dim, pick(size + 1), {}, 1 + pick(int64_t{2}));
      case 2:
        return x.transpose(dim, 0);
      case 3:
        return x.reshape({-1});
      case 4:
        return x.dim() < 4 ? x.unsqueeze(dim) : x;
      case 5:
        return size == 1 ? x.expand(widened(x.sizes(), dim)) : x.detach();
      case 6:
        return x.dim() == 2 ? x.diagonal() : x;
      default:
        return x.narrow(dim, 0, size);
    }
  }

  static Shape widened(Shape sizes, int64_t dim) {
    sizes[static_cast<int>(dim)] = 3;
    return sizes;
  }

  void write(const Tensor& x, const Tensor& y) {
    switch (pick(size_t{7})) {
      case 0:
        x.add_(y).clamp_(-8, 8);
        return;
      case 1:
        x.mul_(y).clamp_(-8, 8);
        return;
      case 2:
        x.copy_(y);
        return;
      case 3:
        x.fill_(static_cast<double>(pick(size_t{5})));
        return;
      case 4:
        x.random_(-2, 3);
        return;
      case 5:
        x.masked_fill_(x > 0, 1);
        return;
      default:
        x.neg_();
        return;
    }
  }

  std::mt19937_64 random_;
  const Habits habits_;
  std::vector<Tensor> pool_;
};

/// Inputs that share memory with one another in some programs, and lie in different ways.
std::vector<Tensor> inputs_of(uint64_t program, uint64_t draw) {
  const Tensor x = numbers({4, 6}, 10 * draw + 1), y = numbers({6, 4}, 10 * draw + 2);
  const Tensor wide = numbers({5, 12}, 10 * draw + 3);
  switch (program % 4) {
    case 0:
      return {x, y};
    case 1:
      return {x, x.select(0, 2), y.transpose(0, 1)};
    case 2:
      return {x.select(1, 3), x, x};
    default:
      return {wide.slice(1, 2, 10, 2), y};
  }
}

std::vector<double> contents(const Tensor& tensor) { return to_vector<double>(tensor); }

/// Everything that can be seen after a run.
void expect_same(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(to_string(actual[i].sizes()), to_string(expected[i].sizes())) << "tensor " << i;
    ASSERT_EQ(to_string(actual[i].strides()), to_string(expected[i].strides())) << "tensor " << i;
    ASSERT_EQ(contents(actual[i]), contents(expected[i])) << "tensor " << i;
    for (size_t k = 0; k < i; ++k)
      ASSERT_EQ(actual[i].shares_storage(actual[k]), expected[i].shares_storage(expected[k]))
          << "tensors " << k << " and " << i;
  }
}

TEST(RandomPrograms, TracedEqualsEager) {
  for (uint64_t i = 0; i < programs(); ++i) {
    const uint64_t program = first_program() + i;
    SCOPED_TRACE(concat("program ", program));
    const Tensor captured = numbers({3, 4}, 77), captured_too = captured.clone();
    const auto running = [&](const Tensor& capture) {
      return [&capture, program](std::span<const Tensor> in) {
        return Program(program).run(in, capture);
      };
    };
    const jit::Graph graph = jit::trace(running(captured), inputs_of(program, 0));
    for (uint64_t draw = 0; draw < 3; ++draw) {
      std::vector<Tensor> here = inputs_of(program, draw), there = inputs_of(program, draw);
      manual_seed(draw);
      std::vector<Tensor> expected = running(captured_too)(there);
      manual_seed(draw);
      std::vector<Tensor> actual = jit::run(graph, here);
      actual.insert(actual.end(), here.begin(), here.end());
      actual.push_back(captured);
      expected.insert(expected.end(), there.begin(), there.end());
      expected.push_back(captured_too);
      expect_same(actual, expected);
      if (HasFailure()) {
        ADD_FAILURE() << jit::to_string(graph);
        return;
      }
    }
  }
}

// Everything that a run can leave behind: its tensors, the inputs, what it captured, gradients.
std::vector<Tensor> everything(uint64_t program, uint64_t draw, bool with_gradients) {
  // With a history, what is let go of may own itself; see forget_histories.
  const Habits habits{.drops = !with_gradients && program % 2 == 1, .reads = program % 3 == 0};
  const Tensor captured = numbers({3, 4}, 77);
  std::vector<Tensor> inputs = inputs_of(program, draw);
  manual_seed(draw);
  std::vector<Tensor> leaves, given = inputs;
  if (with_gradients) {
    for (Tensor& input : given) {
      leaves.push_back(input.detach().clone().requires_grad_());
      input = leaves.back() * 1;
    }
  }
  std::vector<Tensor> results;
  std::string refusal;
  Program running(program, habits);
  try {
    results = running.run(given, captured);
    if (with_gradients) {
      Tensor loss = zeros({}, {.dtype = kFloat64});
      for (const Tensor& result : results)
        if (result.requires_grad()) loss = loss + result.sum();
      if (loss.requires_grad()) loss.backward();
    }
  } catch (const Error& error) {  // a write that autograd refuses
    refusal = error.what();
  }
  if (!refusal.empty()) results = {tensor(static_cast<int64_t>(refusal.size())).to(kFloat64)};
  results.insert(results.end(), inputs.begin(), inputs.end());
  results.push_back(captured);
  for (const Tensor& leaf : leaves)
    results.push_back(leaf.grad().defined() ? leaf.grad() : zeros({}, {.dtype = kFloat64}));
  for (Tensor& result : results) result = result.detach();
  running.forget_histories();
  return results;
}

TEST(RandomPrograms, LazyEqualsEager) {
  for (const bool with_gradients : {false, true})
    for (uint64_t i = 0; i < 2 * programs(); ++i) {
      const uint64_t program = first_program() + i;
      SCOPED_TRACE(concat("program ", program, with_gradients ? " with gradients" : ""));
      const std::vector<Tensor> eager = everything(program, 1, with_gradients);
      for (const Fuse fuse : {Fuse::nothing, Fuse::what_pays, Fuse::everything}) {
        std::vector<Tensor> lazily;
        {
          const LazyScope lazy({.fuse = fuse, .strict = true});
          lazily = everything(program, 1, with_gradients);
        }
        expect_same(lazily, eager);
        if (HasFailure()) return;
      }
      // The plans that were kept, with other values and other branches.
      const auto compiled = compile([&] { return everything(program, 2, with_gradients); },
                                    {.fuse = Fuse::everything, .strict = true});
      expect_same(compiled(), everything(program, 2, with_gradients));
      if (HasFailure()) return;
    }
}

// Programs that begin in the same way take turns, so that tapes are followed, and left.
TEST(RandomPrograms, FollowedEqualsEager) {
  const uint64_t before = jit::stats().followed;
  for (const bool with_gradients : {false, true})
    for (uint64_t i = 0; i < programs() / 6; ++i) {
      const uint64_t first = first_program() + 3 * i;
      std::mt19937_64 random(first);
      for (int call = 0; call < 16; ++call) {
        const uint64_t program = first + random() % (call < 8 ? 2 : 3), draw = random() % 2;
        SCOPED_TRACE(concat("program ", program, " call ", call, " draw ", draw));
        const std::vector<Tensor> eager = everything(program, draw, with_gradients);
        std::vector<Tensor> lazily;
        {
          const LazyScope lazy({.fuse = Fuse::everything, .strict = true});
          lazily = everything(program, draw, with_gradients);
        }
        expect_same(lazily, eager);
        if (HasFailure()) return;
      }
    }
  EXPECT_GT(jit::stats().followed, before + programs());
}

// The first calls run the body, later ones may not; the results of earlier calls stay as they were.
TEST(RandomPrograms, ReplayEqualsEager) {
  const no_grad silent;
  uint64_t replayed = 0;
  for (uint64_t i = 0; i < programs(); ++i) {
    const uint64_t program = first_program() + i;
    SCOPED_TRACE(concat("program ", program));
    const Tensor captured = numbers({3, 4}, 77), captured_too = captured.clone();
    const Habits habits{.drops = program % 2 == 1, .reads = program % 8 == 0};
    const auto running = [&](const Tensor& capture) {
      return [&capture, program, habits](const std::vector<Tensor>& in) {
        return Program(program, habits).run(in, capture);
      };
    };
    const auto fast =
        compile(running(captured), {.fuse = Fuse::everything, .strict = true, .replay = true});
    std::vector<Tensor> all, all_expected;
    for (uint64_t draw = 0; draw < 5; ++draw) {
      std::vector<Tensor> here = inputs_of(program, draw), there = inputs_of(program, draw);
      manual_seed(draw);
      std::vector<Tensor> expected = running(captured_too)(there);
      manual_seed(draw);
      std::vector<Tensor> actual = fast(here);
      actual.insert(actual.end(), here.begin(), here.end());
      expected.insert(expected.end(), there.begin(), there.end());
      expect_same(actual, expected);
      if (HasFailure()) return;
      all.insert(all.end(), actual.begin(), actual.end());
      all_expected.insert(all_expected.end(), expected.begin(), expected.end());
    }
    all.push_back(captured);
    all_expected.push_back(captured_too);
    expect_same(all, all_expected);
    if (HasFailure()) return;
    replayed += fast.replayed();
  }
  EXPECT_GT(replayed, programs() / 2);
}

using Runner = std::function<Tensor(const std::function<Tensor()>&)>;

/// What a few steps leave behind, and their losses.
std::vector<Tensor> trained(uint64_t seed, const Runner& runner, bool nudged = false) {
  TrainingProgram program(seed, nudged);
  std::vector<Tensor> all;
  for (uint64_t number = 0; number < program.steps(); ++number) {
    const TrainingProgram::Batch batch = program.batch(number);
    all.push_back(runner([&] { return program.step(batch); }));
  }
  const std::vector<Tensor> left = program.outcome();
  all.insert(all.end(), left.begin(), left.end());
  all.push_back(rand({3}));  // the stream goes on where eager's does
  return all;
}

TEST(RandomPrograms, TrainingEqualsEager) {
  const auto scoped = [](Fuse fuse, int64_t budget) {
    return [fuse, budget](const std::function<Tensor()>& body) {
      return compile(body, {.fuse = fuse, .strict = true, .memory_budget = budget})();
    };
  };
  using Mode = std::pair<Fuse, int64_t>;  // and a budget of memory
  for (uint64_t i = 0; i < programs() / 3; ++i) {
    const uint64_t seed = first_program() + i;
    SCOPED_TRACE(concat("program ", seed, ": ", TrainingProgram(seed).describe()));
    const Runner eagerly = [](const std::function<Tensor()>& body) { return body(); };
    const std::vector<Tensor> eager = trained(seed, eagerly), nudged = trained(seed, eagerly, true);
    for (const auto& [fuse, budget] : {Mode(Fuse::nothing, 0), Mode(Fuse::what_pays, 0),
                                       Mode(Fuse::what_pays, 1), Mode(Fuse::everything, 0)}) {
      const std::vector<Tensor> compiled = trained(seed, scoped(fuse, budget));
      ASSERT_EQ(compiled.size(), eager.size());
      // Fused reductions add in another order.
      for (size_t k = 0; k < eager.size(); ++k) {
        ASSERT_EQ(compiled[k].dtype(), eager[k].dtype()) << "tensor " << k;
        ASSERT_EQ(to_string(compiled[k].sizes()), to_string(eager[k].sizes())) << "tensor " << k;
        const Tensor a = compiled[k].to(kFloat64), e = eager[k].to(kFloat64);
        double bound = 0, noise = 0;
        if (fuse != Fuse::nothing && e.numel() > 0) {
          bound = TrainingProgram(seed).tolerance();
          noise = 100 * (nudged[k].to(kFloat64) - e).abs().max().item<double>();
        }
        ASSERT_TRUE(noise != noise || allclose(a, e, bound, bound + noise, true))
            << "fuse " << static_cast<int>(fuse) << ", tensor " << k << ": " << a << " instead of "
            << e;
      }
    }
  }
}

}  // namespace
}  // namespace tensora::test
