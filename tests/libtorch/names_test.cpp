// Functions and containers that programs for LibTorch name.
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/torch.h>

namespace {

namespace F = torch::nn::functional;
namespace rnn = torch::nn::utils::rnn;

TEST(LibTorchNames, SequencesOfDifferentLengths) {
  const auto a = torch::tensor({1, 2, 3}), b = torch::tensor({4, 5});
  const std::vector<torch::Tensor> both{a, b};
  EXPECT_TRUE(torch::equal(rnn::pad_sequence(both, true), torch::tensor({{1, 2, 3}, {4, 5, 0}})));
  EXPECT_TRUE(torch::equal(rnn::pad_sequence({a, b}, true, 7, "left"),
                           torch::tensor({{1, 2, 3}, {7, 4, 5}})));
  EXPECT_THROW(rnn::pad_sequence(both, true, 0, "top"), c10::Error);
  const auto packed = rnn::pack_sequence(both).to(torch::kDouble);
  EXPECT_EQ(packed.data().dtype(), torch::kDouble);
  EXPECT_EQ(packed.batch_sizes().dtype(), torch::kLong);
  EXPECT_FALSE(packed.is_cuda());
  EXPECT_TRUE(packed.cpu().data().is_same(packed.data()));
  EXPECT_TRUE(
      torch::equal(rnn::invert_permutation(torch::tensor({2, 0, 1})), torch::tensor({1, 2, 0})));
  EXPECT_FALSE(rnn::invert_permutation({}).defined());
}

TEST(LibTorchNames, ParametersInLists) {
  torch::nn::ParameterList list(torch::zeros({2}), torch::ones({3}));
  torch::nn::ParameterList more(torch::ones({4}));
  list->extend(*more);
  *list += *more;
  std::vector<std::string> keys;
  int64_t count = 0;
  for (const auto& item : *list) {
    keys.push_back(item.key());
    count += item.value().numel() + item->dim();
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(count, 2 + 3 + 4 + 4 + 4);

  torch::nn::ParameterDict dict, other;
  dict->insert("a", torch::zeros({2}));
  dict->insert("b", torch::zeros({2}));
  other->insert("a", torch::ones({2}));
  dict->update(*other);
  EXPECT_TRUE(torch::equal(dict["a"], torch::ones({2})));
  other->insert("c", torch::ones({2}));
  EXPECT_THROW(dict->update(*other), c10::Error);
  EXPECT_TRUE(torch::equal(dict->pop("b"), torch::zeros({2})));
  EXPECT_THROW(dict->pop("b"), c10::Error);
  EXPECT_EQ(dict->named_parameters().size(), 1u);
  dict->clear();
  EXPECT_TRUE(dict->empty());
}

TEST(LibTorchNames, AttentionAsAFunction) {
  torch::nn::MultiheadAttention layer(torch::nn::MultiheadAttentionOptions(8, 2));
  const auto query = torch::randn({3, 2, 8}), key = torch::randn({5, 2, 8});
  const auto options = F::MultiheadAttentionForwardFuncOptions(
      8, 2, layer->in_proj_weight, layer->in_proj_bias, {}, {}, false, 0, layer->out_proj->weight,
      layer->out_proj->bias);
  const auto [expected, weights] = layer(query, key, key);
  const auto [result, same] = F::multi_head_attention_forward(query, key, key, options);
  EXPECT_TRUE(torch::allclose(result, expected));
  EXPECT_TRUE(torch::allclose(same, weights));
  result.sum().backward();
  EXPECT_TRUE(layer->in_proj_weight.grad().defined());
  const auto parts = layer->in_proj_weight.chunk(3);
  auto apart = options;
  apart.use_separate_proj_weight(true).q_proj_weight(parts[0]).k_proj_weight(parts[1]);
  apart.v_proj_weight(parts[2]);
  EXPECT_TRUE(torch::allclose(std::get<0>(F::multi_head_attention_forward(query, key, key, apart)),
                              expected));
}

TEST(LibTorchNames, NormsBehindTransformers) {
  using torch::nn::AnyModule, torch::nn::LayerNorm, torch::nn::LayerNormOptions;
  const auto layer = torch::nn::TransformerEncoderLayerOptions(8, 2).dropout(0);
  torch::nn::TransformerEncoder plain(torch::nn::TransformerEncoderOptions(layer, 2));
  torch::nn::TransformerEncoder normed(
      torch::nn::TransformerEncoderOptions(plain->options.encoder_layer(), 2)
          .norm(AnyModule(LayerNorm(LayerNormOptions({8})))));
  EXPECT_TRUE(normed->named_parameters().contains("norm.weight"));
  const auto x = torch::randn({4, 1, 8});
  const auto without = plain(x);
  EXPECT_TRUE(torch::allclose(normed(x), torch::layer_norm(without, {8}), 1e-4, 1e-5));
  const auto copy = std::dynamic_pointer_cast<torch::nn::TransformerEncoderImpl>(normed->clone());
  EXPECT_TRUE(torch::equal(copy->forward(x), normed(x)));
}

TEST(LibTorchNames, ArchivesNameTheWholePathOfWhatIsMissing) {
  torch::serialize::OutputArchive inner, outer;
  inner.write("weight", torch::ones({2}));
  outer.write("fc", inner);
  std::stringstream file;
  outer.save_to(file);
  torch::serialize::InputArchive whole, part;
  whole.load_from(file);
  whole.read("fc", part);
  torch::Tensor bias;
  try {
    part.read("bias", bias);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_STREQ(error.what(), "No such serialized tensor 'fc.bias'");
  }
}

// As torch::save of LibTorch 2.15 wrote them.
TEST(LibTorchNames, ReadsFilesOfLibTorch) {
  const std::string folder = std::string(TENSORA_TESTS) + "/io/goldens/";
  std::vector<torch::Tensor> list;
  torch::load(list, folder + "libtorch_list.pt");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(torch::equal(list[1], torch::zeros({3})));
  torch::Tensor tensor;
  torch::load(tensor, folder + "libtorch_tensor.pt");
  EXPECT_TRUE(torch::equal(tensor, torch::arange(3)));
  struct NetImpl : torch::nn::Module {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(2, 3));
    torch::nn::BatchNorm1d bn = register_module("bn", torch::nn::BatchNorm1d(3));
    torch::Tensor scale = register_parameter("scale", torch::zeros({2}));
  };
  auto net = std::make_shared<NetImpl>();
  torch::load(net, folder + "libtorch_module.pt");
  EXPECT_TRUE(torch::equal(net->fc->weight, torch::arange(6.0f).reshape({3, 2})));
  EXPECT_TRUE(torch::equal(net->scale, torch::full({2}, 5.0f)));
  EXPECT_TRUE(net->scale.requires_grad());
}

TEST(LibTorchNames, FunctionsAndGuards) {
  EXPECT_TRUE(c10::GradMode::is_enabled());
  {
    const c10::NoGradGuard no_grad;
    EXPECT_FALSE(torch::GradMode::is_enabled());
  }
  const torch::autograd::DetectAnomalyGuard guard(/*check_nan=*/false);
  EXPECT_EQ(std::abs(c10::complex<double>(3, 4)), 5);
  const auto y = torch::ones({1}, torch::requires_grad()) * 2;
  EXPECT_EQ(c10::str(y.grad_fn()), c10::str(static_cast<const void*>(y.grad_fn().get())));
  EXPECT_EQ(torch::scalarTypeToTypeMeta(torch::kInt), torch::kInt);
  EXPECT_TRUE(torch::equal(torch::constant_pad_nd(torch::ones({2}), {1, -1}, 3),
                           torch::tensor({3.f, 1.f})));
  const auto weight = torch::arange(6).to(torch::kFloat).reshape({3, 2});
  const auto [bags, a, b, c] =
      torch::embedding_bag(weight, torch::tensor({0, 2, 1}), torch::tensor({0, 2}));
  EXPECT_TRUE(torch::equal(bags, torch::tensor({{4.f, 6.f}, {2.f, 3.f}})));
  EXPECT_THROW(torch::set_num_interop_threads(0), c10::Error);
}

TEST(LibTorchNames, RandomTensorsOfAGenerator) {
  auto one = at::detail::createCPUGenerator(3), other = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto both = [&](auto draw) {
    const auto first = draw(one);
    EXPECT_TRUE(torch::equal(first, draw(other)));
    return first;
  };
  const auto a = both([](auto& generator) { return torch::rand({4}, generator); });
  const auto b = both(
      [](auto& generator) { return torch::rand({4}, generator, torch::dtype(torch::kFloat)); });
  EXPECT_FALSE(torch::equal(a, b));  // the stream goes on
  both([](auto& generator) { return torch::randn({4}, generator, torch::dtype(torch::kDouble)); });
  both([](auto& generator) { return torch::randint(0, 100, {4}, generator); });
  both([](auto& generator) { return torch::randperm(9, generator); });
}

TEST(LibTorchNames, SparseGradientsOfEmbeddings) {
  torch::nn::EmbeddingBag bag(torch::nn::EmbeddingBagOptions(5, 2).mode(torch::kSum).sparse(true));
  const auto before = bag->weight.detach().clone();
  bag->forward(torch::tensor({1, 2, 1}), torch::tensor({0, 1})).sum().backward();
  EXPECT_EQ(bag->weight.grad().sizes(), bag->weight.sizes());
  torch::optim::SGD optimizer(bag->parameters(), 0.1);
  optimizer.step();
  const auto change = (before - bag->weight.detach()).sum(1);
  EXPECT_TRUE(torch::allclose(change, torch::tensor({0.f, 0.4f, 0.2f, 0.f, 0.f}), 1e-4, 1e-5));
  optimizer.zero_grad(/*set_to_none=*/false);
  optimizer.step();
  EXPECT_TRUE(bag->weight.grad().defined());
}

}  // namespace
