#include <set>

#include "tensora/data.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using namespace tensora::data;

std::vector<int64_t> firsts(const Dataset& dataset) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < dataset.size(); ++i) result.push_back(dataset.get(i)[0].item<int64_t>());
  return result;
}

TEST(TensorDataset, GivesRows) {
  const TensorDataset data(arange(6).reshape({3, 2}), tensor({7, 8, 9}));
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(values(data.get(1)[0]), (Values{2, 3}));
  EXPECT_EQ(data.get(1)[1].item<int64_t>(), 8);
  EXPECT_EQ(data.at(-1)[1].item<int64_t>(), 9);
}

TEST(TensorDataset, Mistakes) {
  const TensorDataset data(arange(3));
  EXPECT_TRUE(contains(error_of([&] { data.at(3); }), "index 3 is out of range"));
  EXPECT_TRUE(contains(error_of([&] { data.at(-4); }), "index -4 is out of range"));
  EXPECT_TRUE(contains(error_of([&] { data.get(3); }), "3"));
  EXPECT_TRUE(contains(error_of([] { TensorDataset(TensorList{}); }), "at least one tensor"));
  EXPECT_TRUE(contains(error_of([] { TensorDataset(arange(3), arange(4)); }),
                       "3 in tensor 0 and 4 in tensor 1"));
  EXPECT_TRUE(contains(error_of([] { TensorDataset(tensor(1.0)); }), "first dim"));
  EXPECT_TRUE(contains(error_of([] { TensorDataset(arange(3), Tensor()); }), "tensor 1"));
}

TEST(ConcatDataset, GoesOnWithTheNext) {
  const ConcatDataset data(
      {TensorDataset(arange(2)), TensorDataset(arange(0)), TensorDataset(arange(10, 13))});
  EXPECT_EQ(firsts(data), (std::vector<int64_t>{0, 1, 10, 11, 12}));
  EXPECT_TRUE(contains(error_of([&] { data.get(5); }), "index 5 is out of range"));
  EXPECT_TRUE(contains(error_of([] { ConcatDataset({}); }), "at least one data set"));
}

TEST(Subset, GivesSome) {
  const Subset data(TensorDataset(arange(10)), {7, 2, 2});
  EXPECT_EQ(firsts(data), (std::vector<int64_t>{7, 2, 2}));
  EXPECT_TRUE(contains(error_of([&] { data.get(3); }), "index 3 is out of range"));
  EXPECT_TRUE(contains(error_of([] { Subset(TensorDataset(arange(3)), {3}); }), "index 3"));
}

TEST(MapDataset, TransformsEveryExample) {
  const MapDataset data(TensorDataset(arange(3)),
                        [](Example example, Generator&) { return Example{example[0] * 10}; });
  EXPECT_EQ(firsts(data), (std::vector<int64_t>{0, 10, 20}));
  EXPECT_TRUE(contains(error_of([] { MapDataset(TensorDataset(arange(3)), nullptr); }),
                       "expected a function"));
}

TEST(RandomSplit, DealsEveryExampleOnce) {
  const auto data = std::make_shared<TensorDataset>(arange(10));
  const auto sizes = [&](const auto& parts) {
    std::vector<int64_t> result;
    std::set<int64_t> seen;
    for (const Subset& part : random_split(data, parts)) {
      result.push_back(part.size());
      for (const int64_t index : part.indices()) EXPECT_TRUE(seen.insert(index).second);
    }
    EXPECT_EQ(seen.size(), 10u);
    return result;
  };
  using Lengths = std::vector<int64_t>;
  using Fractions = std::vector<double>;
  EXPECT_EQ(sizes(Lengths{7, 3}), (Lengths{7, 3}));
  EXPECT_EQ(sizes(Lengths{10, 0}), (Lengths{10, 0}));
  // What PyTorch gives for ten examples.
  EXPECT_EQ(sizes(Fractions{0.3, 0.3, 0.4}), (Lengths{3, 3, 4}));
  EXPECT_EQ(sizes(Fractions{0.25, 0.25, 0.25, 0.25}), (Lengths{3, 3, 2, 2}));
  EXPECT_EQ(sizes(Fractions{0.99, 0.01}), (Lengths{10, 0}));
  EXPECT_EQ(random_split(data, {0.5, 0.5})[1].size(), 5);
  EXPECT_EQ(random_split(data, {4, 6})[1].size(), 6);
}

TEST(RandomSplit, FollowsTheGenerator) {
  const auto data = std::make_shared<TensorDataset>(arange(100));
  const auto split = [&](uint64_t seed) {
    Generator generator(seed);
    return random_split(data, {50, 50}, &generator)[0].indices();
  };
  EXPECT_EQ(split(1), split(1));
  EXPECT_NE(split(1), split(2));
  manual_seed(3);
  const auto first = random_split(data, {50, 50})[0].indices();
  manual_seed(3);
  EXPECT_EQ(random_split(data, {50, 50})[0].indices(), first);
}

TEST(RandomSplit, Mistakes) {
  const auto data = std::make_shared<TensorDataset>(arange(10));
  EXPECT_TRUE(contains(error_of([&] { random_split(data, {4, 4}); }), "add up to 8"));
  EXPECT_TRUE(contains(error_of([&] { random_split(data, {0.4, 0.4}); }), "add up to 0.8"));
  EXPECT_TRUE(contains(error_of([&] { random_split(data, {-1, 11}); }), "at least 0, got -1"));
  EXPECT_TRUE(contains(error_of([&] { random_split(data, {-0.5, 1.5}); }), "from 0 to 1"));
}

TEST(Collate, Stacks) {
  const std::vector<Example> examples = {{tensor({1, 2}), tensor(1.5)},
                                         {tensor({3, 4}), tensor(2.5)}};
  const Batch batch = default_collate(examples);
  EXPECT_EQ(batch[0].sizes(), (Shape{2, 2}));
  EXPECT_EQ(values(batch[0]), (Values{1, 2, 3, 4}));
  EXPECT_EQ(values(batch[1]), (Values{1.5, 2.5}));
  // Views with strides, and tensors without elements.
  const std::vector<Example> views = {{arange(6).reshape({2, 3}).t()}, {ones({3, 2}, kInt64)}};
  EXPECT_EQ(values(default_collate(views)[0]), (Values{0, 3, 1, 4, 2, 5, 1, 1, 1, 1, 1, 1}));
  const std::vector<Example> nothing = {{empty({0, 3})}, {empty({0, 3})}};
  EXPECT_EQ(default_collate(nothing)[0].sizes(), (Shape{2, 0, 3}));
}

TEST(Collate, KeepsGradients) {
  const Tensor x = leaf({1, 2});
  const std::vector<Example> examples = {{x * 2}, {x * 3}};
  default_collate(examples)[0].sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{5, 5}));
}

TEST(Collate, NamesWhatDiffers) {
  const auto says = [](std::vector<Example> examples) {
    return error_of([&] { default_collate(examples); });
  };
  const std::string ragged = says({{ones({2})}, {ones({2})}, {ones({3})}});
  EXPECT_TRUE(contains(ragged, "shape [2]")) << ragged;
  EXPECT_TRUE(contains(ragged, "example 2 of the batch has shape [3]")) << ragged;
  EXPECT_TRUE(contains(says({{ones({2})}, {ones({2}, kInt64)}}), "float32"));
  EXPECT_TRUE(contains(says({{ones({2})}, {}}), "has 1 tensors and example 1 of the batch has 0"));
  EXPECT_TRUE(contains(says({{ones({2})}, {Tensor()}}), "undefined"));
  EXPECT_TRUE(contains(says({}), "at least one example"));
}

}  // namespace
}  // namespace tensora::testing
