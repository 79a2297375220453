// Every kind of op gives the same bits whatever the number of threads and whether the pool was
// free.
#include <cstring>

#include "tests/backend/busy_pool.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::BusyPool, testing::NumThreads;

struct Sample {
  const char* name;
  std::function<Tensor()> run;
};

std::vector<Sample> samples() {
  manual_seed(7);
  const Tensor x = randn({301, 1703}), long_row = randn({1 << 20}), tall = randn({50'001, 7});
  const Tensor cube = randn({33, 70, 129}), half = randn({400, 500}).to(kBFloat16);
  const Tensor positive = rand({64, 4000}) + 0.1;
  const Tensor index = randint(0, 50, {20'000}), rows = randn({20'000, 9});
  const Tensor wide = randint(0, 301, {301, 1703});
  return {
      {"sum of all", [=] { return x.sum(); }},
      {"sum of a long row", [=] { return long_row.sum(); }},
      {"sum over rows", [=] { return x.sum(0); }},
      {"sum over columns", [=] { return x.sum(1); }},
      {"sum over columns of a tall matrix", [=] { return tall.sum(0); }},
      {"sum over the middle", [=] { return cube.sum(1); }},
      {"sum of a transposed matrix", [=] { return x.t().sum(1); }},
      {"sum of a strided matrix", [=] { return x.slice(1, 0, 1703, 3).sum(); }},
      {"mean of bf16", [=] { return half.mean(); }},
      {"var", [=] { return x.var(1); }},
      {"var of all", [=] { return long_row.var(); }},
      {"norm", [=] { return norm(x); }},
      {"logsumexp", [=] { return logsumexp(x, {0}); }},
      {"prod", [=] { return prod(positive, 1); }},
      {"argmax", [=] { return argmax(x, 0); }},
      {"cumsum along rows", [=] { return cumsum(x, 1); }},
      {"cumsum along columns", [=] { return cumsum(x, 0); }},
      {"exp", [=] { return exp(x); }},
      {"exp of strided", [=] { return exp(x.slice(1, 1, 1703, 2)); }},
      {"tanh of bf16", [=] { return tanh(half); }},
      {"gelu", [=] { return gelu(long_row); }},
      {"a row added", [=] { return sigmoid(x + x[3]); }},
      {"index_add",
       [=] {
         return index_add(zeros({50, 9}), 0, index, rows);
       }},
      {"scatter_add",
       [=] {
         return scatter_add(zeros({301, 1703}), 0, wide, x);
       }},
      {"gradient of a row that was added",
       [=] {
         const Tensor bias = zeros({1703}, {.requires_grad = true});
         (sin(x + bias) * x).sum().backward();
         return bias.grad();
       }},
      {"gradient of indexing",
       [=] {
         const Tensor table = randn({50, 9}, {.requires_grad = true});
         (index_select(table, 0, index) * rows).sum().backward();
         return table.grad();
       }},
      {"randn",
       [=] {
         manual_seed(3);
         return randn({100'003});
       }},
      {"multinomial",
       [=] {
         manual_seed(3);
         return multinomial(positive, 5, true);
       }},
      {"a skinny product", [=] { return matmul(x.slice(0, 0, 3), x.t()); }},
      {"a product with a long k", [=] { return matmul(tall.t(), tall); }},
      {"a batch of products", [=] { return matmul(cube, cube.transpose(1, 2)); }},
      {"a product of bf16", [=] { return matmul(half, half.t()); }},
  };
}

TEST(SameBits, WhateverTheNumberOfThreads) {
  const DeterministicScope deterministic(true);
  for (const Sample& sample : samples()) {
    Tensor expected;
    {
      const NumThreads one(1);
      expected = sample.run().detach().contiguous();
    }
    const auto compare = [&](const Tensor& got, int threads, const char* where) {
      const Tensor flat = got.detach().contiguous();
      ASSERT_EQ(flat.sizes(), expected.sizes());
      EXPECT_EQ(std::memcmp(flat.data_ptr(), expected.data_ptr(),
                            static_cast<size_t>(flat.numel()) * element_size(flat.dtype())),
                0)
          << sample.name << ", " << threads << " threads" << where;
    };
    for (const int threads : {1, 2, 3, 8}) {
      const NumThreads several(threads);
      compare(sample.run(), threads, "");
      const BusyPool busy;
      compare(sample.run(), threads, " and a busy pool");
    }
  }
}

}  // namespace
}  // namespace tensora
