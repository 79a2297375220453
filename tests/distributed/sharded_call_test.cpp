#include "tensora/distributed/sharded_call.h"

#include <gtest/gtest.h>

#include <array>

#include "tensora/base/error_kinds.h"
#include "tensora/distributed/shard_plan.h"
#include "tensora/distributed/threads.h"
#include "tensora/tensora.h"
#include "tests/helpers.h"

namespace tensora::distributed {
namespace {

using Values = std::span<const Tensor>;

void expect_close(const Tensor& a, const Tensor& b) {
  EXPECT_TRUE(a.sizes() == b.sizes() && allclose(a, b, 1e-12, 1e-12)) << a << "\n" << b;
}

Tensor filled(const Shape& sizes, uint64_t seed) {
  manual_seed(seed);
  return randn(sizes, {.dtype = kFloat64});
}

TEST(ShardedCall, PlacesResultsByTheRulesOfOps) {
  run_ranks(2, [](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2});
    const auto x = distribute_tensor(filled({5, 6}, 1), mesh, {Placement::shard(0)});
    const auto columns = distribute_tensor(filled({5, 6}, 1), mesh, {Placement::shard(1)});
    const auto rows = distribute_tensor(filled({6, 3}, 2), mesh, {Placement::shard(0)});
    const auto placed = [&](const ShardedTensors& inputs, auto function) {
      return to_string(call_sharded([&](Values v) { return TensorList{function(v)}; }, inputs,
                                    {.strict = true})[0]
                           .placements()[0]);
    };
    EXPECT_EQ(placed({x}, [](Values v) { return relu(v[0] + 1); }), "Shard(0)");
    EXPECT_EQ(placed({x}, [](Values v) { return v[0].transpose(0, 1); }), "Shard(1)");
    EXPECT_EQ(placed({columns, rows}, [](Values v) { return matmul(v[0], v[1]); }), "Partial(sum)");
    EXPECT_EQ(
        placed({columns, rows}, [](Values v) { return matmul(v[0], v[1]) + matmul(v[0], v[1]); }),
        "Partial(sum)");
    EXPECT_EQ(placed({x}, [](Values v) { return v[0].sum(0); }), "Partial(sum)");
    EXPECT_EQ(placed({x}, [](Values v) { return v[0].amax(0); }), "Partial(maximum)");
    EXPECT_EQ(placed({x}, [](Values v) { return softmax(v[0], 1); }), "Shard(0)");
    EXPECT_EQ(placed({x}, [](Values v) { return v[0].reshape({5, 2, 3}); }), "Shard(0)");
    EXPECT_EQ(placed({x}, [](Values v) { return v[0].mean(); }), "Replicate");
  });
}

// Two layers, a loss, and the gradients of parameters that are divided, captured and shared.
TEST(ShardedCall, TrainingStepEqualsThatOfOneProcess) {
  const Tensor x = filled({6, 4}, 1), w1 = filled({4, 8}, 2).requires_grad_(),
               b1 = filled({8}, 3).requires_grad_(), w2 = filled({8, 3}, 4).requires_grad_();
  const auto loss_of = [](const Tensor& input, const Tensor& first, const Tensor& bias,
                          const Tensor& second) {
    const Tensor hidden = gelu(addmm(bias, input, first));
    return log_softmax(matmul(layer_norm(hidden, {8}), second), 1).square().mean();
  };
  const Tensor loss = loss_of(x, w1, b1, w2);
  loss.backward();
  run_ranks(4, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2, 2}, {"data", "tensor"});
    const auto replicate = Placement::replicate();
    const auto sx = distribute_tensor(x, mesh, {Placement::shard(0), replicate});
    const auto s1 = distribute_tensor(w1, mesh, {replicate, Placement::shard(1)});
    const auto s2 = distribute_tensor(w2, mesh, {replicate, Placement::shard(0)});
    const Tensor bias = b1.detach().clone().requires_grad_();  // the same on all ranks
    const ShardedTensor result = call_sharded(
        [&](Values v) { return TensorList{loss_of(v[0], v[1], bias, v[2])}; }, {sx, s1, s2})[0];
    const Tensor here = result.full_tensor();
    expect_close(here.detach(), loss.detach());
    here.backward();
    const auto gradient = [&](const ShardedTensor& parameter) {
      return ShardedTensor(parameter.to_local().grad(), mesh, parameter.placements(),
                           parameter.sizes())
          .full_tensor();
    };
    expect_close(gradient(s1), w1.grad());
    expect_close(gradient(s2), w2.grad());
    expect_close(bias.grad(), b1.grad());
  });
}

TEST(ShardedCall, DrawsTheNumbersOfOneProcess) {
  manual_seed(7);
  const Tensor x = ones({5, 7}), expected = dropout(x, 0.5) * 2;
  manual_seed(7);
  run_ranks(3, [&](ProcessGroup&) {
    const auto sharded = distribute_tensor(x, device_mesh({3}), {Placement::shard(0)});
    const auto y = call_sharded([](Values v) { return TensorList{dropout(v[0], 0.5) * 2}; },
                                {sharded}, {.on_gather = [](std::string_view) {}});
    EXPECT_TRUE(equal(y[0].full_tensor(), expected));
  });
}

TEST(ShardedCall, SecondOrderGradients) {
  const Tensor x = filled({4, 3}, 5).requires_grad_();
  const auto cube = [](const Tensor& v) { return (v * v * v).sum(0).square().sum(); };
  const Tensor first = grad({cube(x)}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = grad({first.square().sum()}, {x})[0];
  run_ranks(3, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({3});
    const auto sharded = distribute_tensor(x, mesh, {Placement::shard(1)});
    const Tensor local = sharded.to_local();
    const auto y = call_sharded([&](Values v) { return TensorList{cube(v[0])}; }, {sharded});
    const Tensor one = grad({y[0].full_tensor()}, {local}, {}, {.create_graph = true})[0];
    const ShardedTensor whole(one, mesh, {Placement::shard(1)}, x.sizes());
    const Tensor two = grad({whole.full_tensor().square().sum()}, {local})[0];
    expect_close(ShardedTensor(two, mesh, {Placement::shard(1)}, x.sizes()).full_tensor(), second);
  });
}

TEST(ShardedCall, ReadsValuesAndWritesToItsOwnTensors) {
  run_ranks(2, [](ProcessGroup&) {
    const Tensor x = filled({3, 4}, 6);
    const auto sharded = distribute_tensor(x, device_mesh({2}), {Placement::shard(1)});
    const auto y = call_sharded(
        [&](Values v) {
          Tensor z = v[0] * 2;
          if (z[0][1].item<double>() != x[0][1].item<double>() * 2) fail("another value");
          z.add_(1);  // the views are gone
          if (z[0][0].item<double>() != x[0][0].item<double>() * 2 + 1) fail("another value");
          Tensor total = zeros({4}, {.dtype = kFloat64});
          total.add_(z.sum(0));  // a tensor of all ranks takes a sharded one
          return TensorList{z, total};
        },
        {sharded});
    expect_close(y[0].full_tensor(), x * 2 + 1);
    expect_close(y[1].full_tensor(), (x * 2 + 1).sum(0));
  });
}

// What decides how a call runs is found once, also for the next call_sharded.
TEST(ShardedCall, ACallThatIsAlikeNeedsNoNewPlan) {
  run_ranks(2, [](ProcessGroup&) {
    const Tensor x = filled({5, 6}, 1), w = filled({6, 4}, 2);
    const auto loss = [](Values v) {
      const Tensor y = relu(matmul(v[0], v[1]) + 1.5);
      return TensorList{softmax(y.t().reshape({2, 2, 5}), 0).sum(2).expand({3, 2, 2})};
    };
    const auto run = [&](const Placement& of_x) {
      const DeviceMesh mesh = device_mesh({2});  // another one every time
      const auto sx = distribute_tensor(x, mesh, {of_x});
      const auto sw = distribute_tensor(w, mesh, {Placement::replicate()});
      expect_close(call_sharded(loss, {sx, sw})[0].full_tensor(), loss(std::array{x, w})[0]);
    };
    run(Placement::shard(0));
    const int64_t first = ShardPlans::made();
    for (int i = 0; i < 3; ++i) run(Placement::shard(0));
    EXPECT_EQ(ShardPlans::made(), first);
    run(Placement::shard(1));
    EXPECT_GT(ShardPlans::made(), first);
  });
}

// All that a plan depends on changes from one call to the next, and nothing else.
TEST(ShardedCall, PlansDifferWhereCallsDo) {
  run_ranks(2, [](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2});
    const Tensor x = filled({4, 6}, 3);
    const auto same = [&](auto function, const Tensor& input, int64_t dim) {
      const auto sharded = distribute_tensor(input, mesh, {Placement::shard(dim)});
      const auto y = call_sharded([&](Values v) { return TensorList{function(v[0])}; }, {sharded});
      expect_close(y[0].full_tensor().detach(), function(input).detach());
      if (!input.requires_grad()) return;
      const Tensor mine = grad({y[0].full_tensor().square().sum()}, {sharded.to_local()})[0];
      const Tensor whole = grad({function(input).square().sum()}, {input})[0];
      expect_close(ShardedTensor(mine, mesh, sharded.placements(), input.sizes()).full_tensor(),
                   whole);
    };
    for (int round = 0; round < 2; ++round)
      for (const int64_t dim : {0, 1})
        for (const bool records : {false, true}) {
          const Tensor of = x.clone().requires_grad_(records);
          same([](const Tensor& v) { return v.sum(0); }, of, dim);  // another attribute
          same([](const Tensor& v) { return v.sum(1); }, of, dim);
          same([](const Tensor& v) { return v.narrow(0, 1, 2) * 2; }, of, dim);
          same([](const Tensor& v) { return v.narrow(0, 2, 2) * 2; }, of, dim);
          same([](const Tensor& v) { return v * v.detach(); }, of, dim);
          same([](const Tensor& v) { return v.t() + 1; }, of, dim);  // other strides
          same([](const Tensor& v) { return v.t().contiguous() + 1; }, of, dim);
          same([](const Tensor& v) { return v.to(kFloat32).to(kFloat64) + 1; }, of.detach(), dim);
          same([](const Tensor& v) { return v + v.amax(); }, of, dim);
        }
    const auto integers = distribute_tensor(arange(6), mesh, {Placement::shard(0)});
    const auto halves = [&] {
      return call_sharded([](Values v) { return TensorList{v[0] * 0.5}; }, {integers})[0];
    };
    EXPECT_EQ(halves().to_local().dtype(), kFloat32);
    world()->barrier();  // the default dtype belongs to all threads
    if (world()->rank() == 0) set_default_dtype(kFloat64);
    world()->barrier();
    EXPECT_EQ(halves().to_local().dtype(), kFloat64);
    world()->barrier();
    if (world()->rank() == 0) set_default_dtype(kFloat32);
  });
}

template <class Body>
void expect_error(Body&& body, std::string_view part) {
  const std::string text = testing::error_of(body);
  EXPECT_TRUE(testing::contains(text, part)) << "expected: " << part << "\ngot: " << text;
}

TEST(ShardedCall, RefusesByName) {
  run_ranks(2, [](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2});
    const auto x =
        distribute_tensor(filled({4, 4}, 8).requires_grad_(), mesh, {Placement::shard(0)});
    const auto other = distribute_tensor(ones({4, 4}), device_mesh({1, 2}), Placements(2));
    const auto refuses = [&](std::string_view part, auto function,
                             const ShardedCallOptions& options = {}) {
      const auto body = [&](Values v) { return TensorList{function(v[0])}; };
      expect_error([&] { call_sharded(body, {x}, options); }, part);
    };
    refuses("searchsorted: there is no rule for sharded tensors",
            [](const Tensor& v) { return searchsorted(v, v); }, {.strict = true});
    refuses("backward on the results", [](const Tensor& v) {
      v.sum().backward();
      return v;
    });
    const no_grad silent;
    refuses("add_: an input of call_sharded cannot be written to in place",
            [](const Tensor& v) { return v.add_(1); });
    refuses("has views, or is one, cannot be written to in place", [](const Tensor& v) {
      const Tensor y = v * 2;
      y.narrow(1, 0, 2).zero_();
      return y;
    });
    expect_error([] { call_sharded([](Values) { return TensorList{}; }, {}); },
                 "expected at least one sharded input");
    expect_error(
        [&] {
          call_sharded([](Values v) { return TensorList{v[0] + v[1]}; }, {x, other});
        },
        "on different meshes");
  });
}

}  // namespace
}  // namespace tensora::distributed
