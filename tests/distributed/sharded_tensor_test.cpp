// Placements on meshes: every change of placements, with parts of unequal length and empty ones.
#include "tensora/distributed/sharded_tensor.h"

#include <algorithm>
#include <random>

#include "tensora/distributed/threads.h"
#include "tensora/jit/lazy.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using distributed::device_mesh;
using distributed::DeviceMesh;
using distributed::dim_range;
using distributed::distribute_tensor;
using distributed::Placement;
using distributed::Placements;
using distributed::run_ranks;
using distributed::ShardedTensor;

std::string text_of(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements) append(text, concat(to_string(placement), " "));
  return text;
}

Placements random_placements(std::mt19937& chance, int mesh_dims, int64_t dims, bool partial) {
  Placements placements;
  for (int i = 0; i < mesh_dims; ++i) {
    const auto kind = chance() % (partial ? 4 : 3);
    if (kind == 0)
      placements.push_back(Placement::replicate());
    else if (kind == 3)
      placements.push_back(Placement::partial());
    else
      placements.push_back(Placement::shard(static_cast<int64_t>(chance() % dims)));
  }
  return placements;
}

// This rank's part, by the definition: cut by one dim of the mesh after the other.
Tensor cut(Tensor whole, const DeviceMesh& mesh, const Placements& placements) {
  for (int i = 0; i < mesh.dims(); ++i) {
    const Placement& placement = placements[static_cast<size_t>(i)];
    if (!placement.is_shard()) continue;
    const auto part = dim_range(whole.size(placement.dim), mesh.size(i), mesh.coordinate(i));
    whole = whole.narrow(placement.dim, part.begin, part.size);
  }
  return whole;
}

void expect_close(const Tensor& value, const Tensor& expected) {
  ASSERT_EQ(value.sizes(), expected.sizes());
  EXPECT_LT((value - expected).abs().max().item<double>(), 1e-12);
}

bool has_partial(const Placements& placements) {
  return std::ranges::any_of(placements, [](const Placement& p) { return p.is_partial(); });
}

Tensor small_integers(const Shape& sizes, int64_t seed) {  // whose sums are exact
  Generator own(static_cast<uint64_t>(seed));
  const GeneratorScope scope(own);
  return randint(-50, 50, sizes, {.dtype = kInt64}).to(kFloat32);
}

void check_random_changes(const Shape& mesh_sizes, int ranks, unsigned seed) {
  run_ranks(ranks, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh(mesh_sizes);
    std::mt19937 chance(seed);  // the same on all ranks
    for (int round = 0; round < 60; ++round) {
      const Shape sizes{static_cast<int64_t>(chance() % 8), static_cast<int64_t>(1 + chance() % 5),
                        static_cast<int64_t>(1 + chance() % 3)};
      const Placements from = random_placements(chance, mesh.dims(), 3, false);
      const Placements middle = random_placements(chance, mesh.dims(), 3, true);
      const Placements to = random_placements(chance, mesh.dims(), 3, true);
      const std::string about = concat(text_of(from), "to ", text_of(middle), "to ", text_of(to),
                                       "of ", sizes, " on ", mesh_sizes);
      const Tensor whole = small_integers(sizes, round);
      Tensor given =
          mesh.coordinate(0) == 0 ? whole.clone() : zeros(sizes);  // the first one counts
      for (int i = 1; i < mesh.dims(); ++i)
        if (mesh.coordinate(i) != 0) given = zeros(sizes);
      given.requires_grad_(true);
      const ShardedTensor x = distribute_tensor(given, mesh, from);
      const Tensor leaf = x.to_local();
      ASSERT_TRUE(equal(leaf.detach(), cut(whole, mesh, from))) << about;
      const ShardedTensor y = x.redistribute(middle).redistribute(to);
      EXPECT_EQ(y.placements(), to);
      if (!has_partial(to)) {
        EXPECT_TRUE(equal(y.to_local().detach(), cut(whole, mesh, to))) << about;
      }
      const Tensor full = y.full_tensor();
      ASSERT_TRUE(equal(full.detach(), whole)) << about;
      // Every rank computes the same with the whole tensor, so the gradient is replicated.
      const Tensor factor = small_integers(sizes, 1000 + round);
      (full * factor).sum().backward();
      ASSERT_TRUE(equal(leaf.grad(), cut(factor, mesh, from))) << about;
    }
  });
}

TEST(ShardedTensor, EveryChangeOfPlacementsGivesTheSameTensor) {
  check_random_changes({2}, 2, 1);
  check_random_changes({3}, 3, 2);
  check_random_changes({5}, 5, 3);
  check_random_changes({2, 2}, 4, 4);
  check_random_changes({3, 2}, 6, 5);
  check_random_changes({2, 1, 2}, 4, 6);
  check_random_changes({1}, 1, 7);
}

TEST(ShardedTensor, PartsDifferByOneElement) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < 4; ++r) sizes.push_back(dim_range(6, 4, r).size);
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(dim_range(2, 4, 3).size, 0);
}

TEST(ShardedTensor, PartialValuesAreCombinedInTheOrderOfRanks) {
  run_ranks(3, [&](ProcessGroup& world) {
    const DeviceMesh mesh = device_mesh({3});
    const auto of = [](int rank) {
      return sin(arange(20, {.dtype = kFloat32}) * (rank + 1.7)) * 1e3;
    };
    const ShardedTensor sum(of(world.rank()).view({4, 5}), mesh, {Placement::partial()}, {4, 5});
    const Tensor expected = ((of(0) + of(1)) + of(2)).view({4, 5});
    EXPECT_TRUE(equal(sum.full_tensor(), expected));
    for (const int64_t dim : {0, -1}) {
      const ShardedTensor part = sum.redistribute({Placement::shard(dim)});
      EXPECT_EQ(part.placements()[0].dim, dim < 0 ? 1 : 0);
      EXPECT_TRUE(equal(part.full_tensor(), expected));
    }
    const Tensor mine = full({3}, world.rank() + 1.0);
    for (const auto& [op, value] : {std::pair(ReduceOp::maximum, 3.0),
                                    {ReduceOp::minimum, 1.0},
                                    {ReduceOp::product, 6.0},
                                    {ReduceOp::average, 2.0}}) {
      const ShardedTensor x(mine, mesh, {Placement::partial(op)}, {3});
      EXPECT_EQ(values(x.full_tensor())[2], value);
      const auto again = x.redistribute({Placement::replicate()}).redistribute(x.placements());
      EXPECT_EQ(values(again.full_tensor())[2], value);
      const ShardedTensor grad(mine.clone().requires_grad_(true), mesh, x.placements(), {3});
      EXPECT_TRUE(contains(error_of([&] { grad.full_tensor(); }), "only Partial(sum)"));
    }
  });
}

// Rows of x times columns of w: the contraction is divided, and the result partial.
TEST(ShardedTensor, MatmulOfPartsHasTheGradientsOfTheWhole) {
  manual_seed(3);
  const Tensor x = randn({5, 7}, {.dtype = kFloat64}), w = randn({7, 3}, {.dtype = kFloat64});
  Tensor whole_x = x.clone().requires_grad_(true), whole_w = w.clone().requires_grad_(true);
  const Tensor expected = tanh(matmul(whole_x, whole_w));
  expected.sum().backward();
  run_ranks(4, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2, 2}, {"data", "tensor"});
    ASSERT_EQ(mesh.dim_of("tensor"), 1);
    // Each row of the mesh has some rows of x, and each of its ranks some of the columns.
    const auto of_x = distribute_tensor(x.clone().requires_grad_(true), mesh,
                                        {Placement::shard(0), Placement::shard(1)});
    const auto of_w = distribute_tensor(w.clone().requires_grad_(true), mesh,
                                        {Placement::replicate(), Placement::shard(0)});
    const Tensor leaf_x = of_x.to_local(), leaf_w = of_w.to_local();
    // The rows of the mesh use w with different rows of x: its gradient is partial over them.
    const Tensor local = matmul(leaf_x, of_w.to_local({Placement::partial(), Placement::shard(0)}));
    const ShardedTensor y(local, mesh, {Placement::shard(0), Placement::partial()}, {5, 3});
    const Tensor result = tanh(y.full_tensor());
    expect_close(result.detach(), expected.detach());
    result.sum().backward();
    const ShardedTensor grad_x(leaf_x.grad(), mesh, of_x.placements(), {5, 7});
    const ShardedTensor grad_w(leaf_w.grad(), mesh, of_w.placements(), {7, 3});
    expect_close(grad_x.full_tensor(), whole_x.grad());
    expect_close(grad_w.full_tensor(), whole_w.grad());
  });
}

TEST(ShardedTensor, IsSentWhatALazyScopeHasYetToCompute) {
  const Tensor x = arange(35, {.dtype = kFloat64}).view({5, 7});
  run_ranks(3, [&](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({3});
    const LazyScope lazy({.fuse = Fuse::everything});
    const auto rows = distribute_tensor(x + 1, mesh, {Placement::shard(0)});
    const ShardedTensor twice(rows.to_local() * 2, mesh, {Placement::shard(0)}, {5, 7});
    const auto columns = twice.redistribute({Placement::shard(1)});
    const ShardedTensor parts(columns.full_tensor() + 1, mesh, {Placement::partial()}, {5, 7});
    expect_close(parts.full_tensor(), (x * 2 + 3) * 3);
  });
}

TEST(ShardedTensor, MistakesAreNamed) {
  run_ranks(2, [](ProcessGroup&) {
    const DeviceMesh mesh = device_mesh({2});
    const auto error = [](auto body) { return error_of(body); };
    EXPECT_TRUE(contains(error([] { device_mesh({3}); }), "has 2 ranks, and the mesh is [3]"));
    EXPECT_TRUE(contains(error([] { device_mesh({2}, {"a", "b"}); }), "2 names for 1 dims"));
    EXPECT_TRUE(contains(error([&] { (void)mesh.group(1); }), "got 1"));
    EXPECT_TRUE(contains(error([&] { (void)mesh.dim_of("x"); }), "no dim \"x\""));
    EXPECT_TRUE(contains(error([&] { distribute_tensor(ones({4}), mesh, {}); }), "1 placements"));
    EXPECT_TRUE(contains(error([&] { distribute_tensor(ones({4}), mesh, {Placement::shard(1)}); }),
                         "Shard(1) of a tensor with 1 dims"));
    EXPECT_TRUE(contains(error([&] { ShardedTensor(ones({4}), mesh, {Placement::shard(0)}, {6}); }),
                         "must have shape [3], got [4]"));
  });
  // Ranks that disagree about the shape.
  EXPECT_TRUE(contains(error_of([] {
                         run_ranks(2, [](ProcessGroup& world) {
                           const int64_t n = world.rank() + 4;
                           distribute_tensor(ones({n}), device_mesh({2}), {Placement::shard(0)});
                         });
                       }),
                       "the ranks called different things"));
}

}  // namespace
}  // namespace tensora::testing
