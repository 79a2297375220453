// Sparse gradients: of embedding and embedding_bag, through the engine, hooks, optimizers and
// everything else that reads gradients, against dense ones.
#include <gtest/gtest.h>

#include "tensora/amp.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/nn.h"
#include "tensora/ops/operators.h"
#include "tensora/optim.h"
#include "tensora/sparse.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using sparse::is_sparse;
using sparse::to_dense;

const Tensor& places() {
  static const Tensor made = tensor({{4, 0, 4}, {2, 4, 0}}, kInt64);
  return made;
}

// A table, and a loss that differs for each of its uses.
struct Table {
  Tensor weight;
  explicit Table(uint64_t seed = 7) {
    manual_seed(seed);
    weight = randn({6, 3}, kFloat64).requires_grad_();
  }
  Tensor loss(bool sparse, std::optional<int64_t> padding = {}) const {
    const Tensor rows = embedding(places(), weight, padding, {}, 2, false, sparse);
    return (rows * arange(1, 19, kFloat64).view({2, 3, 3})).sum() + rows.square().sum();
  }
};

Tensor dense_gradient(std::optional<int64_t> padding = {}) {
  const Table table;
  table.loss(false, padding).backward();
  return table.weight.grad();
}

TEST(SparseGradient, EmbeddingGivesTheRowsThatWereUsed) {
  const Table table;
  table.loss(true).backward();
  const Tensor grad = table.weight.grad();
  ASSERT_TRUE(is_sparse(grad));
  EXPECT_EQ(grad.sizes(), table.weight.sizes());
  EXPECT_EQ(grad.device(), table.weight.device());
  const SparseTensor entries = sparse::from_tensor(grad);
  EXPECT_EQ(entries._nnz(), 6);
  EXPECT_FALSE(entries.is_coalesced());
  EXPECT_TRUE(equal(entries.coalesce().indices(), tensor({{0, 2, 4}}, kInt64)));
  EXPECT_TRUE(allclose(to_dense(grad), dense_gradient()));
  EXPECT_TRUE(allclose(entries.to_dense(), dense_gradient()));
}

TEST(SparseGradient, ThePaddingGetsNoEntry) {
  const Table table;
  table.loss(true, 4).backward();
  EXPECT_EQ(sparse::from_tensor(table.weight.grad())._nnz(), 3);
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), dense_gradient(4)));
}

TEST(SparseGradient, SeveralUsesAndBackwardsAddTheirEntries) {
  const Table table;
  (table.loss(true) + table.loss(true)).backward();
  table.loss(true).backward();
  EXPECT_TRUE(is_sparse(table.weight.grad()));
  EXPECT_EQ(sparse::from_tensor(table.weight.grad())._nnz(), 18);
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), dense_gradient() * 3));
}

TEST(SparseGradient, TheSumWithADenseGradientIsDense) {
  for (const bool sparse_first : {true, false}) {
    const Table table;
    const auto tied = [&] { (table.weight * 2).sum().backward(); };
    if (!sparse_first) tied();
    table.loss(true).backward();
    if (sparse_first) tied();
    EXPECT_FALSE(is_sparse(table.weight.grad()));
    EXPECT_TRUE(allclose(table.weight.grad(), dense_gradient() + 2));
  }
  const Table table;
  (table.loss(true) + (table.weight * 2).sum()).backward();
  EXPECT_TRUE(allclose(table.weight.grad(), dense_gradient() + 2));
}

TEST(SparseGradient, WhatIsComputedFromTheTableGetsTheDenseForm) {
  const Table table;
  Tensor halved = table.weight * 0.5;
  halved.retain_grad();
  embedding(places(), halved, {}, {}, 2, false, true).sum().backward();
  EXPECT_FALSE(is_sparse(halved.grad()));
  EXPECT_TRUE(equal(halved.grad() * 0.5, table.weight.grad()));
  EXPECT_EQ(table.weight.grad().sum().item<double>(), 9);
}

TEST(SparseGradient, HooksAndGradSeeIt) {
  Table table;
  int calls = 0;
  const auto undo = table.weight.register_hook([&](const Tensor& grad) -> Tensor {
    ++calls;
    EXPECT_TRUE(is_sparse(grad));
    const SparseTensor entries = sparse::from_tensor(grad);
    return sparse::as_tensor(entries.with_values(entries._values() * 2));
  });
  (table.loss(true) + table.loss(true)).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), dense_gradient() * 4));
  undo();
  const Tensor found = grad(table.loss(true), {table.weight})[0];
  EXPECT_TRUE(is_sparse(found));
  EXPECT_TRUE(allclose(to_dense(found), dense_gradient()));
}

TEST(SparseGradient, SecondDerivativesPassThroughItsDenseForm) {
  const auto second = [](bool sparse) {
    const Table table;
    const Tensor rows = embedding(places(), table.weight, {}, {}, 2, false, sparse);
    const Tensor first =
        grad((rows * rows * rows).sum(), {table.weight}, {.create_graph = true})[0];
    return to_dense(grad(to_dense(first).square().sum(), {table.weight})[0]);
  };
  EXPECT_TRUE(allclose(second(true), second(false)));
}

TEST(SparseGradient, OpsRefuseItByName) {
  const Table table;
  table.loss(true).backward();
  const Tensor grad = table.weight.grad();
  const auto message = [](auto run) {
    try {
      run();
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(message([&] { grad * 2; }).find("mul: sparse tensors are not supported"),
            std::string::npos);
  EXPECT_NE(message([&] { grad.zero_(); }).find("sparse tensors are not supported"),
            std::string::npos);
  EXPECT_NE(message([&] { grad.t(); }).find("sparse tensors are not supported"), std::string::npos);
  EXPECT_NE(message([&] { ones({6, 3}, kFloat64).add_(grad); }).find("add"), std::string::npos);
  EXPECT_NE(message([&] { grad.data_ptr(); }).find("a sparse tensor has no memory"),
            std::string::npos);
}

template <class Make>
void expect_equal_steps(Make make) {
  Tensor results[2];
  for (const bool sparse : {false, true}) {
    const Table table;
    const auto optimizer = make(table.weight);
    for (int step = 0; step < 4; ++step) {
      optimizer->zero_grad();
      table.loss(sparse).backward();
      EXPECT_EQ(is_sparse(table.weight.grad()), sparse);
      optimizer->step();
    }
    results[sparse] = table.weight.detach();
  }
  EXPECT_TRUE(allclose(results[0], results[1], 1e-12, 1e-12)) << results[0] << results[1];
}

TEST(SparseGradient, OptimizersStepAsWithTheDenseGradient) {
  using namespace optim;
  for (const bool maximize : {false, true})
    expect_equal_steps([=](const Tensor& w) {
      return std::make_unique<SGD>(std::vector<Tensor>{w},
                                   SGDOptions{.lr = 0.1, .maximize = maximize});
    });
  expect_equal_steps([](const Tensor& w) {
    return std::make_unique<SGD>(std::vector<Tensor>{w},
                                 SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  });
  for (const double decay : {0.0, 0.1})
    expect_equal_steps([=](const Tensor& w) {
      return std::make_unique<Adagrad>(
          std::vector<Tensor>{w},
          AdagradOptions{
              .lr = 0.1, .lr_decay = 0.2, .weight_decay = decay, .initial_accumulator_value = 0.5});
    });
}

TEST(SparseGradient, SgdDoesNotTouchOtherRows) {
  const Table table;
  const Tensor before = table.weight.detach().clone();
  optim::SGD optimizer({table.weight}, {.lr = 0.1});
  table.loss(true).backward();
  optimizer.step();
  EXPECT_TRUE(equal(ne(table.weight, before).any(1), tensor({1, 0, 1, 0, 1, 0}, kBool)));
}

TEST(SparseGradient, OtherOptimizersRefuseIt) {
  const Table table;
  table.loss(true).backward();
  optim::Adam adam({table.weight});
  EXPECT_THROW(adam.step(), Error);
  optim::LBFGS lbfgs({table.weight}, {.max_iter = 1});
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor loss = table.loss(true);
    loss.backward();
    return loss;
  });
}

TEST(SparseGradient, ClippingScalersAndZeroGrad) {
  const Table table;
  const Tensor dense = dense_gradient();
  table.loss(true).backward();
  const Tensor total = clip_grad_norm_(std::vector<Tensor>{table.weight}, 1.0);
  EXPECT_NEAR(total.item<double>(), norm(dense).item<double>(), 1e-9);
  ASSERT_TRUE(is_sparse(table.weight.grad()));
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), dense / total, 1e-5));
  clip_grad_value_(std::vector<Tensor>{table.weight}, 0.1);
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), (dense / total).clamp(-0.1, 0.1), 1e-5));
  optim::SGD optimizer({table.weight}, {.lr = 0.1});
  optimizer.zero_grad(/*set_to_none=*/false);
  ASSERT_TRUE(is_sparse(table.weight.grad()));
  EXPECT_EQ(sparse::from_tensor(table.weight.grad())._nnz(), 0);

  amp::GradScaler scaler({.init_scale = 8});
  scaler.scale(table.loss(true)).backward();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(allclose(to_dense(table.weight.grad()), dense));
}

TEST(SparseGradient, ModulesCarryItAlong) {
  nn::Embedding table(6, 3, {.sparse = true});
  table(places()).sum().backward();
  EXPECT_TRUE(is_sparse(table.weight.grad()));
  table.to(kFloat64);
  EXPECT_TRUE(is_sparse(table.weight.grad()));
  EXPECT_EQ(table.weight.grad().dtype(), kFloat64);
  EXPECT_EQ(to_dense(table.weight.grad()).sum().item<double>(), 18);
  table.zero_grad(false);
  EXPECT_EQ(sparse::from_tensor(table.weight.grad())._nnz(), 0);
  table.zero_grad();
  EXPECT_FALSE(table.weight.grad().defined());
}

TEST(SparseGradient, BagsGiveTheSame) {
  for (const char* mode : {"sum", "mean"})
    for (const std::optional<int64_t> padding :
         {std::optional<int64_t>(), std::optional<int64_t>(4)}) {
      Tensor found[2];
      for (const bool sparse : {false, true}) {
        const Table table;
        nn::EmbeddingBag bags(6, 3, {.mode = mode, .padding_idx = padding, .sparse = sparse});
        const Tensor rows = embedding_bag(places(), table.weight, {}, {}, 2, false, mode, sparse,
                                          {}, false, padding);
        (rows * arange(1, 7, kFloat64).view({2, 3})).sum().backward();
        EXPECT_EQ(is_sparse(table.weight.grad()), sparse);
        found[sparse] = to_dense(table.weight.grad());
      }
      EXPECT_TRUE(allclose(found[0], found[1])) << mode;
    }
  EXPECT_THROW(embedding_bag(places(), Table().weight, {}, {}, 2, false, "max", true), Error);
}

TEST(SparseGradient, HalfTypesAreSummedInFloat32) {
  const Tensor weight = ones({2, 1}, kBFloat16).requires_grad_();
  embedding(zeros({3001}, kInt64), weight, {}, {}, 2, false, true).sum().backward();
  const Tensor expected = tensor({{3001.}, {0.}}).to(kBFloat16);
  EXPECT_TRUE(equal(to_dense(weight.grad()), expected));
  EXPECT_TRUE(equal(sparse::from_tensor(weight.grad()).to_dense(), expected));
  clip_grad_norm_(std::vector<Tensor>{weight}, 1e9);
  EXPECT_TRUE(equal(sparse::from_tensor(weight.grad()).values(), expected.slice(0, 0, 1)));
}

TEST(SparseGradient, ABackwardOfYourOwnMayReturnIt) {
  struct Lookup : Function<Lookup> {
    static Tensor forward(Context&, const Tensor& table) {
      return table.index_select(0, tensor({1}, kInt64));
    }
    static TensorList backward(Context&, const TensorList& grads) {
      return {
          sparse::as_tensor(SparseTensor::from_coo(tensor({{1}}, kInt64), grads[0], {6, 3}, true))};
    }
  };
  const Table table;
  Lookup::apply(table.weight).sum().backward();
  EXPECT_TRUE(is_sparse(table.weight.grad()));
  EXPECT_EQ(to_dense(table.weight.grad()).sum().item<double>(), 3);
}

}  // namespace
}  // namespace tensora::testing
