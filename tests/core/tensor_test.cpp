#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of;

TEST(NestedList, ShapeAndDtypeFollowTheNumbers) {
  EXPECT_EQ(tensor({{1, 2, 3}, {4, 5, 6}}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(tensor({{{1}, {2}}}).sizes(), (Shape{1, 2, 1}));
  EXPECT_EQ(tensor(5).sizes(), Shape{});
  EXPECT_EQ(tensor({5}).sizes(), Shape{1});
  EXPECT_EQ(tensor({{5}}).sizes(), (Shape{1, 1}));
  EXPECT_EQ(tensor({}).sizes(), Shape{0});
  EXPECT_EQ(tensor({{}, {}}).sizes(), (Shape{2, 0}));
  EXPECT_EQ(tensor({1, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), kFloat32);
  EXPECT_EQ(tensor({true, false}).dtype(), kBool);
  EXPECT_EQ(tensor({true, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor({}).dtype(), kFloat32);
  EXPECT_EQ(tensor({1, 2}, {.dtype = kFloat16}).dtype(), kFloat16);
  EXPECT_EQ(tensor(1.5f).dtype(), kFloat32);
}

TEST(NestedList, VectorsOfEveryKind) {
  EXPECT_EQ(tensor(std::vector<float>{1, 2}).dtype(), kFloat32);
  EXPECT_EQ(tensor(std::vector<double>{1, 2}).dtype(), kFloat32);
  EXPECT_EQ(tensor(std::vector<int>{1, 2}).dtype(), kInt64);
  EXPECT_EQ(tensor(std::vector<uint8_t>{1, 2}).dtype(), kUInt8);
  EXPECT_EQ(tensor(std::vector<long long>{1, 2}).dtype(), kInt64);
  EXPECT_EQ(to_vector<bool>(tensor(std::vector<bool>{true, false})),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(tensor(std::vector<bool>{true, false}).dtype(), kBool);
  EXPECT_EQ(tensor(std::vector<std::vector<double>>{{1, 2}, {3, 4}, {5, 6}}).sizes(),
            (Shape{3, 2}));
  EXPECT_EQ(tensor(std::vector<float>{}).sizes(), Shape{0});
}

TEST(NestedList, NumbersKeepAllTheirDigits) {
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_EQ(to_vector<int64_t>(tensor({large, -large})), (std::vector<int64_t>{large, -large}));
}

TEST(NestedList, OptionsApply) {
  EXPECT_TRUE(tensor({1.0}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(tensor({1.0}, {.device = "meta"}).is_meta());
}

TEST(NestedList, RaggedListsSayWhere) {
  EXPECT_EQ(error_of([] {
              tensor({{1, 2}, {3}});
            }),
            "tensor: the lists are ragged: expected a list of length 2 at dim 1, got a list of "
            "length 1");
  EXPECT_TRUE(contains(error_of([] { tensor({{{1}, {2}}, {{3}, {4, 5}}}); }), "at dim 2"));
  EXPECT_TRUE(contains(error_of([] { tensor({{1}, 2}); }), "got a number"));
}

TEST(ToVector, ReadsAnyStridesAndConverts) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(to_vector<int64_t>(as_strided(x, {3, 2}, {1, 3})),
            (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(to_vector<double>(x)[5], 6);
  EXPECT_TRUE(contains(error_of([] { to_vector<float>(empty({2}, {.device = "meta"})); }),
                       "meta tensor has no data"));
}

TEST(At, ChecksAndWraps) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(at(x, {1, 2}).to<int64_t>(), 6);
  EXPECT_EQ(x.at({-1, -3}).to<int64_t>(), 4);
  EXPECT_EQ(at(as_strided(x, {3, 2}, {1, 3}), {2, 0}).to<int64_t>(), 3);
  EXPECT_EQ(at(tensor(2.5), {}).to<double>(), 2.5);
  EXPECT_TRUE(contains(error_of([&] { at(x, {2, 0}); }), "index 2 is out of range for dim 0"));
  EXPECT_TRUE(contains(error_of([&] { at(x, {0, -4}); }), "out of range for dim 1 of size 3"));
  EXPECT_TRUE(contains(error_of([&] { at(x, {0}); }), "expected 2 indices"));
}

TEST(Arange, InfersTheDtype) {
  EXPECT_EQ(arange(5).dtype(), kInt64);
  EXPECT_EQ(arange(5.0).dtype(), kFloat32);
  EXPECT_EQ(arange(0, 1, 0.5).dtype(), kFloat32);
  EXPECT_EQ(arange(0, 5, {.dtype = kFloat64}).dtype(), kFloat64);
  EXPECT_EQ(to_vector<int64_t>(arange(INT64_MAX - 3, INT64_MAX, 2)),
            (std::vector<int64_t>{INT64_MAX - 3, INT64_MAX - 1}));
}

TEST(Linspace, EndsAreExact) {
  const auto values = to_vector<float>(linspace(0.1, 0.7, 100));
  EXPECT_EQ(values.front(), 0.1f);
  EXPECT_EQ(values.back(), 0.7f);
}

}  // namespace
}  // namespace tensora
