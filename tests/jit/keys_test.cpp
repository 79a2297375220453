// What plans and kernels are found by: every ingredient of a key is changed alone, and what is not
// an ingredient changes nothing.
#include <gtest/gtest.h>

#include <thread>

#include "tensora/jit/compile.h"
#include "tensora/jit/stats.h"
#include "tensora/jit/tile_program.h"
#include "tensora/ops/pointwise/all.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

/// How many plans are made while `body` runs in a lazy scope.
template <class Body>
uint64_t plans_of(const Body& body, JitOptions options = {.fuse = Fuse::everything}) {
  const uint64_t before = jit::stats().plans;
  {
    const LazyScope lazy(options);
    body();
  }
  return jit::stats().plans - before;
}

// No other test uses tensors of these sizes: plans are kept for the process.
const Shape kSizes = {13, 71};

TEST(PlanKeys, EveryIngredientCounts) {
  const Tensor x = rand(kSizes), y = rand(kSizes), wide = rand({13, 142}), high = rand({26, 71});
  Tensor kept, also_kept;
  const auto base = [&] { kept = (x + y).relu(); };
  EXPECT_EQ(plans_of(base), 1u);
  EXPECT_EQ(plans_of(base), 0u);
  EXPECT_EQ(plans_of(base, {.fuse = Fuse::what_pays}), 1u) << "what is fused";
  EXPECT_EQ(plans_of(base, {.fuse = Fuse::everything, .wide = true}), 1u) << "rounding";
  const struct {
    const char* ingredient;
    std::function<void()> body;
  } changed[] = {
      {"an op", [&] { kept = (x - y).relu(); }},
      {"the order of the ops", [&] { kept = x.relu() + y; }},
      {"the order of the operands", [&] { kept = (y + x.relu()).relu(); }},
      {"one op more", [&] { kept = (x + y).relu().neg(); }},
      {"the dtype", [&] { kept = (x.to(kFloat64) + y.to(kFloat64)).relu(); }},
      {"the dtype of one operand", [&] { kept = (x + y.to(kFloat64)).relu(); }},
      {"the sizes", [&] { kept = (x.slice(0, 0, 12) + y.slice(0, 0, 12)).relu(); }},
      {"the strides", [&] { kept = (wide.slice(1, 0, 142, 2) + y).relu(); }},
      {"the offset", [&] { kept = (high.slice(0, 13, 26) + y).relu(); }},
      {"broadcasting", [&] { kept = (x + y[0]).relu(); }},
      {"a scalar operand", [&] { kept = (x + 1).relu(); }},
      {"operands that are one tensor", [&] { kept = (x + x).relu(); }},
      {"operands that share a storage",
       [&] { kept = (high.slice(0, 0, 13) + high.slice(0, 13, 26)).relu(); }},
      {"a result that is kept", [&] { also_kept = x + y, kept = also_kept.relu(); }},
      {"a write in place", [&] { kept = x + y, kept.relu_(); }},
      {"a write from outside", [&] { x.add_(y).relu_(); }},
  };
  for (const auto& [ingredient, body] : changed) {
    EXPECT_EQ(plans_of(body), 1u) << ingredient;
    EXPECT_EQ(plans_of(body), 0u) << ingredient << ", again";
  }
  EXPECT_EQ(plans_of(base), 0u);
}

TEST(PlanKeys, AttributesThatDecideTheKernelCount) {
  const Tensor x = rand(kSizes);
  Tensor kept;
  const auto reduced = [&](std::vector<int64_t> dim, bool keepdim) {
    return [&kept, &x, dim, keepdim] { kept = (x * 2).sum(dim, keepdim); };
  };
  EXPECT_EQ(plans_of(reduced({1}, false)), 1u);
  EXPECT_EQ(plans_of(reduced({-1}, false)), 1u);  // the same, called otherwise
  EXPECT_EQ(plans_of(reduced({1}, true)), 1u);
  EXPECT_EQ(plans_of(reduced({0}, false)), 1u);
  EXPECT_EQ(plans_of(reduced({0, 1}, false)), 1u);
  EXPECT_EQ(plans_of(reduced({1}, false)), 0u);
}

TEST(PlanKeys, NumbersAddressesAndThreadsDoNot) {
  const Shape sizes = {14, 71};
  Tensor kept;
  const auto body = [&](double scale, double p) {
    return [&kept, &sizes, scale, p] {
      const Tensor x = ones(sizes);
      kept = dropout((x * scale).relu(), p) + leaky_relu(x, scale);
    };
  };
  EXPECT_EQ(plans_of(body(2, 0.5)), 1u);
  EXPECT_EQ(plans_of(body(3, 0.25)), 0u) << "numbers and random streams are parameters";
  manual_seed(99);
  EXPECT_EQ(plans_of(body(2, 0.5)), 0u) << "the seed";
  const std::vector<Tensor> others(7, rand({100}));  // the results lie elsewhere
  EXPECT_EQ(plans_of(body(2, 0.5)), 0u) << "addresses";
  uint64_t plans = 1;
  std::thread([&] { plans = plans_of(body(2, 0.5)); }).join();
  EXPECT_EQ(plans, 0u) << "the thread";
}

// ---- programs of kernels ----------------------------------------------------------------------

using jit::Extent;
using jit::TileProgram;
using Step = TileProgram::Step;

template <class F>
Step pointwise(const F& functor, std::vector<int> operands, Extent extent = Extent::element) {
  const OpBase& op = pointwise_op<F>();
  return {.kind = Step::Kind::pointwise,
          .op = &op,
          .attrs = jit::AttrsCopy(op, &functor),
          .operands = std::move(operands),
          .extent = extent};
}
Step reduce(const OpDef<ReduceAttrs>& op, int operand) {
  const ReduceAttrs attrs{{-1}, true, {}};
  return {.kind = Step::Kind::reduce,
          .op = &op,
          .attrs = jit::AttrsCopy(op, &attrs),
          .operands = {operand},
          .extent = Extent::row};
}

/// leaky_relu(x - amax(x)) * y
TileProgram sample() {
  TileProgram program{.kind = TileProgram::Kind::rows};
  const int x = program.add(TileProgram::Input{}), y = program.add(TileProgram::Input{});
  const int most = program.add(reduce(amax_op, x));
  const int lowered = program.add(pointwise(functors::Sub{}, {x, most}));
  const int bent = program.add(pointwise(functors::LeakyRelu{}, {lowered}));
  program.results = {program.add(pointwise(functors::Mul{}, {bent, y}))};
  return program;
}

TEST(KernelKeys, EveryIngredientCounts) {
  const std::string key = jit::key_of(sample());
  const struct {
    const char* ingredient;
    std::function<void(TileProgram&)> change;
  } changes[] = {
      {"the kind", [](TileProgram& p) { p.kind = TileProgram::Kind::walk; }},
      {"an input's dtype", [](TileProgram& p) { p.inputs[1].dtype = kBFloat16; }},
      {"an input's extent", [](TileProgram& p) { p.inputs[1].extent = Extent::row; }},
      {"where an input lies", [](TileProgram& p) { p.inputs[1].host = true; }},
      {"an op", [](TileProgram& p) { p.steps[3].op = &pointwise_op<functors::Add>(); }},
      {"a reduction", [](TileProgram& p) { p.steps[0].op = &sum_op; }},
      {"operands",
       [](TileProgram& p) {
         p.steps[3].operands = {4, 0};
       }},
      {"their order",
       [](TileProgram& p) {
         p.steps[1].operands = {2, 0};
       }},
      {"a step's dtype", [](TileProgram& p) { p.steps[2].dtype = kBFloat16; }},
      {"the compute dtype", [](TileProgram& p) { p.steps[2].compute_dtype = kFloat64; }},
      {"a step's extent", [](TileProgram& p) { p.steps[1].extent = Extent::row; }},
      {"the results", [](TileProgram& p) { p.results.push_back(3); }},
      {"which they are", [](TileProgram& p) { p.results = {3}; }},
  };
  for (const auto& [ingredient, change] : changes) {
    TileProgram other = sample();
    change(other);
    EXPECT_NE(jit::key_of(other), key) << ingredient;
  }
}

TEST(KernelKeys, NumbersDoNot) {
  const std::string key = jit::key_of(sample());
  TileProgram other = sample();
  functors::LeakyRelu steep;
  steep.negative_slope = 0.5;
  other.steps[2].attrs = jit::AttrsCopy(pointwise_op<functors::LeakyRelu>(), &steep);
  EXPECT_EQ(jit::key_of(other), key);
  TileProgram numbered;
  numbered.add(TileProgram::Input{});
  numbered.add(Step{.kind = Step::Kind::number, .number = 2});
  numbered.results = {numbered.add(pointwise(functors::Mul{}, {0, 1}))};
  TileProgram renumbered = numbered;
  renumbered.steps[0].number = 3;
  EXPECT_EQ(jit::key_of(renumbered), jit::key_of(numbered));
}

}  // namespace
}  // namespace tensora::test
