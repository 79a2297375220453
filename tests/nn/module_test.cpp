#include <sstream>

#include "tensora/nn/linear.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/sequential.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

struct Net : nn::Layer<Net> {
  explicit Net(int64_t width = 4) {
    hidden = register_module("hidden", nn::Linear(3, width));
    output = register_module("output", nn::Linear(width, 2, {.bias = false}));
  }
  Tensor forward(const Tensor& x) const { return output(relu(hidden(x) + shift)); }

  nn::Linear hidden{0, 0}, output{0, 0};
  nn::Buffer shift = register_buffer("shift", zeros({1}));
  nn::Buffer scratch = register_buffer("scratch", zeros({1}), {.persistent = false});
};

std::vector<std::string> names_of(const nn::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Module, ListsItsPartsByName) {
  Net net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"hidden.weight", "hidden.bias", "output.weight"}));
  EXPECT_EQ(names_of(net.named_buffers()), (Names{"shift", "scratch"}));
  EXPECT_EQ(net.parameter_count(), 3 * 4 + 4 + 8);
  Names keys;
  for (const auto& [name, tensor] : net.state_dict()) keys.push_back(name);
  EXPECT_EQ(keys, (Names{"shift", "hidden.weight", "hidden.bias", "output.weight"}));
  EXPECT_TRUE(net.get_parameter("hidden.weight").is_same(net.hidden.weight));
  EXPECT_EQ(net.get<nn::Linear>("output").out_features, 2);
}

TEST(Module, CopiesShareAndClonesDoNot) {
  Net net;
  Net same = net;
  Net apart = net.clone();
  {
    const no_grad scope;
    net.hidden.weight.fill_(1);
  }
  EXPECT_EQ(values(same.hidden.weight), values(net.hidden.weight));
  EXPECT_NE(values(apart.hidden.weight), values(net.hidden.weight));
  // The clone's members and its lists are the same tensors.
  EXPECT_TRUE(apart.get_parameter("hidden.weight").is_same(apart.hidden.weight));
  EXPECT_TRUE(apart.hidden.weight.requires_grad());
  EXPECT_TRUE(apart.get_buffer("shift").is_same(apart.shift));
  apart.eval();
  EXPECT_FALSE(apart.hidden.is_training());
  EXPECT_TRUE(net.hidden.is_training());
}

TEST(Module, ACloneSharesWhatItsOriginalShared) {
  struct Tied : nn::Layer<Tied> {
    nn::Linear in = register_module("in", nn::Linear(3, 3, {.bias = false}));
    nn::Parameter out = register_parameter("out", in.weight);
    Tensor forward(const Tensor& x) const { return linear(in(x), out); }
  };
  Tied tied;
  EXPECT_EQ(tied.parameters().size(), 1U);
  EXPECT_EQ(tied.state_dict().size(), 2U);
  const Tied copy = tied.clone();
  EXPECT_TRUE(copy.out.is_same(copy.in.weight));
  EXPECT_FALSE(copy.out.is_same(tied.out));
}

TEST(Module, TrainsAllHandles) {
  Net net;
  const Tensor x = randn({5, 3});
  net(x).sum().backward();
  EXPECT_TRUE(net.hidden.weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.hidden.weight.grad().defined());
  net.requires_grad_(false);
  EXPECT_FALSE(net(x).requires_grad());
}

TEST(Module, MovesMembersToo) {
  Net net;
  net(randn({5, 3})).sum().backward();
  net.to(kFloat64);
  EXPECT_EQ(net.hidden.weight.dtype(), kFloat64);
  EXPECT_EQ(net.hidden.weight.grad().dtype(), kFloat64);
  EXPECT_EQ(net.shift.dtype(), kFloat64);
  EXPECT_EQ(net(randn({5, 3}, {.dtype = kFloat64})).dtype(), kFloat64);
  EXPECT_TRUE(contains(error_of([&] { net.to(kInt64); }), "only floating and complex"));
}

TEST(Module, LoadsAllOrNothing) {
  Net net, other;
  net.load_state_dict(other.state_dict());
  EXPECT_EQ(values(net.hidden.weight), values(other.hidden.weight));
  StateDict wrong = Net(5).state_dict();
  wrong.erase("shift");
  wrong.insert("extra", zeros({1}));
  const Values before = values(net.output.weight);
  const std::string text = error_of([&] { net.load_state_dict(wrong); });
  EXPECT_TRUE(contains(text, "loading state_dict for Net"));
  EXPECT_TRUE(contains(text, "Missing key(s) in state_dict: \"shift\""));
  EXPECT_TRUE(contains(text, "Unexpected key(s) in state_dict: \"extra\""));
  EXPECT_TRUE(contains(text, "size mismatch for hidden.weight"));
  EXPECT_EQ(values(net.output.weight), before);
  StateDict partial = other.state_dict();
  partial.erase("shift");
  const nn::LoadResult result = net.load_state_dict(partial, {.strict = false});
  EXPECT_EQ(result.missing_keys, Names{"shift"});
}

TEST(Module, PrintsAsPyTorchDoes) {
  std::ostringstream text;
  text << nn::Sequential(nn::Linear(3, 4), nn::Sequential(nn::Linear(4, 2, {.bias = false})));
  EXPECT_EQ(text.str(), R"(Sequential(
  (0): Linear(in_features=3, out_features=4, bias=True)
  (1): Sequential(
    (0): Linear(in_features=4, out_features=2, bias=False)
  )
))");
  const nn::ModuleList<nn::Linear> list = {nn::Linear(1, 1), nn::Linear(1, 1)};
  EXPECT_EQ(list.to_string(), R"(ModuleList(
  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)
))");
}

TEST(Module, RunsHooks) {
  Net net;
  std::vector<std::string> seen;
  const auto undo =
      net.hidden.register_forward_pre_hook([&](nn::Module& module, TensorList& inputs) {
        seen.push_back("before " + module.name());
        inputs[0] = inputs[0] * 0;
      });
  net.hidden.register_forward_hook([&](nn::Module&, const TensorList& inputs, TensorList& outputs) {
    seen.push_back("after");
    EXPECT_EQ(values(inputs[0].sum()), Values{0});
    outputs[0] = outputs[0] * 0;
  });
  EXPECT_EQ(values(net(ones({1, 3}))), (Values{0, 0}));
  undo();
  net.hidden.register_forward_pre_hook(
      [](nn::Module&, TensorList& inputs) { inputs[0] = inputs[0] * 0; });
  net(ones({1, 3}));
  EXPECT_EQ(seen, (Names{"before Linear", "after", "after"}));
}

TEST(Module, RunsBackwardHooks) {
  nn::Linear layer(2, 1, {.bias = false});
  TensorList in, out;
  layer.register_full_backward_hook(
      [&](nn::Module&, const TensorList& grad_inputs, const TensorList& grad_outputs) {
        in = grad_inputs;
        out = grad_outputs;
        return grad_inputs[0].defined() ? TensorList{grad_inputs[0] * 10} : TensorList{};
      });
  const Tensor x = ones({1, 2}).requires_grad_();
  layer(x).sum().backward();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(values(out[0]), Values{1});
  EXPECT_EQ(values(in[0]), values(layer.weight));
  EXPECT_EQ(values(x.grad()), values(layer.weight.detach() * 10));
  // Without a gradient for the input, the hook still sees those of the outputs.
  out.clear();
  in.clear();
  layer(ones({1, 2})).sum().backward();
  EXPECT_EQ(out.size(), 1U);
  EXPECT_FALSE(in[0].defined());
}

TEST(Module, RefusesBadNames) {
  struct Bad : nn::Layer<Bad> {};
  Bad bad;
  EXPECT_TRUE(contains(error_of([&] { bad.register_module("a.b", nn::Linear(1, 1)); }), "a dot"));
  bad.register_module("a", nn::Linear(1, 1));
  EXPECT_TRUE(contains(error_of([&] { bad.register_buffer("a", ones({1})); }), "there already"));
  EXPECT_TRUE(contains(error_of([&] { bad.register_module("self", bad); }), "contain itself"));
  EXPECT_TRUE(contains(error_of([&] { bad.get_submodule("a.b"); }), "Linear has no module 'b'"));
  EXPECT_TRUE(contains(error_of([&] { bad.call(ones({1})); }), "Bad: its forward"));
  EXPECT_TRUE(contains(error_of([&] { bad.get<Bad>("a"); }), "is a Linear"));
}

TEST(Module, IsMadeWhereTheScopeSays) {
  const nn::FactoryScope scope({.dtype = kBFloat16, .device = Device("meta")});
  nn::Linear layer(3, 2);
  EXPECT_EQ(layer.weight.dtype(), kBFloat16);
  EXPECT_TRUE(layer.weight.is_meta());
  layer.to_empty(Device("cpu"));
  EXPECT_TRUE(layer.weight.is_cpu());
}

}  // namespace
}  // namespace tensora::testing
