// Sizes, numbers and indices at the edge of what can be held: what does not fit must throw.
#include <cmath>
#include <limits>

#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains;
using testing::error_of;
using testing::values;
using testing::Values;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

void expect_error(std::string_view part, const std::function<void()>& body) {
  const std::string text = error_of(body);
  EXPECT_TRUE(contains(text, part)) << "expected \"" << part << "\", got \"" << text << '"';
}

TEST(Limits, NumberOfElements) {
  EXPECT_EQ((Shape{int64_t{1} << 31, int64_t{1} << 31}).numel(), int64_t{1} << 62);
  expect_error("too many elements", [] { (Shape{int64_t{1} << 32, int64_t{1} << 32}).numel(); });
  EXPECT_EQ((Shape{int64_t{1} << 62, 4, 0}).numel(), 0);
}

TEST(Limits, ViewsOfNothing) {
  const Tensor nothing = zeros({0});
  expect_error("too many elements", [&] { view(nothing, {int64_t{1} << 32, int64_t{1} << 32}); });
  expect_error("too large", [&] { view(nothing, {0, int64_t{1} << 40, int64_t{1} << 40}); });
  expect_error("any value would do", [&] { view(nothing, {0, int64_t{1} << 62, -1}); });
  EXPECT_EQ(view(nothing, {int64_t{1} << 62, 0}).numel(), 0);
  expect_error("too many elements", [] {
    sum(expand(zeros({1}), {int64_t{1} << 32, int64_t{1} << 32}));
  });
}

TEST(Limits, Strides) {
  const Tensor x = arange(6);
  expect_error("beyond what can be addressed",
               [&] { as_strided(x, {3}, {(int64_t{1} << 62) + 1'000'000'000}, 0); });
  expect_error("beyond what can be addressed", [] {
    empty_strided({3, 3}, {int64_t{1} << 62, 1});
  });
  EXPECT_EQ(values(slice(x, 0, 1, kLargest, kLargest)), (Values{1}));
  EXPECT_EQ(slice(zeros({6, 3}), 0, {}, {}, int64_t{1} << 62).sizes(), (Shape{1, 3}));
  EXPECT_EQ(unfold(zeros({6, 3}), 0, 2, int64_t{1} << 62).sizes(), (Shape{1, 3, 2}));
}

TEST(Limits, SplitSizes) {
  const Tensor x = arange(6);
  expect_error("too large", [&] { split_with_sizes(x, {kLargest, kLargest, 8}); });
  EXPECT_EQ(chunk(x, kLargest).size(), 6u);
}

TEST(Limits, Diagonals) {
  const Tensor x = ones({3, 3});
  for (const int64_t offset : {kLowest, kLargest}) {
    EXPECT_EQ(diagonal(x, offset).numel(), 0);
    expect_error("too large", [&] { diag_embed(x, offset); });
  }
  EXPECT_EQ(tril_indices(3, 3, kLowest).numel(), 0);
  EXPECT_EQ(tril_indices(3, 3, kLargest).numel(), 18);
  EXPECT_EQ(triu_indices(3, 3, kLowest).numel(), 18);
  EXPECT_EQ(triu_indices(3, 3, kLargest).numel(), 0);
  expect_error("too large", [] { tril_indices(int64_t{1} << 40, int64_t{1} << 40); });
}

TEST(Limits, Copies) {
  expect_error("too", [] { repeat(zeros({2}), {int64_t{1} << 62, 2}); });
  expect_error("too", [] { repeat_interleave(zeros({4}), int64_t{1} << 62); });
  const Tensor half = expand(zeros({1}), {int64_t{1} << 62});
  expect_error("too large", [&] { cat({half, half}); });
  EXPECT_EQ(values(roll(arange(6), kLowest)), values(roll(arange(6), kLowest % 6)));
}

TEST(Limits, IndicesOfShapes) {
  const Shape sizes{2, 3};
  expect_error("index -1 is out of range for the list [2, 3]", [&] { (void)sizes[-1]; });
  expect_error("index 2 is out of range", [&] { (void)sizes[2]; });
  expect_error("out of range", [] { (void)Shape{}.back(); });
  expect_error("", [] { EXPECT_EQ(tensor(1).size(0), 1); });
}

TEST(Limits, DeviceNumbers) {
  expect_error("got 300", [] { Device(DeviceType::cuda, 300); });
  expect_error("got -1", [] { Device(DeviceType::cuda, -1); });
  EXPECT_EQ(Device(DeviceType::cuda, 127).index, 127);
}

TEST(Limits, NumbersThatFit) {
  struct Row {
    Scalar value;
    DType dtype;
    double result;
  };
  // As PyTorch's full() answers.
  for (const Row& row : {Row{127.9, kInt8, 127}, Row{-128, kInt8, -128}, Row{255.9, kUInt8, 255},
                         Row{-1, kUInt8, 255}, Row{-255, kUInt8, 1}, Row{0.5, kBool, 1},
                         Row{int64_t{1} << 40, kBool, 1}, Row{NAN, kBool, 1}, Row{0.0, kBool, 0},
                         Row{HUGE_VAL, kFloat32, HUGE_VAL}, Row{-HUGE_VAL, kFloat16, -HUGE_VAL},
                         Row{true, kInt8, 1}}) {
    EXPECT_EQ(values(full({2}, row.value, {.dtype = row.dtype})), Values(2, row.result));
    EXPECT_EQ(values(fill(zeros({2}, {.dtype = row.dtype}), row.value)), Values(2, row.result));
    EXPECT_EQ(values(tensor(NestedList(row.value), {.dtype = row.dtype})), Values(1, row.result));
  }
}

TEST(Limits, NumbersThatDoNotFit) {
  struct Row {
    Scalar value;
    DType dtype;
  };
  for (const Row& row :
       {Row{300, kInt8}, Row{-129, kInt8}, Row{-128.5, kInt8}, Row{NAN, kInt8}, Row{256, kUInt8},
        Row{-256, kUInt8}, Row{-0.5, kUInt8}, Row{40'000, kInt16}, Row{1e10, kInt32},
        Row{0x1p63, kInt64}, Row{NAN, kInt64}}) {
    const std::string text = concat("cannot be converted to ", row.dtype, " without overflow");
    expect_error(text, [&] { full({0}, row.value, {.dtype = row.dtype}); });
    expect_error(text, [&] { fill_(zeros({2}, {.dtype = row.dtype}), row.value); });
    expect_error(text, [&] { tensor(NestedList(row.value), {.dtype = row.dtype}); });
    expect_error(text, [&] { full_like(zeros({2}, {.dtype = row.dtype}), row.value); });
  }
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32})
    expect_error("without overflow", [&] { full({4}, 1e300, {.dtype = dtype}); });
  EXPECT_EQ(tensor({1e300}, {.dtype = kFloat32}).item<double>(), HUGE_VAL);
  const Tensor bytes = zeros({2}, {.dtype = kInt8}), mask = ones({2}, {.dtype = kBool});
  expect_error("masked_fill: value 300", [&] { masked_fill(bytes, mask, 300); });
  expect_error("without overflow", [&] { index_fill(bytes, 0, tensor({0}), 300); });
  expect_error("without overflow", [&] { scatter(bytes, 0, tensor({0}), 300); });
  expect_error("without overflow", [&] { add(bytes, bytes, 300); });
  expect_error("without overflow", [&] { pow(bytes, 300); });
}

TEST(Limits, Items) {
  EXPECT_EQ(tensor(127).item<int8_t>(), 127);
  EXPECT_EQ(tensor(-1).item<uint8_t>(), 255);
  EXPECT_EQ(tensor(1.75).item<int8_t>(), 1);
  EXPECT_TRUE(tensor(0.5).item<bool>());
  expect_error("without overflow", [] { tensor(300).item<int8_t>(); });
  expect_error("without overflow", [] { tensor(1e300, {.dtype = kFloat64}).item<float>(); });
  expect_error("without overflow", [] { tensor(NAN).item<int>(); });
  EXPECT_EQ(tensor(HUGE_VAL).item<float>(), HUGE_VALF);
}

}  // namespace
}  // namespace tensora
