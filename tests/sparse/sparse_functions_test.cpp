// Products, sums and elementwise functions of sparse tensors, and their gradients, against dense
// ones.
#include <gtest/gtest.h>

#include <limits>

#include "tensora/ops/operators.h"
#include "tensora/sparse.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

enum class Form { coo, uncoalesced, csr, unsorted_csr };
constexpr Form kForms[] = {Form::coo, Form::uncoalesced, Form::csr, Form::unsorted_csr};

// With an entry at the first place at least.
Tensor random_dense(const Shape& sizes) {
  const Tensor dense = randn(sizes, kFloat64) * (rand(sizes) < 0.4);
  dense.view(-1).slice(0, 0, 1).fill_(0.5);
  return dense;
}

// A sparse form of a dense matrix whose values are computed from it, so that gradients reach it.
SparseTensor sparse_form(const Tensor& dense, Form form) {
  const auto coo = sparse::to_sparse(dense);
  if (form == Form::coo) return coo;
  if (form == Form::csr) return coo.to_sparse_csr();
  // Each entry as two, in another order.
  const int64_t nnz = coo._nnz();
  const Tensor order = randperm(2 * nnz);
  const Tensor indices = cat({coo.indices(), coo.indices()}, 1).index_select(1, order);
  const Tensor entries = cat({coo.values() * 0.25, coo.values() * 0.75}).index_select(0, order);
  const auto twice = SparseTensor::from_coo(indices, entries, dense.sizes(), false);
  if (form == Form::uncoalesced) return twice;
  const auto by_row = argsort(indices.select(0, 0), 0, false, true);
  const Tensor rows = indices.select(0, 0).index_select(0, by_row).contiguous();
  const Tensor crow = searchsorted(rows, arange(dense.size(0) + 1, kInt64));
  return sparse_csr_tensor(crow, indices.select(0, 1).index_select(0, by_row),
                           entries.index_select(0, by_row), dense.sizes());
}

bool close(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && (a.numel() == 0 || allclose(a, b, 1e-9, 1e-9));
}

// Results and gradients of a function of a sparse matrix and a dense tensor, in every form.
void compare(const Shape& sizes, const Shape& other_sizes,
             const std::function<Tensor(const SparseTensor&, const Tensor&)>& of_sparse,
             const std::function<Tensor(const Tensor&, const Tensor&)>& of_dense) {
  for (const Form form : kForms) {
    const Tensor dense = random_dense(sizes).requires_grad_();
    const Tensor other = (rand(other_sizes, kFloat64) + 0.5).requires_grad_();
    const Tensor expected = of_dense(dense, other);
    const Tensor got = of_sparse(sparse_form(dense, form), other);
    ASSERT_TRUE(close(got, expected)) << static_cast<int>(form) << got << expected;
    const Tensor weights = randn(expected.sizes(), kFloat64);
    const auto gradients = [&](const Tensor& result) {
      return grad({(result * weights).sum()}, {dense, other}, {}, {.allow_unused = true});
    };
    const auto want = gradients(expected), have = gradients(got);
    ASSERT_TRUE(have[0].defined()) << static_cast<int>(form) << dense;
    const Tensor entries = ne(dense.detach(), 0).to(kFloat64);
    ASSERT_TRUE(close(have[0] * entries, want[0] * entries)) << static_cast<int>(form);
    if (want[1].defined()) {
      ASSERT_TRUE(close(have[1], want[1])) << static_cast<int>(form);
    }
  }
}

TEST(SparseFunctions, ProductsAreThoseOfDenseMatrices) {
  manual_seed(1);
  for (const auto& [rows, inner, columns] :
       {std::tuple{5, 7, 3}, std::tuple{1, 4, 1}, std::tuple{6, 1, 40}, std::tuple{13, 17, 130}}) {
    compare(
        {rows, inner}, {inner, columns}, [](const auto& s, const Tensor& x) { return mm(s, x); },
        [](const Tensor& d, const Tensor& x) { return mm(d, x); });
    compare(
        {rows, inner}, {columns, rows}, [](const auto& s, const Tensor& x) { return mm(x, s); },
        [](const Tensor& d, const Tensor& x) { return mm(x, d); });
    compare(
        {rows, inner}, {columns, rows},
        [](const auto& s, const Tensor& x) { return mm(s.t(), transpose(x, 0, 1)); },
        [](const Tensor& d, const Tensor& x) { return mm(d.t(), x.t()); });
    compare(
        {rows, inner}, {inner}, [](const auto& s, const Tensor& x) { return mv(s, x); },
        [](const Tensor& d, const Tensor& x) { return mv(d, x); });
    compare(
        {rows, inner}, {rows}, [](const auto& s, const Tensor& x) { return matmul(x, s); },
        [](const Tensor& d, const Tensor& x) { return matmul(x, d); });
    compare(
        {rows, inner}, {rows, inner},
        [](const auto& s, const Tensor& x) { return mm(s, sparse::to_sparse(x).t()).to_dense(); },
        [](const Tensor& d, const Tensor& x) { return mm(d, x.t()); });
  }
}

TEST(SparseFunctions, SumsOfProducts) {
  manual_seed(2);
  const Tensor bias = randn({3}, kFloat64), left = randn({5, 4}, kFloat64);
  compare(
      {5, 7}, {7, 3},
      [&](const auto& s, const Tensor& x) { return sparse::addmm(bias, s, x, 2, 3); },
      [&](const Tensor& d, const Tensor& x) { return bias * 2 + mm(d, x) * 3; });
  compare(
      {5, 7}, {4, 7},
      [&](const auto& s, const Tensor& x) { return sampled_addmm(s, left, x, 0.5, 2).to_dense(); },
      [&](const Tensor& d, const Tensor& x) {
        return (d * 0.5 + mm(left, x) * 2) * ne(d.detach(), 0);
      });
  const Tensor nothing = full({1}, std::numeric_limits<double>::quiet_NaN(), kFloat64);
  const auto a = sparse::to_sparse(random_dense({5, 7}));
  EXPECT_FALSE(sparse::addmm(nothing, a, ones({7, 2}, kFloat64), 0).isnan().any().item<bool>());
}

TEST(SparseFunctions, ElementwiseFunctionsKeepZeros) {
  manual_seed(4);
  const Shape sizes{4, 6};
  const auto dense_of = [](auto function) {
    return [=](const Tensor& d, const Tensor&) { return function(d); };
  };
  const auto sparse_of = [](auto function) {
    return [=](const auto& s, const Tensor&) { return function(s).to_dense(); };
  };
  const auto both = [&](auto function) {
    compare(sizes, sizes, sparse_of(function), dense_of(function));
  };
  both([](const auto& x) { return sin(x); });
  both([](const auto& x) { return tanh(x); });
  both([](const auto& x) { return square(x); });
  both([](const auto& x) { return expm1(x); });
  both([](const auto& x) { return relu(x); });
  both([](const auto& x) { return abs(x); });
  both([](const auto& x) { return neg(x); });
  both([](const auto& x) { return pow(x, 3); });
  both([](const auto& x) { return x * 3 / 2; });
  for (const Shape& other : {Shape{4, 6}, Shape{1, 6}, Shape{4, 1}, Shape{6}, Shape{}}) {
    compare(
        sizes, other, [](const auto& s, const Tensor& x) { return (s * x).to_dense(); },
        [](const Tensor& d, const Tensor& x) { return d * x; });
    compare(
        sizes, other, [](const auto& s, const Tensor& x) { return (s / x).to_dense(); },
        [](const Tensor& d, const Tensor& x) { return d / x; });
    compare(
        sizes, other, [](const auto& s, const Tensor& x) { return x + s; },
        [](const Tensor& d, const Tensor& x) { return x + d; });
    compare(
        sizes, other, [](const auto& s, const Tensor& x) { return sparse::sub(x, s, 2); },
        [](const Tensor& d, const Tensor& x) { return x - d * 2; });
  }
}

TEST(SparseFunctions, SparseOperandsMeet) {
  manual_seed(5);
  for (const Form form : kForms) {
    const Tensor a = random_dense({4, 6}), b = random_dense({4, 6});
    const auto x = sparse_form(a, form), y = sparse_form(b, form);
    EXPECT_TRUE(close((x + y).to_dense(), a + b));
    EXPECT_TRUE(close((x - y).to_dense(), a - b));
    EXPECT_TRUE(close((x * y).to_dense(), a * b));
    EXPECT_EQ((x * y)._nnz(), (a * b).count_nonzero().item<int64_t>());
    EXPECT_TRUE(close((x * (y * 0).coalesce()).to_dense(), a * 0));
    EXPECT_TRUE(close((x * sparse::to_sparse(zeros({4, 6}, kFloat64))).to_dense(), a * 0));
    EXPECT_TRUE((x + y).has_distinct_entries());
    EXPECT_EQ((x + y).layout(), x.layout());
    const Tensor wide = sparse::mm(x, y.t()).to_dense();
    EXPECT_TRUE(close(wide, mm(a, b.t())));
  }
}

TEST(SparseFunctions, SumsOverDims) {
  manual_seed(6);
  for (const Form form : kForms) {
    const Tensor a = random_dense({4, 6});
    const auto x = sparse_form(a, form);
    EXPECT_TRUE(close(sparse::sum(x), a.sum()));
    EXPECT_TRUE(close(sparse::sum(x, {0}).to_dense(), a.sum({0})));
    EXPECT_TRUE(close(sparse::sum(x, {-1}).to_dense(), a.sum({1})));
    EXPECT_TRUE(contains(error_of([&] { sparse::sum(x, {0, 1}); }), "sum_to_dense"));
    EXPECT_TRUE(contains(error_of([&] { sparse::sum(x, {0, 0}); }), "appears twice"));
    EXPECT_TRUE(contains(error_of([&] { sparse::sum(x, {2}); }), "out of range"));
    const Tensor masked =
        where(eq(a, 0), full_like(a, -std::numeric_limits<double>::infinity()), a);
    EXPECT_TRUE(close(sparse::softmax(x, 1).to_dense(), masked.softmax(1).nan_to_num(0)));
    EXPECT_TRUE(close(sparse::log_softmax(x, 0).coalesce()._values().exp(),
                      sparse::softmax(x, 0).coalesce()._values()));
  }
  const Tensor hybrid = random_dense({3, 4, 2});
  const auto x = sparse::to_sparse(hybrid, 2);
  EXPECT_TRUE(close(sparse::sum(x, {2}).to_dense(), hybrid.sum({2})));
  EXPECT_TRUE(close(sparse::sum(x, {0, 2}).to_dense(), hybrid.sum({0, 2})));
  EXPECT_TRUE(close(sparse::sum_to_dense(x), hybrid.sum({0, 1})));
  EXPECT_TRUE(close((x * x).to_dense(), hybrid * hybrid));
  EXPECT_TRUE(close((x + x).transpose(0, 1).to_dense(), (hybrid * 2).transpose(0, 1)));
  EXPECT_TRUE(close((x * ones({2}, kFloat64)).to_dense(), hybrid));
  EXPECT_TRUE(contains(error_of([&] { mm(x, hybrid); }), "expected a sparse matrix"));
  EXPECT_TRUE(contains(error_of([&] { x.transpose(0, 2); }), "must be sparse"));
}

TEST(SparseFunctions, LeavesGetSparseGradients) {
  const Tensor indices = tensor({{0, 0, 1}, {2, 2, 0}}, kInt64);
  const auto a = sparse_coo_tensor(indices, ones({3}), {2, 3}, {.requires_grad = true});
  mv(a, tensor({1., 10., 100.}, kFloat32)).sum().backward();
  const auto gradient = a.grad();
  EXPECT_TRUE(gradient.is_coalesced());
  EXPECT_EQ(values(gradient.to_dense()), (Values{0, 0, 100, 1, 0, 0}));
  EXPECT_FALSE(a.detach().grad().defined());
}

TEST(SparseFunctions, EmptyMatricesAndDtypes) {
  for (const auto& [rows, inner, columns] :
       {std::tuple{0, 3, 2}, std::tuple{3, 0, 2}, std::tuple{3, 2, 0}, std::tuple{3, 2, 4}}) {
    for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kInt64, kInt8, kComplex64}) {
      const auto a = sparse_coo_tensor({rows, inner}, {.dtype = dtype});
      const Tensor dense = ones({inner, columns}, dtype);
      for (const auto& form : {a, a.to_sparse_csr(), a + a, a * a, a.t().t()}) {
        const Tensor out = mm(form, dense);
        EXPECT_EQ(out.dtype(), dtype);
        EXPECT_TRUE(equal(out, zeros({rows, columns}, dtype)));
      }
      EXPECT_EQ(mm(a, a.t())._nnz(), 0);
    }
  }
  const auto half = sparse::to_sparse(full({2, 3000}, 1, kFloat16));
  EXPECT_EQ(mm(half, ones({3000, 1}, kFloat16)).select(0, 1).item<float>(), 3000);  // summed wide
  EXPECT_EQ(mm(half, ones({3000, 1}, kFloat32)).dtype(), kFloat32);
  EXPECT_TRUE(contains(error_of([&] { mm(half, ones({4, 1})); }), "cannot be multiplied"));
  EXPECT_TRUE(contains(error_of([&] { sparse::pow(half, 0); }), "greater than 0"));
  EXPECT_TRUE(contains(error_of([&] { half* ones({3, 3000}); }), "broadcast"));
}

}  // namespace
}  // namespace tensora::testing
