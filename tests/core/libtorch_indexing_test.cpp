// Ordinary lines of LibTorch programs, continued: indexing, assignment, arithmetic, reductions,
// shapes, autograd, containers.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tests/helpers.h"

namespace torch = tensora;

namespace tensora::testing {
namespace {

using torch::indexing::Ellipsis;
using torch::indexing::None;
using torch::indexing::Slice;

Tensor matrix() { return arange(6, kDouble).view({2, 3}); }  // 0 1 2 / 3 4 5

TEST(LibTorchAssignment, WritesThroughATemporary) {
  auto x = torch::zeros({2, 3}, torch::kDouble);
  x[0] = torch::tensor({1, 2, 3});
  EXPECT_EQ(values(x), (Values{1, 2, 3, 0, 0, 0}));
  x[1] = 5;
  EXPECT_EQ(values(x), (Values{1, 2, 3, 5, 5, 5}));
  x[0][1] = 2.5;
  EXPECT_EQ(values(x), (Values{1, 2.5, 3, 5, 5, 5}));
  x[-1] = x[0];
  EXPECT_EQ(values(x), (Values{1, 2.5, 3, 1, 2.5, 3}));
  x.index({Slice(), 0}) = torch::tensor({7.0, 8.0});
  EXPECT_EQ(values(x), (Values{7, 2.5, 3, 8, 2.5, 3}));
  x.index({Ellipsis, Slice(1, None)}) = 0;
  EXPECT_EQ(values(x), (Values{7, 0, 0, 8, 0, 0}));
  x.index({1, 2}) = torch::tensor(4);
  EXPECT_EQ(values(x), (Values{7, 0, 0, 8, 0, 4}));
  x.select(1, 1) = 9;
  x.narrow(1, 0, 1) = -1;
  x.t()[2] = torch::ones({2});
  EXPECT_EQ(values(x), (Values{-1, 9, 1, -1, 9, 1}));
  x[Slice(1, None)] = true;
  EXPECT_EQ(values(x), (Values{-1, 9, 1, 1, 1, 1}));
  x[0] += 1;
  EXPECT_EQ(values(x), (Values{0, 10, 2, 1, 1, 1}));
}

TEST(LibTorchAssignment, RebindsAName) {
  const auto x = matrix();
  torch::Tensor y = x[0];
  y = torch::ones({4});
  EXPECT_EQ(y.sizes(), Shape{4});
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 4, 5}));
  auto row = x[1];
  row = x[0];
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(row.shares_storage(x));
  for (auto&& part : x) part = torch::zeros({3});
  EXPECT_EQ(values(x), (Values{0, 1, 2, 3, 4, 5})) << "the loop's name was rebound";
  for (auto&& part : x) part.zero_();
  EXPECT_EQ(values(x), Values(6, 0.0));
}

TEST(LibTorchAssignment, HandlesMoveAsValuesDo) {
  torch::Tensor a = torch::ones({1}), b = torch::zeros({2});
  const auto was_a = a;
  std::swap(a, b);
  EXPECT_TRUE(b.is_same(was_a));
  std::vector<torch::Tensor> list{a, b};
  list[0] = list[1];
  EXPECT_TRUE(list[0].is_same(was_a));
  list.erase(list.begin());
  std::pair<torch::Tensor, int> pair{a, 1};
  pair = {b, 2};
  EXPECT_TRUE(pair.first.is_same(was_a));
  torch::Tensor values_of, positions;
  std::tie(values_of, positions) = matrix().max(1);
  EXPECT_EQ(values(positions), (Values{2, 2}));
  std::optional<torch::Tensor> maybe;
  maybe = a;
  EXPECT_TRUE(maybe->is_same(a));
  torch::Tensor c;
  c = std::move(a);
  EXPECT_FALSE(a.defined());
  a = {};
  EXPECT_FALSE(a.defined());
  struct Both {
    torch::Tensor first, second;
  } both{c, b}, other{b, c};
  both = other;
  EXPECT_TRUE(both.first.is_same(b));
  torch::Tensor target = torch::zeros({2});
  const auto same = target;
  std::move(target) = torch::ones({2});  // an xvalue is written to, as in LibTorch
  EXPECT_EQ(values(same), (Values{1, 1}));
  std::vector<torch::Tensor> sorted{torch::tensor(2), torch::tensor(1)};
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& l, const auto& r) { return (l < r).template item<bool>(); });
  EXPECT_EQ(sorted[0].item<int>(), 1);
}

TEST(LibTorchAssignment, IsRecorded) {
  const auto w = leaf({1, 2, 3});
  auto x = torch::zeros({2, 3}, torch::kDouble);
  x[0] = w * 2;
  x[1] = 4;
  x.sum().backward();
  EXPECT_EQ(values(w.grad()), (Values{2, 2, 2}));
  EXPECT_TRUE(contains(error_of([&] { w[0] = 1; }), "a view of a leaf"));
}

TEST(LibTorchAssignment, ACopyIsNotSilentlyWrittenTo) {
  const auto x = matrix();
  EXPECT_TRUE(contains(error_of([&] { x.index({x > 2}) = 0; }), "use x.index_put_"));
  EXPECT_TRUE(contains(error_of([&] { x[torch::tensor({0})] = x[1]; }), "use x.index_put_"));
  x.index_put_({x > 2}, 0);
  x.index_put_({torch::tensor({0}), Slice()}, torch::ones({3}, torch::kDouble));
  EXPECT_EQ(values(x), (Values{1, 1, 1, 0, 0, 0}));
  EXPECT_TRUE(contains(error_of([&] { Tensor() = x; }), "operator=: "));
}

TEST(LibTorchIndexing, Reads) {
  const auto x = matrix();
  EXPECT_EQ(values(x[0]), (Values{0, 1, 2}));
  EXPECT_EQ(x[1][2].item<double>(), 5);
  EXPECT_EQ(values(x.index({0})), (Values{0, 1, 2}));
  EXPECT_EQ(values(x.index({Slice(), 1})), (Values{1, 4}));
  EXPECT_EQ(values(x.index({Slice(None, 1)})), (Values{0, 1, 2}));
  EXPECT_EQ(values(x.index({Slice(1, None)})), (Values{3, 4, 5}));
  EXPECT_EQ(values(x.index({Slice(), Slice(None, None, 2)})), (Values{0, 2, 3, 5}));
  EXPECT_EQ(values(x.index({Slice(None, None, None), -1})), (Values{2, 5}));
  EXPECT_EQ(values(x.index({"...", 0})), (Values{0, 3}));
  EXPECT_EQ(values(x.index({Ellipsis, 0})), (Values{0, 3}));
  EXPECT_EQ(x.index({None}).sizes(), (Shape{1, 2, 3}));
  EXPECT_EQ(x.index({Slice(), None, Slice(1)}).sizes(), (Shape{2, 1, 2}));
  EXPECT_EQ(values(x.index({torch::tensor({1, 0})})), (Values{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(values(x[torch::tensor({1})]), (Values{3, 4, 5}));
  EXPECT_EQ(values(x[torch::tensor(1)]), (Values{3, 4, 5}));
  EXPECT_EQ(values(x[x > 3]), (Values{4, 5}));
  EXPECT_EQ(values(x.index({x > 3})), (Values{4, 5}));
  EXPECT_EQ(values(x[Slice(1, 2)]), (Values{3, 4, 5}));
  EXPECT_EQ(values(x.index({true})), values(x));
  const std::vector<torch::indexing::TensorIndex> indices{0, Slice(1)};
  EXPECT_EQ(values(x.index(indices)), (Values{1, 2}));
  EXPECT_TRUE(contains(error_of([&] { x.index({"a"}); }), "\"...\""));
  EXPECT_EQ(values(x.slice(1, 0, 2)), (Values{0, 1, 3, 4}));
}

TEST(LibTorchIndexing, IndexTensorsOfSmallIntegers) {
  const auto x = torch::arange(12).reshape({3, 4});
  for (const DType dtype : {kInt8, kInt16, kInt32, kInt64}) {
    EXPECT_EQ(values(x.index({torch::tensor(2, dtype)})), (Values{8, 9, 10, 11})) << dtype;
    EXPECT_EQ(values(x.index({Slice(), torch::tensor(-1, dtype)})), (Values{3, 7, 11})) << dtype;
  }
  // As in PyTorch, only a number may be of these dtypes.
  EXPECT_TRUE(contains(error_of([&] {
                         x.index({torch::tensor({0, 2}, kInt16)});
                       }),
                       "must be int64, int32, bool or uint8, got int16"));
}

TEST(LibTorchIndexing, Elements) {
  const auto x = matrix();
  const auto a = x.accessor<double, 2>();
  double sum = 0;
  for (int i = 0; i < a.size(0); ++i)
    for (int j = 0; j < a.size(1); ++j) sum += a[i][j];
  EXPECT_EQ(sum, 15);
  a[1][0] = 30;
  EXPECT_EQ(x[1][0].item<double>(), 30);
  EXPECT_EQ((x.t().accessor<double, 2>()[0][1]), 30);
  EXPECT_EQ((x.accessor<const double, 2>()[0][1]), 1);
  EXPECT_EQ((torch::tensor(4).accessor<int64_t, 0>()), 4);
  EXPECT_EQ(x.at<double>({0, -1}), 2);
  x.at<double>({0, 0}) = -1;
  EXPECT_EQ(x.at({0, 0}), Scalar(-1));
  EXPECT_EQ(x.data_ptr<double>()[0], -1);
  EXPECT_EQ(x.const_data_ptr<double>()[1], 1);
  EXPECT_EQ(x.mutable_data_ptr<double>(), x.data_ptr<double>());
  EXPECT_TRUE(
      contains(error_of([&] { x.accessor<double, 3>(); }), "accessor: expected a tensor of 3"));
  EXPECT_TRUE(
      contains(error_of([&] { x.accessor<float, 2>(); }), "accessor: the tensor holds float64"));
  EXPECT_TRUE(contains(error_of([&] { x.at<double>({2, 0}); }), "at: index 2 is out of range"));
  EXPECT_TRUE(contains(error_of([&] {
                         x.to("meta").at<double>({0, 0});
                       }),
                       "at: the tensor is on meta"));
}

TEST(LibTorchIndexing, RangeFor) {
  std::vector<double> sums;
  for (const torch::Tensor& row : matrix()) sums.push_back(row.sum().item<double>());
  EXPECT_EQ(sums, (Values{3, 12}));
  for (const auto& row : torch::zeros({0, 3})) FAIL() << row;
  EXPECT_TRUE(contains(error_of([] {
                         for (const auto& x : torch::tensor(1)) static_cast<void>(x);
                       }),
                       "cannot be iterated over"));
}

TEST(LibTorchArithmetic, Operators) {
  const auto x = torch::tensor({1, 2, 3});
  EXPECT_EQ(values(x * 5ull), (Values{5, 10, 15}));
  EXPECT_EQ(values(x + 1u), (Values{2, 3, 4}));
  EXPECT_EQ(values(2 * x - 1), (Values{1, 3, 5}));
  EXPECT_EQ(values(1 - x), (Values{0, -1, -2}));
  EXPECT_EQ((x / 2).dtype(), kFloat32);
  EXPECT_EQ((x * 0.5f).dtype(), kFloat32);
  EXPECT_EQ(values(x == 3), (Values{0, 0, 1}));
  EXPECT_EQ(values(x != 3), (Values{1, 1, 0}));
  EXPECT_EQ(values(3 > x), (Values{1, 1, 0}));
  EXPECT_EQ(values(-x), (Values{-1, -2, -3}));
  EXPECT_EQ(values((x > 1) && (x < 3)), (Values{0, 1, 0}));
  EXPECT_EQ(values((x == 1) || (x == 3)), (Values{1, 0, 1}));
  EXPECT_EQ(values(!(x > 1)), (Values{1, 0, 0}));
  EXPECT_EQ(values((x > 1) && true), (Values{0, 1, 1}));
  EXPECT_EQ(values((x > 1) & (x < 3)), (Values{0, 1, 0}));
  EXPECT_EQ(values(~(x > 1)), (Values{1, 0, 0}));
  auto y = x.clone();
  y += 1;
  y *= x;
  EXPECT_EQ(values(y), (Values{2, 6, 12}));
  EXPECT_EQ(values(torch::add(x, x, 2)), (Values{3, 6, 9}));
  EXPECT_EQ(values(x.pow(2)), (Values{1, 4, 9}));
  EXPECT_EQ(values(torch::where(x > 1, x, 0)), (Values{0, 2, 3}));
  EXPECT_EQ(values(torch::relu(x - 2)), (Values{0, 0, 1}));
  EXPECT_EQ(values(torch::clamp(x, 2, 3)), (Values{2, 2, 3}));
  EXPECT_EQ(values(torch::max(x, torch::tensor(2))), (Values{2, 2, 3}));
}

TEST(LibTorchArithmetic, Reductions) {
  const auto x = matrix();
  EXPECT_EQ(x.sum().item<double>(), 15);
  EXPECT_EQ(values(x.sum(1)), (Values{3, 12}));
  EXPECT_EQ(values(x.sum({0, 1})), (Values{15}));
  EXPECT_EQ(x.sum({0}, /*keepdim=*/true).sizes(), (Shape{1, 3}));
  EXPECT_EQ(x.mean(-1, true).sizes(), (Shape{2, 1}));
  EXPECT_EQ(values(x.mean(-1)), (Values{1, 4}));
  EXPECT_EQ(x.mean().item<double>(), 2.5);
  EXPECT_EQ(x.sum(torch::kFloat).dtype(), kFloat32);
  EXPECT_EQ(torch::mean(torch::ones({2}, torch::kInt), torch::kFloat).item<float>(), 1);
  EXPECT_EQ(x.prod().item<double>(), 0);
  EXPECT_EQ(values(x.prod(1)), (Values{0, 60}));
  EXPECT_EQ(x.max().item<double>(), 5);
  EXPECT_EQ(values(std::get<0>(x.max(1))), (Values{2, 5}));
  const auto [largest, where] = torch::max(x, /*dim=*/0);
  EXPECT_EQ(values(where), (Values{1, 1, 1}));
  EXPECT_EQ(values(x.argmax(1)), (Values{2, 2}));
  EXPECT_EQ(x.argmax().item<int64_t>(), 5);
  EXPECT_EQ(values(x.amax(1)), (Values{2, 5}));
  EXPECT_EQ(values(x.std(1)), (Values{1, 1}));
  EXPECT_EQ(values(x.var(1, /*unbiased=*/false)), (Values{2.0 / 3, 2.0 / 3}));
  EXPECT_TRUE((x >= 0).all().item<bool>());
  EXPECT_FALSE(x.any(1)[0].logical_not().item<bool>());
  EXPECT_EQ(x.norm().item<double>(), std::sqrt(55.0));
  EXPECT_EQ(values(x.cumsum(1)), (Values{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(values(torch::logsumexp(torch::zeros({1, 1}), 1)), (Values{0}));
}

TEST(LibTorchArithmetic, Shapes) {
  const auto x = matrix();
  EXPECT_EQ(x.view(-1).sizes(), Shape{6});
  EXPECT_EQ(x.view({3, -1}).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.reshape({-1}).sizes(), Shape{6});
  EXPECT_EQ(x.reshape({3, 2}).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.permute({1, 0}).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.transpose(0, 1).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.t().sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.unsqueeze(0).sizes(), (Shape{1, 2, 3}));
  EXPECT_EQ(x.unsqueeze(0).squeeze().sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(0).squeeze(0).sizes(), (Shape{2, 3}));
  EXPECT_EQ(x.flatten().sizes(), Shape{6});
  EXPECT_EQ(x.flatten(0, 1).sizes(), Shape{6});
  EXPECT_EQ(x.expand({4, 2, 3}).sizes(), (Shape{4, 2, 3}));
  EXPECT_EQ(x.repeat({1, 2}).sizes(), (Shape{2, 6}));
  EXPECT_EQ(torch::cat({x, x}, 0).sizes(), (Shape{4, 3}));
  EXPECT_EQ(torch::cat({x, x}).sizes(), (Shape{4, 3}));
  EXPECT_EQ(torch::stack({x, x}).sizes(), (Shape{2, 2, 3}));
  EXPECT_EQ(x.chunk(3, 1).size(), 3u);
  EXPECT_EQ(x.split(2, 1)[1].sizes(), (Shape{2, 1}));
  EXPECT_EQ(x.unbind(0).size(), 2u);
  EXPECT_EQ(torch::mm(x, x.t()).sizes(), (Shape{2, 2}));
  EXPECT_EQ(x.matmul(x.t()).sizes(), (Shape{2, 2}));
  EXPECT_EQ(torch::matmul(x, torch::ones({3}, torch::kDouble)).sizes(), Shape{2});
  EXPECT_EQ(x.index_select(1, torch::tensor({2, 0})).sizes(), (Shape{2, 2}));
  EXPECT_EQ(values(x.gather(1, torch::tensor({{2}, {0}}))), (Values{2, 3}));
  EXPECT_EQ(values(x.masked_fill(x > 2, 0)), (Values{0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(x.masked_select(x > 2).sizes(), Shape{3});
  EXPECT_TRUE(torch::equal(x, x.clone()));
  EXPECT_TRUE(torch::allclose(x, x + 1e-9));
  EXPECT_TRUE(x.equal(x));
}

TEST(LibTorchAutograd, Gradients) {
  const auto x = torch::ones({2, 2}, torch::requires_grad());
  const auto y = x + 2;
  const auto z = y * y * 3;
  const auto out = z.mean();
  out.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(values(x.grad()), Values(4, 4.5));
  EXPECT_FALSE(y.grad_fn() == nullptr);
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(values(torch::autograd::grad({out}, {x}, {}, true)[0]), Values(4, 4.5));
  EXPECT_EQ(values(torch::grad({out}, {x}, {.retain_graph = true})[0]), Values(4, 4.5));
  EXPECT_EQ(values(torch::autograd::grad({out, out}, {x}, {}, true)[0]), Values(4, 9));
  EXPECT_EQ(values(torch::autograd::grad({z}, {x}, {torch::ones_like(z)}, true)[0]), Values(4, 18));
  const auto first = torch::autograd::grad({out}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_EQ(values(torch::autograd::grad({first.sum()}, {x})[0]), Values(4, 1.5));
  torch::autograd::backward({out});
  EXPECT_EQ(values(x.grad()), Values(4, 9));
}

TEST(LibTorchAutograd, Modes) {
  const auto x = torch::ones({1}, torch::requires_grad());
  {
    torch::NoGradGuard no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    torch::AutoGradMode enable(true);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  {
    torch::InferenceMode guard;
    EXPECT_FALSE((x * 2).requires_grad());
    EXPECT_TRUE((x * 2).is_inference());
    torch::InferenceMode off(false);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  {
    torch::InferenceMode guard(true);
    EXPECT_TRUE((x * 2).is_inference());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_FALSE(x.detach().requires_grad());
}

TEST(LibTorchContainers, KeysByIdentity) {
  const auto a = torch::ones({2}), b = torch::ones({2});
  const auto again = a;
  EXPECT_EQ((std::set<torch::Tensor>{a, b, again}.size()), 2u);
  EXPECT_EQ((std::unordered_set<torch::Tensor>{a, b, again}.size()), 2u);
  std::map<torch::Tensor, int> ordered{{a, 1}, {b, 2}};
  std::unordered_map<torch::Tensor, int> hashed{{a, 1}, {b, 2}};
  EXPECT_EQ(ordered[again], 1);
  EXPECT_EQ(hashed[again], 1);
  EXPECT_EQ(hashed.count(torch::ones({2})), 0u);
  EXPECT_EQ(hashed.count(torch::Tensor()), 0u);
}

TEST(LibTorchErrors, UndefinedTensors) {
  const auto x = torch::ones({2});
  const torch::Tensor none;
  EXPECT_TRUE(contains(error_of([&] { x + none; }), "add: input 'other' is undefined"));
  EXPECT_TRUE(contains(error_of([&] { torch::add(none, x); }), "add: input 'self' is undefined"));
  EXPECT_TRUE(contains(error_of([&] { none.exp(); }), "exp: called on an undefined tensor"));
  EXPECT_TRUE(contains(error_of([&] { none.sum(); }), "sum: called on an undefined tensor"));
  EXPECT_TRUE(contains(error_of([&] { torch::matmul(x, none); }), "matmul: "));
  EXPECT_TRUE(contains(error_of([&] {
                         torch::cat({x, none});
                       }),
                       "cat: input 'tensors' number 1 is undefined"));
  // These names are read off the call stack.
  EXPECT_TRUE(contains(error_of([&] { x.copy_(none); }), "copy_: a tensor is undefined"));
  EXPECT_TRUE(
      contains(error_of([&] { torch::reshape(none, {2}); }), "reshape: a tensor is undefined"));
  EXPECT_TRUE(contains(error_of([&] { torch::one_hot(none); }), "one_hot: a tensor is undefined"));
}

// An error names the function that was called, not one of those it is made of, and tells its
// shapes.
TEST(LibTorchErrors, NameTheFunctionThatWasCalled) {
  const auto a = torch::ones({2, 3}), b = torch::ones({4, 5}), v = torch::ones({3}),
             w = torch::ones({4});
  const auto starts = [](const auto& body, const std::string& text) {
    const std::string error = error_of(body);
    EXPECT_EQ(error.substr(0, text.size()), text);
  };
  starts([&] { zeros({-1}); }, "zeros: sizes must not be negative, got [-1]");
  starts([&] { ones({-1}); }, "ones: sizes");
  starts([&] { full({-1}, 1); }, "full: sizes");
  starts([&] { randn({-1}); }, "randn: sizes");
  starts([&] { rand({-1}); }, "rand: sizes");
  starts([&] { randint(3, {-1}); }, "randint: sizes");
  starts([&] { randn({2}, kInt64); }, "randn: expected a floating-point dtype, got int64");
  starts([&] { zeros({1LL << 40, 1LL << 40}); }, "zeros: a tensor of shape [1099511627776");
  starts([&] { a.new_zeros({-1}); }, "new_zeros: sizes");
  starts([&] { mm(a, b); }, "mm: shapes [2, 3] and [4, 5] cannot be multiplied");
  starts([&] { mm(a, v); }, "mm: mat2 must have 2 dimensions, got shape [3]");
  starts([&] { mm(a, a.to(kInt)); }, "mm: expected both operands to have one dtype");
  starts([&] { mv(a, w); }, "mv: shapes [2, 3] and [4] cannot be multiplied");
  starts([&] { matmul(v, b); }, "matmul: shapes [3] and [4, 5] cannot be multiplied");
  starts([&] { dot(v, w); }, "dot: expected vectors of one length, got shapes [3] and [4]");
  starts([&] { addr(a, w, w); }, "addr: ");
  starts([&] { addmv(v, a, w); }, "addmv: ");
  starts([&] { max(a, 5); }, "max: dimension out of range");
  starts([&] { max(zeros({0})); }, "max: cannot reduce");
  starts([&] { min(a, w); }, "min: shapes [2, 3] and [4] cannot be broadcast together");
  starts([&] { hstack({a, b}); }, "hstack: sizes must match");
  starts([&] { view_as(a, b); }, "view_as: ");
  starts([&] { expand_as(a, b); }, "expand_as: ");
  starts([&] { broadcast_to(a, {7, 3}); }, "broadcast_to: ");
  starts([&] { bernoulli(a, 2); }, "bernoulli: expected p between 0 and 1, got 2");
}

}  // namespace
}  // namespace tensora::testing
