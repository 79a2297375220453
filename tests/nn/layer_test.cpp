// What the goldens do not say about layers: random ones, states over several steps, wrong
// arguments.
#include <cmath>

#include "tensora/nn.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(Layers, DropoutDropsInTrainingOnly) {
  manual_seed(1);
  nn::Dropout drop(0.25);
  const Tensor x = ones({100, 100});
  const Tensor y = drop(x);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.03);
  EXPECT_NEAR(y.eq(0).to(kFloat32).mean().item<double>(), 0.25, 0.02);
  drop.eval();
  EXPECT_TRUE(drop(x).is_same(x));
  nn::Dropout2d channels(0.5);
  const Tensor kept =
      channels(ones({10, 20, 3, 3})).amax({2, 3}) - channels(ones({10, 20, 3, 3})).amin({2, 3}) * 0;
  for (const double value : values(kept)) EXPECT_TRUE(value == 0 || value == 2);
  nn::Dropout inplace(0.5, {.inplace = true});
  const Tensor z = ones({64});
  EXPECT_TRUE(inplace(z).shares_storage(z));
  EXPECT_NEAR(z.eq(0).to(kFloat32).mean().item<double>(), 0.5, 0.25);
}

TEST(Layers, BatchNormKeepsTheMeanOverAllBatchesWithoutMomentum) {
  nn::BatchNorm1d norm(2, {.momentum = std::nullopt});
  norm.to(kFloat64);
  const Tensor a = randn({8, 2}, {.dtype = kFloat64}), b = randn({8, 2}, {.dtype = kFloat64}) + 3;
  norm(a), norm(b);
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 2);
  const Values mean = values((a.mean(0) + b.mean(0)) / 2), var = values((a.var(0) + b.var(0)) / 2);
  for (size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(values(norm.running_mean)[c], mean[c], 1e-12);
    EXPECT_NEAR(values(norm.running_var)[c], var[c], 1e-12);
  }
  norm.reset_running_stats();
  EXPECT_EQ(values(norm.running_mean), (Values{0, 0}));
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 0);
}

TEST(Layers, BatchNormTakesEmptyBatches) {
  for (const auto momentum : {std::optional(0.1), std::optional<double>()}) {
    nn::BatchNorm2d norm(3, {.momentum = momentum});
    norm(randn({2, 3, 4, 4}));
    const Values mean = values(norm.running_mean), var = values(norm.running_var);
    for (const Shape& sizes : {Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}}) {
      const Tensor x = zeros(sizes).requires_grad_();
      EXPECT_EQ(norm(x).sizes(), sizes);
      EXPECT_EQ(norm.forward_relu(x).sizes(), sizes);
      norm(x).sum().backward();
      EXPECT_EQ(x.grad().sizes(), sizes);
      EXPECT_EQ(values(norm.weight.grad()), (Values{0, 0, 0}));
    }
    EXPECT_EQ(values(norm.running_mean), mean);
    EXPECT_EQ(values(norm.running_var), var);
    EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 7);
    EXPECT_TRUE(testing::contains(testing::error_of([&] {
                                    norm(zeros({1, 3, 1, 1}));
                                  }),
                                  "more than 1 value per channel"));
  }
}

TEST(Layers, OldFilesHaveNoCountOfBatches) {
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  net(randn({4, 2}));
  StateDict old = net.state_dict();
  ASSERT_TRUE(old.erase("1.num_batches_tracked"));
  const nn::LoadResult result = net.load_state_dict(old);
  EXPECT_TRUE(result.missing_keys.empty());
  EXPECT_EQ(net.get_buffer("1.num_batches_tracked").item<int64_t>(), 1);
  ASSERT_TRUE(old.erase("1.running_mean"));
  EXPECT_TRUE(testing::contains(testing::error_of([&] { net.load_state_dict(old); }),
                                "Missing key(s) in state_dict: \"1.running_mean\"."));
}

TEST(Layers, PoolsGiveIndicesForUnpooling) {
  const nn::MaxPool2d pool(2);
  const nn::MaxUnpool2d unpool(2);
  const Tensor x = randn({1, 2, 5, 5});
  const auto [y, indices] = pool.forward_with_indices(x);
  EXPECT_EQ(unpool(y, indices, Shape{5, 5}).sizes(), x.sizes());
  EXPECT_EQ(values(x.flatten(2).gather(2, indices.flatten(2))), values(y));
  const nn::FractionalMaxPool2d fractional(2, {.output_ratio = {{0.5, 0.7}}});
  const auto [z, positions] = fractional.forward_with_indices(randn({2, 3, 8, 10}));
  EXPECT_EQ(z.sizes(), (Shape{2, 3, 4, 7}));
}

TEST(Layers, TransposedConvolutionTakesTheSizeItIsAskedFor) {
  const nn::ConvTranspose2d up(2, 1, 3, {.stride = 2, .padding = 1});
  const Tensor x = randn({1, 2, 4, 4});
  EXPECT_EQ(up(x).sizes(), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(up(x, Shape{8, 7}).sizes(), (Shape{1, 1, 8, 7}));
  EXPECT_EQ(up(x, Shape{1, 1, 8, 8}).sizes(), (Shape{1, 1, 8, 8}));
  EXPECT_TRUE(contains(error_of([&] { up(x, Shape{9, 7}); }), "expected 7 to 8"));
}

TEST(Layers, EmbeddingFromATable) {
  const Tensor table = arange(6, {.dtype = kFloat32}).reshape({3, 2});
  const nn::Embedding frozen = nn::Embedding::from_pretrained(table);
  EXPECT_FALSE(frozen.weight.requires_grad());
  EXPECT_TRUE(frozen.weight.shares_storage(table));
  EXPECT_EQ(values(frozen(tensor({2, 0}))), (Values{4, 5, 0, 1}));
  const nn::EmbeddingBag bag = nn::EmbeddingBag::from_pretrained(table, {.freeze = false});
  EXPECT_TRUE(bag.weight.requires_grad());
  const nn::Embedding padded(4, 2, {.padding_idx = -1});
  EXPECT_EQ(values(padded.weight[3]), (Values{0, 0}));
  EXPECT_EQ(padded.options.padding_idx, 3);
}

TEST(Layers, FunctionsStandInSequences) {
  const nn::Sequential net(nn::Functional([](const Tensor& x) { return x * 2; }), nn::Identity(),
                           nn::Flatten());
  EXPECT_EQ(values(net(ones({1, 2, 1}))), (Values{2, 2}));
}

TEST(Layers, LayersHaveNoBatchesOfZeroToFear) {
  const Tensor none = zeros({0, 3, 4, 4});
  EXPECT_EQ(nn::Conv2d(3, 5, 3)(none).sizes(), (Shape{0, 5, 2, 2}));
  EXPECT_EQ(nn::MaxPool2d(2)(none).sizes(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(nn::Flatten()(none).sizes(), (Shape{0, 48}));
  EXPECT_EQ(nn::Linear(4, 2)(none).sizes(), (Shape{0, 3, 4, 2}));
  EXPECT_EQ(nn::LayerNorm(4)(none).sizes(), none.sizes());
}

TEST(Layers, ALayerInAnotherDType) {
  nn::Sequential net(nn::Conv2d(1, 2, 3), nn::BatchNorm2d(2), nn::ReLU(), nn::Flatten(),
                     nn::Linear(8, 2));
  net.to(kBFloat16);
  const Tensor out = net(randn({2, 1, 4, 4}).to(kBFloat16));
  EXPECT_EQ(out.dtype(), kBFloat16);
  out.sum().backward();
  EXPECT_EQ(net.get_parameter("0.weight").grad().dtype(), kBFloat16);
  EXPECT_EQ(net.get_buffer("1.num_batches_tracked").dtype(), kInt64);
  net.to(MemoryFormat::channels_last);
  EXPECT_EQ(net(randn({2, 1, 4, 4}).to(kBFloat16)).dtype(), kBFloat16);
}

struct Wrong {
  std::function<void()> body;
  std::string message;
};

TEST(Layers, WrongArgumentsAreRefused) {
  const Tensor x = ones({2, 3});
  const std::vector<Wrong> table = {
      {[] { nn::Linear(-1, 2); }, "Linear: expected sizes of at least 0, got in_features=-1"},
      {[] { nn::Conv2d(3, 4, 3, {.groups = 2}); },
       "Conv2d: in_channels must be divisible by groups"},
      {[] { nn::Conv2d(4, 3, 3, {.groups = 2}); }, "Conv2d: out_channels must be divisible"},
      {[] { nn::Conv2d(4, 3, 3, {.groups = 0}); }, "Conv2d: groups must be a positive number"},
      {[] {
         nn::Conv2d(1, 1, {3, 3, 3});
       },
       "Conv2d: kernel_size must be one number or 2"},
      {[] { nn::Conv2d(1, 1, 3, {.stride = 0}); }, "Conv2d: stride must be at least 1"},
      {[] { nn::Conv1d(1, 1, 3, {.stride = 2, .padding = "same"}); }, "needs a stride of 1"},
      {[] { nn::Conv1d(1, 1, 3, {.padding = "some"}); }, "'same' or 'valid', got 'some'"},
      {[] { nn::Conv1d(1, 1, 3, {.padding_mode = "zero"}); }, "padding_mode must be zeros"},
      {[] { nn::MaxPool2d(0); }, "MaxPool2d: kernel_size must be at least 1"},
      {[] {
         nn::MaxPool2d({1, 2, 3});
       },
       "MaxPool2d: kernel_size must be one number or 2"},
      {[] {
         nn::AdaptiveAvgPool2d({1, -2});
       },
       "AdaptiveAvgPool2d: output_size must be at least 0"},
      {[] { nn::AvgPool1d(2, {.divisor_override = 2}); }, "AvgPool1d: there is no divisor"},
      {[] { nn::FractionalMaxPool2d(2, {}); }, "expected one of output_size and output_ratio"},
      {[] { nn::FractionalMaxPool2d(2, {.output_ratio = 1.5}); }, "between 0 and 1, got 1.5"},
      {[] {
         nn::ZeroPad2d({1, 2});
       },
       "ZeroPad2d: padding must be one number or 4"},
      {[] { nn::Dropout(1.5); }, "p must be a probability from 0 to 1, got 1.5"},
      {[] { nn::GroupNorm(3, 4); }, "GroupNorm: num_channels must be divisible by num_groups"},
      {[] { nn::Embedding(3, 2, {.padding_idx = 3}); }, "padding_idx must be within"},
      {[] { nn::EmbeddingBag(3, 2, {.mode = "min"}); }, "mode must be mean, sum or max"},
      {[] { nn::Embedding::from_pretrained(ones({3})); }, "expected a matrix"},
      {[] { nn::Upsample({}); }, "Upsample: expected one of size and scale_factor"},
      {[] { nn::L1Loss({.reduction = "total"}); }, "total"},
      {[] { nn::MSELoss({.reduction = "batchmean"}); }, "no reduction 'batchmean'"},
      {[] { nn::PReLU({.num_parameters = 0}); }, "PReLU: expected num_parameters above 0"},
      {[] { nn::Functional(nullptr); }, "Functional: the function is empty"},
      {[&] { nn::BatchNorm2d(3)(x); }, "BatchNorm2d: expected 4D input, got shape"},
      {[&] { nn::BatchNorm1d(4)(x); }, ""},
      {[&] { nn::InstanceNorm1d(5, {.affine = true})(x); }, "InstanceNorm1d: expected 5 channels"},
      {[&] { nn::Softmax2d()(x); }, "Softmax2d: expected 3D or 4D input"},
      {[&] { nn::Linear(4, 2)(x); }, ""},
      {[&] { nn::GELU({.approximate = "erf"})(x); }, ""},
  };
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string text = error_of(table[i].body);
    EXPECT_FALSE(text.empty()) << "row " << i;
    EXPECT_TRUE(contains(text, table[i].message)) << "row " << i << ": " << text;
  }
}

TEST(Layers, UtilsFlattenAndFill) {
  nn::Linear layer(2, 3);
  const Tensor flat = nn::utils::parameters_to_vector(layer.parameters());
  EXPECT_EQ(flat.sizes(), Shape{9});
  nn::utils::vector_to_parameters(arange(9, {.dtype = kFloat32}), layer.parameters());
  EXPECT_EQ(values(layer.bias), (Values{6, 7, 8}));
  EXPECT_TRUE(
      contains(error_of([&] { nn::utils::vector_to_parameters(ones({8}), layer.parameters()); }),
               "expected a vector of 9 elements"));
  layer(ones({1, 2})).sum().backward();
  nn::utils::clip_grad_norm_(layer.parameters(), 1);
  EXPECT_NEAR(layer.weight.grad().square().sum().item<double>() +
                  layer.bias.grad().square().sum().item<double>(),
              1, 1e-4);
  EXPECT_EQ(values(nn::functional::relu(tensor({-1., 2.}))), (Values{0, 2}));
}

}  // namespace
}  // namespace tensora::testing
