// Programs of random ops on divided tensors, and on tensors that ranks have together, against the
// same programs on whole tensors: values and gradients.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tensora/distributed/divided_tensor.h"
#include "tensora/distributed/sharded_call.h"
#include "tensora/distributed/threads.h"
#include "tensora/tensora.h"
#include "tests/helpers.h"

namespace tensora::distributed {
namespace {

/// The random choices of one program; they depend on shapes alone.
class Program {
 public:
  Program(uint64_t seed, bool writes_views) : chance_(seed), writes_views_(writes_views) {}

  TensorList operator()(std::span<const Tensor> inputs) {
    pool_.assign(inputs.begin(), inputs.end());
    for (int step = 0; step < 14; ++step) {
      const Tensor result = next();
      if (result.defined() && result.numel() <= 3000) pool_.push_back(result);
    }
    const size_t kept = std::min<size_t>(pool_.size(), 4);
    return {pool_.end() - static_cast<int64_t>(kept), pool_.end()};
  }

 private:
  size_t below(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(chance_);
  }
  const Tensor& any() { return pool_[below(pool_.size())]; }
  int64_t dim_of(const Tensor& x) {
    return static_cast<int64_t>(below(static_cast<size_t>(x.dim())));
  }

  static bool broadcast(const Tensor& a, const Tensor& b) {
    for (int d = 1; d <= std::min(a.dim(), b.dim()); ++d) {
      const int64_t m = a.size(-d), n = b.size(-d);
      if (m != n && m != 1 && n != 1) return false;
    }
    return true;
  }

  Tensor next() {
    const Tensor a = any(), b = any();
    switch (below(12)) {
      case 0:
        return below(2) ? tanh(a) : sigmoid(a);
      case 1:
        return broadcast(a, b) ? (below(2) ? a - b * 0.5 : a * b) : Tensor();
      case 2:
        return a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) ? tanh(matmul(a, b))
                                                                      : Tensor();
      case 3:
        return a.dim() > 0 ? reduced(a) : Tensor();
      case 4:
        return a.dim() == 2 ? a.t() : Tensor();
      case 5:
        return a.dim() > 0 ? part(a) : Tensor();
      case 6:
        return a.dim() > 0 ? joined(a) : Tensor();
      case 7:
        return a.dim() > 0 ? (below(2) ? softmax(a, dim_of(a)) : cumsum(a, dim_of(a)) * 0.2)
                           : Tensor();
      case 8:
        return shaped(a);
      case 9:
        return a.dim() > 0 && a.size(0) == 1 ? a.expand(grown(a)) : Tensor();
      case 10:
        return written(a, b);
      default:
        return broadcast(a, b) ? where(a > 0.1, a, b * 2) : Tensor();
    }
  }

  Tensor reduced(const Tensor& a) {
    const int64_t dim = dim_of(a);
    const bool keeps = below(2);
    switch (below(4)) {
      case 0:
        return sum(a, {dim}, keeps) * 0.3;
      case 1:
        return mean(a, {dim}, keeps);
      case 2:
        return a.size(dim) > 1 ? std::get<0>(max(a, dim, keeps)) : Tensor();
      default:
        return mean(a);
    }
  }

  Tensor part(const Tensor& a) {
    const int64_t dim = dim_of(a), size = a.size(dim);
    if (size == 0) return {};
    const auto begin = static_cast<int64_t>(below(static_cast<size_t>(size)));
    switch (below(3)) {
      case 0:
        return a.narrow(dim, begin, size - begin);
      case 1:
        return a.select(dim, begin);
      default:
        return slice(a, dim, begin, size, 2);
    }
  }

  Tensor joined(const Tensor& a) {
    return below(2) ? cat({a, a * 0.5}, dim_of(a)) : stack({a, -a}, dim_of(a));
  }

  Tensor shaped(const Tensor& a) {
    if (a.numel() == 0) return {};
    if (a.dim() == 2 && below(2)) return a.reshape({a.size(1), a.size(0)});
    return below(2) ? a.reshape({-1}) : a.reshape({-1, a.dim() > 0 ? a.size(-1) : 1});
  }

  static Shape grown(const Tensor& a) {
    Shape sizes = a.sizes();
    sizes[0] = 3;
    return sizes;
  }

  Tensor written(const Tensor& a, const Tensor& b) {
    const Tensor copy = a * 1.5;
    if (broadcast(copy, b) && broadcast_shapes(copy.sizes(), b.sizes(), "test") == copy.sizes())
      copy.add_(b);
    if (writes_views_ && copy.dim() == 2) copy.t().mul_(0.5);
    copy.mul_(0.7);
    return copy;
  }

  std::mt19937_64 chance_;
  const bool writes_views_;
  TensorList pool_;
};

const std::vector<Shape> kShapes = {{6, 4}, {6, 4}, {4, 5}, {5}, {1, 4}, {}, {2, 3, 4}};

TensorList inputs_of(uint64_t seed) {
  manual_seed(seed);
  TensorList inputs;
  for (const Shape& shape : kShapes) inputs.push_back(randn(shape, {.dtype = kFloat64}));
  return inputs;
}

Tensor loss_of(const TensorList& results) {
  Tensor loss = zeros({}, {.dtype = kFloat64});
  for (const Tensor& result : results) loss = loss + result.square().sum();
  return loss;
}

/// The results of a program and the gradients of its inputs.
struct Outcome {
  TensorList results, gradients;
};

Outcome whole_outcome(uint64_t seed, bool writes_views) {
  TensorList inputs = inputs_of(seed);
  for (const Tensor& input : inputs) input.requires_grad_();
  Outcome outcome{Program(seed, writes_views)(inputs), {}};
  outcome.gradients = grad({loss_of(outcome.results)}, inputs, {}, {.allow_unused = true});
  return outcome;
}

std::optional<int64_t> axis_of(uint64_t seed, size_t i) {
  const auto dims = static_cast<uint64_t>(kShapes[i].size());
  const uint64_t choice = (seed / 3 + i * (seed % 7 + 1)) % (dims + 1);
  return choice == dims ? std::nullopt : std::optional(static_cast<int64_t>(choice));
}

void expect_close(const Tensor& got, const Tensor& expected, std::string_view what, size_t i) {
  ASSERT_EQ(got.defined(), expected.defined()) << what << " " << i;
  if (got.defined())
    EXPECT_TRUE(got.sizes() == expected.sizes() && allclose(got, expected, 1e-9, 1e-11))
        << what << " " << i << " of shape " << expected.sizes();
}

void compare_divided(uint64_t seed, int devices) {
  SCOPED_TRACE(concat("seed ", seed, ", ", devices, " devices"));
  const Outcome expected = whole_outcome(seed, true);
  TensorList inputs = inputs_of(seed);
  for (size_t i = 0; i < inputs.size(); ++i)
    shard_(inputs[i].requires_grad_(), std::vector<Device>(static_cast<size_t>(devices)),
           axis_of(seed, i));
  const TensorList results = Program(seed, true)(inputs);
  ASSERT_EQ(results.size(), expected.results.size());
  const TensorList gradients = grad({loss_of(results)}, inputs, {}, {.allow_unused = true});
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(gradients[i], expected.gradients[i], "gradient", i);
  for (size_t i = 0; i < results.size(); ++i)
    expect_close(results[i].detach(), expected.results[i].detach(), "result", i);
}

void compare_on_ranks(uint64_t seed, int ranks) {
  SCOPED_TRACE(concat("seed ", seed, ", ", ranks, " ranks"));
  const Outcome expected = whole_outcome(seed, false);
  run_ranks(ranks, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({ranks});
    ShardedTensors inputs;
    TensorList leaves;
    const TensorList whole = inputs_of(seed);
    for (size_t i = 0; i < whole.size(); ++i) {
      const auto axis = axis_of(seed, i);
      inputs.push_back(distribute_tensor(whole[i].requires_grad_(), mesh,
                                         {axis ? Placement::shard(*axis) : Placement()}));
      leaves.push_back(inputs.back().to_local());
    }
    const ShardedTensors results =
        call_sharded([&](std::span<const Tensor> in) { return Program(seed, false)(in); }, inputs,
                     {.on_gather = [](std::string_view) {}});
    TensorList full;
    for (const ShardedTensor& result : results) full.push_back(result.full_tensor());
    const TensorList gradients = grad({loss_of(full)}, leaves, {}, {.allow_unused = true});
    for (size_t i = 0; i < full.size(); ++i)
      expect_close(full[i].detach(), expected.results[i].detach(), "result", i);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor gradient =
          gradients[i].defined()
              ? ShardedTensor(gradients[i], mesh, inputs[i].placements(), inputs[i].sizes())
                    .full_tensor()
              : zeros(inputs[i].sizes(), {.dtype = kFloat64});
      const Tensor& wanted = expected.gradients[i];
      expect_close(gradient, wanted.defined() ? wanted : zeros_like(gradient), "gradient", i);
    }
  });
}

// TENSORA_RANDOM_PROGRAMS=N runs more of them than the tests do.
uint64_t programs() {
  const char* const given = std::getenv("TENSORA_RANDOM_PROGRAMS");
  return given ? std::strtoull(given, nullptr, 10) : 60;
}

TEST(RandomPrograms, OnDividedTensors) {
  for (uint64_t seed = 1; seed <= programs() && !::testing::Test::HasFailure(); ++seed)
    for (const int devices : {2, 3}) compare_divided(seed, devices);
}

TEST(RandomPrograms, OnTensorsOfSeveralRanks) {
  for (uint64_t seed = 1; seed <= programs() && !::testing::Test::HasFailure(); ++seed)
    for (const int ranks : {2, 3}) compare_on_ranks(seed, ranks);
}

}  // namespace
}  // namespace tensora::distributed
