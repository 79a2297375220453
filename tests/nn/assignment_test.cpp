#include <optional>

#include "tensora/nn/conv.h"
#include "tensora/nn/embedding.h"
#include "tensora/nn/layer_norm.h"
#include "tensora/nn/linear.h"
#include "tensora/nn/module_list.h"
#include "tensora/optim/sgd.h"
#include "tests/helpers.h"

// Assignment to members of layers; see Note [Assignment to members].

namespace tensora::testing {
namespace {

struct Net : nn::Layer<Net> {
  nn::Linear hidden = register_module("hidden", nn::Linear(3, 4));
  nn::Linear output = register_module("output", nn::Linear(4, 2));
  Tensor forward(const Tensor& x) const { return output(relu(hidden(x))); }
};

struct Outer : nn::Layer<Outer> {
  Net net = register_module("net", Net());
  std::optional<nn::Linear> head = register_module("head", nn::Linear(2, 2));
  Tensor forward(const Tensor& x) const { return (*head)(net(x)); }
};

// The member, the lists and the state dict are about one module.
void expect_whole(const Net& net, int64_t width) {
  EXPECT_EQ(net.hidden.out_features, width);
  EXPECT_TRUE(net.get<nn::Linear>("hidden").is_same(net.hidden));
  EXPECT_EQ(net.get<nn::Linear>("hidden").out_features, width);
  EXPECT_TRUE(net.get_parameter("hidden.weight").is_same(net.hidden.weight));
  EXPECT_TRUE(net.parameters()[0].is_same(net.hidden.weight));
  EXPECT_EQ(net.state_dict().find("hidden.weight")->sizes(), (Shape{width, 3}));
  EXPECT_EQ(net.parameters().size(), 4U);
}

TEST(Assignment, ToAMemberReplacesTheModule) {
  Net net;
  const Net same = net;
  const nn::Linear before = net.hidden;
  net.hidden = nn::Linear(3, 5);
  net.output = nn::Linear(5, 2);
  expect_whole(net, 5);
  expect_whole(same, 5);
  EXPECT_FALSE(before.is_same(net.hidden));
  EXPECT_EQ(before.out_features, 4);
  EXPECT_EQ(values(same(ones({1, 3}))), values(net(ones({1, 3}))));
  // What an optimizer changes is what forward uses.
  optim::SGD optimizer(net.parameters(), 0.5);
  const Tensor x = ones({1, 3}), first = net(x).sum();
  first.backward();
  optimizer.step();
  EXPECT_LT(net(x).sum().item<float>(), first.item<float>());
}

TEST(Assignment, ByReplaceModule) {
  Net net;
  const Net same = net;
  net.replace_module("hidden", nn::Linear(3, 6));
  expect_whole(net, 6);
  expect_whole(same, 6);
  net.hidden = net.replace_module("hidden", nn::Linear(3, 7));  // LibTorch's way
  expect_whole(net, 7);
  net.get<nn::Linear>("hidden") = nn::Linear(3, 8);
  expect_whole(net, 8);
  expect_whole(same, 8);
  EXPECT_TRUE(contains(error_of([&] { net.replace_module("hiden", nn::Linear(3, 3)); }),
                       "replace_module: Net has no module 'hiden'"));
  EXPECT_TRUE(contains(error_of([&] { net.replace_module("hidden", nn::LayerNorm(Shape{3})); }),
                       "is a Linear and cannot hold a LayerNorm"));
  expect_whole(net, 8);
}

TEST(Assignment, InANetThatIsAMember) {
  Outer outer;
  outer.net.hidden = nn::Linear(3, 9);
  outer.net.output = nn::Linear(9, 2);
  expect_whole(outer.net, 9);
  expect_whole(outer.get<Net>("net"), 9);
  EXPECT_TRUE(outer.get_parameter("net.hidden.weight").is_same(outer.net.hidden.weight));
  outer.net = Net();
  expect_whole(outer.net, 4);
  expect_whole(outer.get<Net>("net"), 4);
  outer.head = nn::Linear(2, 3);
  EXPECT_TRUE(outer.get_parameter("head.weight").is_same(outer.head->weight));
  const Outer apart = outer.clone();
  outer.net.hidden = nn::Linear(3, 4);
  EXPECT_TRUE(apart.get_parameter("net.hidden.weight").is_same(apart.net.hidden.weight));
  EXPECT_FALSE(apart.net.hidden.is_same(outer.net.hidden));
  Outer changed = outer.clone();
  changed.net.hidden = nn::Linear(3, 4);
  EXPECT_TRUE(changed.get_parameter("net.hidden.weight").is_same(changed.net.hidden.weight));
}

TEST(Assignment, OfLocalsOnlyRebinds) {
  Net net, other;
  nn::Linear local = net.hidden;
  local = nn::Linear(3, 5);
  expect_whole(net, 4);
  Net copy = net;
  copy = other;
  EXPECT_TRUE(copy.hidden.is_same(other.hidden));
  EXPECT_FALSE(net.hidden.is_same(other.hidden));
  std::swap(net, other);
  EXPECT_TRUE(copy.is_same(net));
  EXPECT_TRUE(copy.hidden.is_same(net.hidden));
  expect_whole(net, 4);
  expect_whole(other, 4);
  nn::Parameter weight = net.hidden.weight;
  weight = nn::Parameter(zeros({1}));
  expect_whole(net, 4);
}

TEST(Assignment, OfAWeightTiesIt) {
  struct Language : nn::Layer<Language> {
    nn::Embedding embedding = register_module("embedding", nn::Embedding(7, 3));
    nn::Linear output = register_module("output", nn::Linear(3, 7, {.bias = false}));
    Language() { output.weight = embedding.weight; }
    Tensor forward(const Tensor& x) const { return output(embedding(x)); }
  };
  Language net;
  EXPECT_EQ(net.parameters().size(), 1U);
  EXPECT_EQ(net.state_dict().size(), 2U);
  EXPECT_TRUE(net.get_parameter("output.weight").is_same(net.embedding.weight));
  EXPECT_TRUE(net.get<nn::Linear>("output").weight.is_same(net.embedding.weight));
  const Language copy = net.clone();
  EXPECT_TRUE(copy.output.weight.is_same(copy.embedding.weight));
  EXPECT_FALSE(copy.output.weight.is_same(net.output.weight));
  net.to(kFloat64);
  EXPECT_EQ(net.output.weight.dtype(), kFloat64);
  // Apart again, by the handle in the list.
  net.get<nn::Linear>("output").weight = nn::Parameter(zeros({7, 3}, {.dtype = kFloat64}));
  EXPECT_EQ(net.parameters().size(), 2U);
  EXPECT_FALSE(net.output.weight.is_same(net.embedding.weight));
  EXPECT_TRUE(net.get_parameter("output.weight").is_same(net.output.weight));
}

TEST(Assignment, OfAParameterThatTheLayerWasMadeWithout) {
  Net net;
  net.output = nn::Linear(4, 2, {.bias = false});
  EXPECT_EQ(net.parameters().size(), 3U);
  net.output.bias = nn::Parameter(ones({2}));
  EXPECT_TRUE(net.get_parameter("output.bias").is_same(net.output.bias));
  net.output.bias = nn::Parameter();
  EXPECT_EQ(net.parameters().size(), 3U);
  nn::LayerNorm norm(Shape{3}, {.elementwise_affine = false});
  EXPECT_TRUE(contains(error_of([&] { norm.weight = nn::Parameter(ones({3})); }),
                       "registered under 2 names"));
}

TEST(Assignment, OfOneOfTwoNames) {
  struct Twice : nn::Layer<Twice> {
    nn::Linear a = register_module("a", nn::Linear(3, 3)), b = register_module("b", a);
  };
  Twice net;
  EXPECT_TRUE(contains(error_of([&] { net.a = nn::Linear(3, 3); }), "registered under 2 names"));
  EXPECT_TRUE(net.a.is_same(net.b));
  net.a = net.replace_module("a", nn::Linear(3, 4));
  EXPECT_EQ(net.a.out_features, 4);
  EXPECT_EQ(net.b.out_features, 3);
  EXPECT_TRUE(net.get<nn::Linear>("a").is_same(net.a));
  EXPECT_TRUE(net.get<nn::Linear>("b").is_same(net.b));
}

TEST(Assignment, InLists) {
  struct Stack : nn::Layer<Stack> {
    nn::ModuleList<nn::Linear> layers = register_module("layers", nn::ModuleList<nn::Linear>());
  };
  Stack net;
  for (int i = 0; i < 2; ++i) net.layers.push_back(nn::Linear(3, 3));
  net.layers[1] = nn::Linear(3, 5);
  EXPECT_EQ(net.get_parameter("layers.1.weight").sizes(), (Shape{5, 3}));
  net.layers.replace_module("0", nn::Linear(3, 6));
  EXPECT_EQ(net.layers[0].out_features, 6);
  EXPECT_EQ(net.parameters()[0].sizes(), (Shape{6, 3}));
}

}  // namespace
}  // namespace tensora::testing
