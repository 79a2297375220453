// Ops on tensors of more than eight dims, against the same ops on the same elements in few dims.
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::values;

/// A tensor of shape [2, 3, 2, 2], and the same elements with `dims` dims: ones in the middle.
struct Pair {
  Tensor few, many;
  int dims;

  explicit Pair(int dims) : dims(dims) {
    few = (arange(24.) * 7 % 24).view({2, 3, 2, 2}).requires_grad_();
    Shape sizes = Shape::filled(dims, 1);
    sizes[0] = sizes[dims - 2] = sizes[dims - 1] = 2;
    sizes[1] = 3;
    many = few.detach().reshape(sizes).requires_grad_();
  }
  /// A dim of `few` in `many`.
  int64_t at(int dim) const { return dim < 2 ? dim : dims - 4 + dim; }
};

template <class Run>
void expect_same(const char* name, Run run) {
  for (const int dims : {9, 12, 16}) {
    const Pair pair(dims);
    const auto same = [](int dim) { return int64_t{dim}; };
    const Tensor few = run(pair.few, same),
                 many = run(pair.many, [&](int d) { return pair.at(d); });
    EXPECT_EQ(values(many.flatten()), values(few.flatten())) << name << " of " << dims << " dims";
    if (!few.requires_grad()) continue;
    const Tensor weight = arange(static_cast<double>(few.numel()));
    (few.flatten() * weight).sum().backward();
    (many.flatten() * weight).sum().backward();
    EXPECT_EQ(values(pair.many.grad().flatten()), values(pair.few.grad().flatten()))
        << "gradient of " << name << " of " << dims << " dims";
  }
}

TEST(ManyDims, Movements) {
  expect_same("transpose", [](const Tensor& x, auto at) { return transpose(x, at(0), at(3)); });
  expect_same("movedim", [](const Tensor& x, auto at) { return movedim(x, at(1), at(3)); });
  expect_same("flip", [](const Tensor& x, auto at) { return flip(x, {at(0), at(2)}); });
  expect_same("roll", [](const Tensor& x, auto at) { return roll(x, {1, 1}, {at(1), at(3)}); });
  expect_same("cat", [](const Tensor& x, auto at) { return cat({x, x * 2}, at(2)); });
  expect_same("expand",
              [](const Tensor& x, auto at) { return narrow(x, at(1), 0, 1).expand(x.sizes()); });
  expect_same("slice", [](const Tensor& x, auto at) { return slice(x, at(1), 0, 3, 2); });
  expect_same("pad", [](const Tensor& x, auto) { return pad(x, {1, 0, 0, 1}); });
}

TEST(ManyDims, Reductions) {
  expect_same("sum", [](const Tensor& x, auto at) { return sum(x, {at(0), at(2)}); });
  expect_same("sum of a view", [](const Tensor& x, auto at) {
    return sum(transpose(x, at(0), at(1)), {at(1), at(3)});
  });
  expect_same("amax", [](const Tensor& x, auto at) { return amax(x, {at(1), at(3)}); });
  expect_same("cumsum", [](const Tensor& x, auto at) { return cumsum(x, at(1)); });
  expect_same("sort", [](const Tensor& x, auto at) { return std::get<0>(sort(x, at(1))); });
  expect_same("argmax", [](const Tensor& x, auto at) { return argmax(x.detach(), at(1)); });
}

TEST(ManyDims, Broadcasting) {
  expect_same("mul", [](const Tensor& x, auto at) {
    return transpose(x, at(2), at(3)) * narrow(x.detach(), at(1), 1, 1);
  });
  expect_same("matmul", [](const Tensor& x, auto) { return matmul(x, mT(x.detach())); });
  expect_same("where", [](const Tensor& x, auto at) { return where(x > 11, x, flip(x, {at(0)})); });
}

TEST(ManyDims, Indices) {
  const Tensor places = tensor({1, 0, 1});
  expect_same("index_select",
              [&](const Tensor& x, auto at) { return index_select(x, at(3), places); });
  expect_same("gather", [](const Tensor& x, auto at) {
    return gather(x, at(1), argsort(x.detach(), at(1)));
  });
  expect_same("index", [&](const Tensor& x, auto) { return x.index({places, places}); });
}

// A partition into windows, as vision models write it: permute and reshape beyond eight dims.
TEST(ManyDims, WindowPartition) {
  const Tensor x = arange(5184.).view({2, 6, 6, 6, 12, 1});
  const Tensor split = x.view({2, 2, 3, 3, 2, 2, 3, 3, 4, 1});
  const Tensor windows = split.permute({0, 1, 3, 5, 7, 2, 4, 6, 8, 9}).reshape({72, 72, 1});
  EXPECT_EQ(windows.size(0) * windows.size(1), 5184);
  const Tensor back = windows.view({2, 2, 3, 2, 3, 3, 2, 3, 4, 1})
                          .permute({0, 1, 5, 2, 6, 3, 7, 4, 8, 9})
                          .reshape({2, 6, 6, 6, 12, 1});
  EXPECT_TRUE(equal(back, x));
}

}  // namespace
}  // namespace tensora
