// What a user may do to modules that the documentation does not show.
#include <atomic>
#include <optional>
#include <sstream>
#include <thread>

#include "tensora/nn.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(ModuleEdge, ACloneOfAModuleUsedTwiceUsesItsCopyTwice) {
  struct Twice : nn::Layer<Twice> {
    nn::Linear a = register_module("a", nn::Linear(2, 2));
    nn::Linear b = register_module("b", a);
    Tensor forward(const Tensor& x) const { return b(a(x)); }
  };
  Twice twice;
  EXPECT_EQ(twice.parameters().size(), 2U);
  EXPECT_EQ(twice.state_dict().size(), 4U);
  EXPECT_EQ(twice.named_modules().size(), 1U);
  Twice copy = twice.clone();
  EXPECT_TRUE(copy.a.is_same(copy.b));
  EXPECT_FALSE(copy.a.is_same(twice.a));
  EXPECT_TRUE(copy.get_submodule("b").is_same(copy.b));
  EXPECT_EQ(copy.parameters().size(), 2U);
}

TEST(ModuleEdge, ContainersAreClonedWithTheirContents) {
  struct Net : nn::Layer<Net> {
    nn::Sequential body = register_module(
        "body", nn::Sequential(nn::Linear(2, 3), nn::ReLU(), nn::Sequential(nn::Linear(3, 1))));
    nn::ModuleList<nn::Linear> heads = register_module("heads", nn::ModuleList<nn::Linear>());
    std::optional<nn::Linear> extra;
    Tensor forward(const Tensor& x) const { return body(x); }
  };
  Net net;
  net.heads.push_back(nn::Linear(3, 3));  // after it was registered
  net.extra = net.register_module("extra", nn::Linear(1, 1));
  EXPECT_EQ(net.parameters().size(), 8U);
  Net copy = net.clone();
  const Tensor x = randn({4, 2});
  EXPECT_EQ(values(copy(x)), values(net(x)));
  for (const auto& [name, tensor] : copy.named_parameters()) {
    EXPECT_FALSE(tensor.shares_storage(net.get_parameter(name))) << name;
    EXPECT_TRUE(tensor.requires_grad());
  }
  EXPECT_TRUE(copy.heads[0].weight.is_same(copy.get_parameter("heads.0.weight")));
  EXPECT_TRUE(copy.extra->weight.is_same(copy.get_parameter("extra.weight")));
  copy.to(kFloat64);
  EXPECT_EQ(copy.heads[0].weight.dtype(), kFloat64);
  EXPECT_EQ(net.heads[0].weight.dtype(), kFloat32);
}

TEST(ModuleEdge, AModuleHeldByPointerIsPartOfItsParentAndIsNotCloned) {
  struct Net : nn::Layer<Net> {
    std::shared_ptr<nn::Linear> one = register_module("one", std::make_shared<nn::Linear>(2, 2));
    std::shared_ptr<nn::Linear> none = register_module("none", std::shared_ptr<nn::Linear>());
    Tensor forward(const Tensor& x) const { return (*one)(x); }
  };
  Net net;
  EXPECT_EQ(net.parameters().size(), 2U);
  EXPECT_EQ(net.named_children().size(), 1U);
  net.eval();
  EXPECT_FALSE(net.one->is_training());
  EXPECT_TRUE(contains(error_of([&] { (void)net.clone(); }), "'one' was registered as a"));
}

struct Many : nn::Layer<Many> {
  nn::Linear layer = register_module("layer", nn::Linear(2, 2, {.bias = false}));
  std::tuple<Tensor, std::vector<Tensor>> forward(const Tensor& x, const std::optional<Tensor>& y,
                                                  const std::vector<Tensor>& more,
                                                  int factor) const {
    return {layer(x) * factor, {y ? *y * 2 : x, more.at(1)}};
  }
};

TEST(ModuleEdge, HooksSeeTensorsInTuplesVectorsAndOptionals) {
  Many many;
  size_t inputs_seen = 0, outputs_seen = 0;
  many.register_forward_pre_hook([&](nn::Module&, TensorList& inputs) {
    inputs_seen = inputs.size();
    inputs.back() = inputs.back() + 1;
  });
  many.register_forward_hook([&](nn::Module&, const TensorList&, TensorList& outputs) {
    outputs_seen = outputs.size();
    outputs[1] = outputs[1] * 10;
  });
  const auto [out, rest] = many(ones({1, 2}), std::optional<Tensor>(ones({1})),
                                std::vector<Tensor>{ones({1}), ones({1})}, 3);
  EXPECT_EQ(inputs_seen, 4U);
  EXPECT_EQ(outputs_seen, 3U);
  EXPECT_EQ(values(rest[0]), Values{20});
  EXPECT_EQ(values(rest[1]), Values{2});
  many(ones({1, 2}), std::nullopt, std::vector<Tensor>{ones({1}), ones({1})}, 3);
  EXPECT_EQ(inputs_seen, 3U);
}

TEST(ModuleEdge, HooksThatThrowOrMiscountLeaveTheModuleUsable) {
  nn::Linear layer(2, 2);
  const auto undo_throw = layer.register_forward_hook(
      [](nn::Module&, const TensorList&, TensorList&) { throw Error("from the hook"); });
  EXPECT_EQ(error_of([&] { layer(ones({1, 2})); }), "from the hook");
  undo_throw();
  undo_throw();  // twice is harmless
  const auto undo_count =
      layer.register_forward_pre_hook([](nn::Module&, TensorList& inputs) { inputs.clear(); });
  EXPECT_TRUE(contains(error_of([&] { layer(ones({1, 2})); }), "of 1 it left 0"));
  undo_count();
  EXPECT_EQ(layer(ones({1, 2})).numel(), 2);
  std::function<void()> undo_self;
  int calls = 0;
  undo_self = layer.register_forward_pre_hook([&](nn::Module&, TensorList&) {
    ++calls;
    undo_self();
  });
  layer(ones({1, 2}));
  layer(ones({1, 2}));
  EXPECT_EQ(calls, 1);
}

TEST(ModuleEdge, BackwardHooksThrowThroughBackward) {
  nn::Linear layer(2, 2);
  layer.register_full_backward_hook(
      [](nn::Module&, const TensorList&, const TensorList&) -> TensorList {
        throw Error("from the hook");
      });
  const Tensor out = layer(ones({1, 2}).requires_grad_()).sum();
  EXPECT_TRUE(contains(error_of([&] { out.backward(); }), "from the hook"));
}

TEST(ModuleEdge, ThreadsMayCallOneModule) {
  const nn::Sequential net(nn::Linear(8, 8), nn::ReLU(), nn::BatchNorm1d(8), nn::Linear(8, 1));
  net[2].eval();
  std::atomic<int> seen = 0;
  net[0].register_forward_hook([&](nn::Module&, const TensorList&, TensorList&) { ++seen; });
  const Tensor x = randn({16, 8});
  const Values expected = values(net(x));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += values(net(x)) != expected;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(seen, 81);
}

TEST(ModuleEdge, AModuleThatWasMovedFromIsStillAModule) {
  nn::Linear layer(2, 1);
  const nn::Linear moved = std::move(layer);
  EXPECT_TRUE(layer.is_same(moved));  // NOLINT: that is what is tested
  EXPECT_EQ(layer.parameters().size(), 2U);
  EXPECT_TRUE(contains(error_of([&] { layer(ones({1, 2})); }), "undefined"));
}

template <class T>
std::string name_of_local_class() {
  struct Inner : nn::Layer<Inner> {};
  return Inner().name();
}

TEST(ModuleEdge, LocalAndTemplateClassesHaveTheirOwnNames) {
  EXPECT_EQ(name_of_local_class<std::vector<int>>(), "Inner");
  EXPECT_EQ(nn::ModuleList<nn::Linear>().name(), "ModuleList");
  EXPECT_EQ(nn::Conv2d(1, 1, 1).name(), "Conv2d");
}

TEST(ModuleEdge, GradientsAreZeroedWhereTheyAre) {
  nn::Linear layer(2, 1);
  layer(ones({1, 2})).sum().backward();
  const Tensor grad = layer.weight.grad();
  layer.zero_grad(false);
  EXPECT_EQ(values(grad), (Values{0, 0}));
  EXPECT_TRUE(layer.weight.grad().shares_storage(grad));
  layer.zero_grad();
  EXPECT_FALSE(layer.weight.grad().defined());
}

TEST(ModuleEdge, ListsOfParameters) {
  nn::ParameterList list = {ones({3})};
  struct Net : nn::Layer<Net> {
    nn::ParameterList weights;
    nn::ParameterDict named =
        register_module("named", nn::ParameterDict{{"a", ones({2})}, {"b", zeros({1})}});
  };
  Net net;
  net.weights = net.register_module("weights", list);
  list.push_back(zeros({2, 2}));  // the same list by another handle
  EXPECT_EQ(net.weights.size(), 2U);
  EXPECT_TRUE(net.weights[1].requires_grad());
  EXPECT_TRUE(net.named.contains("b"));
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : net.state_dict()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"named.a", "named.b", "weights.0", "weights.1"}));
  EXPECT_EQ(list.to_string(), R"(ParameterList(
  (0): Parameter containing: [float32 of size 3]
  (1): Parameter containing: [float32 of size 2x2]
))");
  EXPECT_TRUE(contains(error_of([&] { (void)list[2]; }), "out of range for 2"));
  EXPECT_TRUE(contains(error_of([&] { net.named["c"]; }), "has no parameter 'c'"));
}

}  // namespace
}  // namespace tensora::testing
