// Sparse tensors: their parts, checks, conversions and printed form.
#include "tensora/sparse.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tensora/ops/operators.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

Tensor index(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<Tensor> parts;
  for (const auto& row : rows) parts.push_back(tensor(row, kInt64));
  return stack(parts);
}
Tensor index(std::initializer_list<int64_t> values) { return tensor(values, kInt64); }
Tensor numbers(std::initializer_list<double> values) { return tensor(values, kFloat32); }

TEST(SparseTensor, ShowsItsParts) {
  const auto a = sparse_coo_tensor(index({{0, 0, 1}, {2, 2, 0}}), numbers({1, 2, 5}), {2, 3});
  EXPECT_FALSE(a.is_coalesced());
  EXPECT_EQ(a._nnz(), 3);
  EXPECT_EQ(a.sparse_dim(), 2);
  EXPECT_EQ(a.dense_dim(), 0);
  EXPECT_TRUE(contains(error_of([&] { a.values(); }), "please call .coalesce() first"));
  EXPECT_TRUE(contains(error_of([&] { a.crow_indices(); }), "got SparseCOO"));
  const auto b = a.coalesce();
  EXPECT_EQ(values(b.indices()), (Values{0, 1, 2, 0}));
  EXPECT_EQ(values(b.values()), (Values{3, 5}));
  EXPECT_EQ(values(a.to_dense()), (Values{0, 0, 3, 5, 0, 0}));
  const auto c = b.to_sparse_csr();
  EXPECT_EQ(values(c.crow_indices()), (Values{0, 1, 2}));
  EXPECT_EQ(values(c.col_indices()), (Values{2, 0}));
  EXPECT_TRUE(contains(error_of([&] { c.indices(); }), "got SparseCsr"));
  EXPECT_EQ(values(c.to_sparse().indices()), values(b.indices()));
}

TEST(SparseTensor, PrintsAsPyTorchDoes) {
  const auto a = sparse_coo_tensor(index({{0, 1}, {2, 0}}), numbers({3, 4}), {2, 3});
  std::ostringstream text;
  text << a << '\n' << a.to_sparse_csr().to(kFloat16);
  EXPECT_EQ(text.str(),
            "tensor(indices=tensor([[0, 1],\n"
            "                       [2, 0]]),\n"
            "       values=tensor([3., 4.]),\n"
            "       size=(2, 3), nnz=2, layout=torch.sparse_coo)\n"
            "tensor(crow_indices=tensor([0, 1, 2]),\n"
            "       col_indices=tensor([2, 0]),\n"
            "       values=tensor([3., 4.]),\n"
            "       size=(2, 3), nnz=2, dtype=torch.float16, layout=torch.sparse_csr)");
}

TEST(SparseTensor, FindsTheSizeThatHoldsAllIndices) {
  EXPECT_EQ(sparse_coo_tensor(index({{4, 1}, {0, 2}}), ones({2, 3})).sizes(), (Shape{5, 3, 3}));
  EXPECT_EQ(sparse_csr_tensor(index({0, 1, 2}), index({0, 5}), ones({2})).sizes(), (Shape{2, 6}));
  EXPECT_EQ(sparse_coo_tensor({2, 3}).to_dense().sum().item<float>(), 0);
  EXPECT_EQ(sparse_coo_tensor({2, 3}, {.dtype = kFloat64}).dtype(), kFloat64);
}

TEST(SparseTensor, RefusesPartsThatDoNotFit) {
  const auto coo = [](const Tensor& i, const Tensor& v, const Shape& size) {
    return error_of([&] { sparse_coo_tensor(i, v, size); });
  };
  const auto csr = [](const Tensor& crow, const Tensor& col, int64_t nnz, const Shape& size) {
    return error_of([&] { sparse_csr_tensor(crow, col, ones({nnz}), size); });
  };
  const Tensor two = ones({2});
  const std::pair<std::string, const char*> table[] = {
      {coo(index({{0, -1}}), two, {3}), "found negative index -1 for dim 0"},
      {error_of([&] {
         sparse_coo_tensor(index({{0, -1}}), two);
       }),
       "found negative index -1"},
      {coo(index({{0, 3}}), two, {3}), "for dim 0, size is 3 but found index 3"},
      {coo(index({0, 3}), two, {3}), "indices must be sparse_dim x nnz, but got: [2]"},
      {coo(index({{0, 1}}), ones({1}), {3}), "nnz from indices: 2, nnz from values: 1"},
      {coo(index({{0, 1}}), ones({}), {3}), "nnz from indices: 2, nnz from values: 1"},
      {coo(index({{0, 1}}), two, {3, 3}), "len(size) = 2, sparse_dim = 1, dense_dim = 0"},
      {coo(index({{0, 1}}), ones({2, 4}), {3, 3}), "expected [2, 3], got [2, 4]"},
      {coo(ones({1, 2}), two, {3}), "indices must be a tensor of integers, got dtype float32"},
      {coo(index({{0, 1}}), two, {-3}), "sizes must not be negative"},
      {coo(Tensor(), two, {3}), "indices is undefined"},
      {error_of([&] {
         sparse_coo_tensor(index({{1, 0}}), two, {3}, {}, true);
       }),
       "cannot set is_coalesced to true"},
      {csr(index({0, 1, 2}), index({0, 5}), 2, {2, 3}), "0 <= col_indices < ncols"},
      {csr(index({0, 1, 2}), index({0, -1}), 2, {2, 3}), "0 <= col_indices < ncols"},
      {csr(index({0, 2, 1}), index({0, 1}), 2, {2, 3}), "crow_indices[..., -1] == nnz"},
      {csr(index({0, 3, 1, 2}), index({0, 1}), 2, {3, 3}), "crow_indices[..., 1:] -"},
      {csr(index({1, 1, 2}), index({0, 1}), 2, {2, 3}), "crow_indices[..., 0] == 0"},
      {csr(index({0, 2, 2}), index({1, 1}), 2, {3, 3}), "number of rows + 1 (=4), but got 3"},
      {csr(index({0, 2, 2}), index({1, 1}), 3, {2, 3}), "must be equal to nnz (=3)"},
      {csr(index({0, 2, 2}), index({1, 1}), 2, {2, 3, 1}), "expected a size of 2 dims"},
      {csr(index({{0, 1, 2}}), index({0, 1}), 2, {2, 3}), "must be 1-D"},
      {csr(index({}), index({}), 0, {0, 3}), "got none"},
  };
  for (const auto& [message, part] : table) EXPECT_TRUE(contains(message, part)) << part << message;
}

TEST(SparseTensor, ChecksAreOptional) {
  const Tensor wrong = index({{0, 7}});
  EXPECT_EQ(sparse_coo_tensor(wrong, ones({2}), {3}, {}, {}, false)._nnz(), 2);
  const Tensor crow = index({0, 2}), unsorted = index({2, 0});
  const auto a = sparse_csr_tensor(crow, unsorted, numbers({1, 2}), {1, 3});
  EXPECT_EQ(values(a.to_dense()), (Values{2, 0, 1}));
  EXPECT_FALSE(a.has_distinct_entries());
  EXPECT_TRUE(contains(error_of([&] {
                         sparse_csr_tensor(crow, unsorted, ones({2}), {1, 3}, {}, true);
                       }),
                       "sorted and distinct"));
}

TEST(SparseTensor, MeasuresNothingByTheProductOfItsSizes) {
  const int64_t huge = int64_t{1} << 31;
  const auto a =
      sparse_coo_tensor(index({{5, 5, huge - 1}, {7, 7, 3}}), numbers({1, 2, 4}), {huge, huge - 1});
  EXPECT_EQ(values(a.coalesce().values()), (Values{3, 4}));
  EXPECT_EQ(values(a.coalesce().indices()), (Values{5, static_cast<double>(huge - 1), 7, 3}));
  EXPECT_EQ(values((a + a).values()), (Values{6, 8}));
  EXPECT_EQ(values((a * a).values()), (Values{9, 16}));
  EXPECT_EQ(values((a * ones({1})).coalesce().values()), (Values{3, 4}));
  EXPECT_EQ(values(sparse::sum(a, {0}).indices()), (Values{3, 7}));
  const auto square = sparse::mm(a, a.t());
  EXPECT_EQ(square.sizes(), (Shape{huge, huge}));
  EXPECT_EQ(values(square.values()), (Values{9, 16}));
  EXPECT_TRUE(contains(error_of([&] {
                         sparse_coo_tensor({huge * 4, huge * 4});
                       }),
                       "has too many elements"));
}

TEST(SparseTensor, MovesAndCopies) {
  const Tensor entries = numbers({1, 2}).requires_grad_();
  const auto a = sparse_coo_tensor(index({{0, 1}}), entries, {2});
  EXPECT_TRUE(a.requires_grad());
  EXPECT_FALSE(a.detach().requires_grad());
  EXPECT_EQ(a.to(kFloat64).dtype(), kFloat64);
  EXPECT_TRUE(a.to(Device("meta")).device().is_meta());
  EXPECT_EQ(a.cpu().to_sparse()._nnz(), 2);
  const auto copy = a.detach().clone();
  copy._values().fill_(9);
  EXPECT_EQ(values(a.to_dense()), (Values{1, 2}));
  EXPECT_FALSE(SparseTensor().defined());
  EXPECT_EQ(SparseTensor().to_string(), "[ Undefined sparse tensor ]");
}

TEST(SparseTensor, ComesFromDenseTensors) {
  manual_seed(3);
  const Tensor dense = randn({3, 4, 2}) * (rand({3, 4, 2}) < 0.4);
  for (const int64_t dims : {1, 2, 3}) {
    const auto a = sparse::to_sparse(dense, dims);
    EXPECT_EQ(a.sparse_dim(), dims);
    EXPECT_TRUE(a.is_coalesced());
    EXPECT_TRUE(equal(a.to_dense(), dense));
  }
  EXPECT_TRUE(equal(sparse::to_sparse_csr(dense.select(2, 0)).to_dense(), dense.select(2, 0)));
  EXPECT_EQ(sparse::to_sparse(zeros({0, 3}))._nnz(), 0);
  EXPECT_TRUE(contains(error_of([&] { sparse::to_sparse_csr(dense); }), "to_sparse_csr"));
  const auto mask = sparse::to_sparse(dense);
  EXPECT_TRUE(
      equal(sparse::sparse_mask(ones({3, 4, 2}), mask).to_dense(), ne(dense, 0).to(kFloat32)));
}

}  // namespace
}  // namespace tensora::testing
