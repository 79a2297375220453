#include "tensora/models.h"

#include "tests/filled.h"

namespace tensora::testing {
namespace {

using models::GPT2;
using models::LLaMA;
using models::LLaMAConfig;

const Goldens& goldens() {
  static const Goldens file(TENSORA_TESTS "/models/goldens/models.txt");
  return file;
}

Tensor tokens(const std::string& name, int64_t below, const Shape& sizes) {
  return ((units(name, sizes) + 1) / 2 * static_cast<double>(below)).to(kInt64);
}

LLaMAConfig small(const std::string& type) {
  LLaMAConfig config{.model_type = type,
                     .vocab_size = 23,
                     .hidden_size = 16,
                     .intermediate_size = 24,
                     .num_hidden_layers = 2,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .max_position_embeddings = 32};
  if (type == "llama") {
    config.rope_theta = 100;
    config.rope_scaling = {.type = "llama3", .factor = 4, .original_max_positions = 8};
  } else if (type == "mistral") {
    config.sliding_window = 4;
  } else if (type == "qwen2") {
    config.attention_bias = true;
    config.tie_word_embeddings = true;
  } else {
    config.qk_norm = true;
    config.head_dim = 8;
  }
  return config;
}

models::GPT2Config small_gpt2() {
  return {.vocab_size = 23, .n_positions = 16, .n_embd = 16, .n_layer = 2, .n_head = 4};
}

/// Logits, loss and gradients are those of the same model in transformers, from its own names.
template <class Model>
void compare_language(const std::string& name, Model model) {
  load_pretrained(model, filled(pretrained_state_dict(model)));
  model.eval();
  const Tensor x = tokens("x", 23, {2, 9});
  goldens().expect(name + ".logits", model(x), 1e-5);
  const Tensor inputs = x.narrow(1, 0, 8), targets = x.narrow(1, 1, 8);
  const Tensor loss = model(inputs, targets);
  goldens().expect(name + ".loss", loss, 1e-5);
  loss.backward();
  for (const auto& [key, parameter] : model.named_parameters()) {
    const bool turned = name == "gpt2" && parameter.dim() == 2 && key.find(".c_") < key.size();
    goldens().expect_digest(name + ".grad." + key, turned ? parameter.grad().t() : parameter.grad(),
                            2e-5);
  }
}

TEST(Models, LanguageModelsEqualTransformers) {
  compare_language("gpt2", GPT2(small_gpt2()));
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"})
    compare_language(type, LLaMA(small(type)));
}

/// What a model says about a text does not depend on the pieces in which it is given.
template <class Model>
void compare_cached(Model model, int64_t layers) {
  load_pretrained(model, filled(pretrained_state_dict(model)));
  model.eval();
  const Tensor x = tokens("x", 23, {2, 12});
  const Tensor expected = model(x).detach();
  nn::KVCache cache(layers);
  TensorList parts;
  int64_t start = 0;
  for (const int64_t count : {5, 1, 3, 1, 2}) {
    parts.push_back(
        model.forward_cached(x.narrow(1, start, count), cache, {.all_positions = true}));
    start += count;
  }
  EXPECT_LT((cat(parts, 1) - expected).abs().max().template item<double>(), 2e-5);
  EXPECT_EQ(cache.length(), 12);
  // Greedy continuation is the likeliest token of the whole text, again and again.
  const Tensor made = model.generate(x.narrow(1, 0, 4), {.max_new_tokens = 5, .temperature = 0});
  for (int64_t i = 4; i < 9; ++i) {
    const Tensor next = model(made.narrow(1, 0, i)).select(1, -1).argmax(-1);
    EXPECT_EQ(values(made.select(1, i)), values(next));
  }
}

TEST(Models, TextsInPiecesGiveTheSameLogits) {
  compare_cached(GPT2(small_gpt2()), 2);
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"})
    compare_cached(LLaMA(small(type)), 2);
}

TEST(Models, CheckpointingChangesNothing) {
  LLaMA model(small("llama"));
  const Tensor x = tokens("x", 23, {2, 9});
  model(x, x).backward();
  TensorList before;
  for (const Tensor& parameter : model.parameters()) before.push_back(parameter.grad());
  model.zero_grad();
  model.checkpoint_activations = true;
  model(x, x).backward();
  const TensorList parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_EQ(values(parameters[i].grad()), values(before[i]));
}

TEST(Models, SamplesAsAsked) {
  const Tensor logits = tensor({{0.0, 5.0, 1.0, 4.0}});
  EXPECT_EQ(models::sample(logits, {.temperature = 0}).item<int64_t>(), 1);
  EXPECT_EQ(models::sample(logits, {.top_k = 1}).item<int64_t>(), 1);
  EXPECT_EQ(models::sample(logits, {.top_p = 0.01}).item<int64_t>(), 1);
  manual_seed(1);
  const Tensor many = models::sample(logits.expand({500, 4}), {.temperature = 3, .top_k = 2});
  EXPECT_EQ(values(logical_or(many == 1, many == 3).all()), Values{1});
  EXPECT_GT((many == 3).sum().item<int64_t>(), 100);
  LLaMA model(small("qwen2"));
  const Tensor prompt = tokens("x", 23, {2, 3});
  const models::GenerateOptions options{.max_new_tokens = 6, .top_p = 0.9, .seed = 7};
  EXPECT_EQ(values(model.generate(prompt, options)), values(model.generate(prompt, options)));
  EXPECT_TRUE(model.is_training());
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 23; ++i) all.push_back(i);
  EXPECT_EQ(model.generate(prompt, {.max_new_tokens = 6, .stop_tokens = all}).size(1), 4);
  EXPECT_TRUE(contains(error_of([&] { model.generate(prompt, {.top_p = 0}); }), "top_p"));
}

TEST(Models, ConfigurationsSurviveJson) {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    LLaMAConfig config = small(type);
    if (config.head_dim == 0) config.head_dim = 4;
    config.eos_token_ids = {3, 4};
    EXPECT_EQ(LLaMAConfig::from_json(config.to_json()), config) << type;
  }
  EXPECT_EQ(models::GPT2Config::from_json(small_gpt2().to_json()), small_gpt2());
  EXPECT_TRUE(contains(error_of([] { LLaMAConfig::from_json("{"); }), "JSON object"));
  EXPECT_TRUE(
      contains(error_of([] { LLaMAConfig::from_json(R"({"model_type": "bert"})"); }), "'bert'"));
  EXPECT_TRUE(contains(error_of([] { LLaMAConfig::from_json(R"({"vocab_size": "many"})"); }),
                       "'vocab_size'"));
  EXPECT_TRUE(
      contains(error_of([] { LLaMAConfig::from_json(R"({"hidden_act": "relu"})"); }), "'relu'"));
  EXPECT_TRUE(contains(error_of([] { LLaMAConfig::preset("huge"); }), "'huge'"));
  // Windows, biases and rotation are those of transformers.
  const auto window = [](const std::string& fields) {
    return LLaMAConfig::from_json("{" + fields + "}").sliding_window.value_or(0);
  };
  EXPECT_EQ(window(R"("model_type": "llama", "sliding_window": 7)"), 0);
  EXPECT_EQ(window(R"("model_type": "mistral")"), 4096);
  EXPECT_EQ(window(R"("model_type": "mistral", "sliding_window": null)"), 0);
  const std::string qwen = R"("model_type": "qwen2", "num_hidden_layers": 2, "sliding_window": 7)";
  EXPECT_EQ(window(qwen), 0);
  EXPECT_EQ(window(qwen + R"(, "use_sliding_window": true)"), 0);
  EXPECT_EQ(window(qwen + R"(, "use_sliding_window": true, "max_window_layers": 0)"), 7);
  EXPECT_TRUE(contains(
      error_of([&] { window(qwen + R"(, "use_sliding_window": true, "max_window_layers": 1)"); }),
      "1 of 2 layers"));
  EXPECT_TRUE(contains(error_of([&] { window(R"("partial_rotary_factor": 0.5)"); }),
                       "'partial_rotary_factor'"));
  EXPECT_TRUE(LLaMAConfig::from_json(R"({"model_type": "qwen3", "attention_bias": true})")
                  .attention_out_bias);
  EXPECT_FALSE(LLaMAConfig::from_json(R"({"model_type": "mistral", "attention_bias": true})")
                   .attention_bias);
}

TEST(Models, SaysWhatIsWrong) {
  LLaMA model(small("llama"));
  EXPECT_TRUE(contains(error_of([&] { model(zeros({2, 3})); }), "int64 or int32"));
  EXPECT_TRUE(contains(error_of([&] { model(zeros({3}, {.dtype = kInt64})); }), "[batch"));
  EXPECT_TRUE(contains(error_of([&] { model(full({1, 2}, 23, {.dtype = kInt64})); }), "23"));
  StateDict wrong = pretrained_state_dict(model);
  wrong.erase("model.norm.weight");
  wrong.set("lm_head.weight", zeros({3, 3}));
  const std::string text = error_of([&] { load_pretrained(model, wrong); });
  EXPECT_TRUE(contains(text, "model.norm.weight"));
  EXPECT_TRUE(contains(text, "size mismatch for lm_head.weight"));
  GPT2 gpt2(small_gpt2());
  EXPECT_TRUE(contains(error_of([&] { gpt2(zeros({1, 17}, {.dtype = kInt64})); }), "n_positions"));
  nn::KVCache cache(3);
  EXPECT_TRUE(contains(error_of([&] {
                         gpt2.forward_cached(zeros({1, 2}, {.dtype = kInt64}), cache);
                       }),
                       "2 layers"));
  EXPECT_TRUE(contains(error_of([] { models::resnet18()(zeros({1, 1, 8, 8})); }), "[N, 3, H, W]"));
}

void compare_resnet(const std::string& name, models::ResNet model) {
  load_pretrained(model, filled(model.state_dict()));
  model.eval();
  goldens().expect(name + ".eval", model(filled("x", {2, 3, 32, 32})), 2e-4);
  model.train();
  const Tensor output = model(filled("x", {2, 3, 64, 64}));
  goldens().expect(name + ".train", output, 1e-3);
  (output * filled("loss0", {2, 5})).sum().backward();
  for (const char* key :
       {"conv1.weight", "layer1.0.bn1.weight", "layer3.0.downsample.0.weight", "fc.weight"})
    goldens().expect_digest(concat(name, ".grad.", key), model.get_parameter(key).grad(), 1e-2);
  goldens().expect_digest(name + ".running", model.get_buffer("layer2.0.bn1.running_var"), 1e-4);
}

TEST(Models, ResNetsEqualTorchvision) {
  compare_resnet("resnet18", models::resnet18({.num_classes = 5}));
  compare_resnet("resnet50", models::resnet50({.num_classes = 5}));
}

TEST(Models, ViTEqualsTorchvision) {
  models::ViT model({.image_size = 16,
                     .patch_size = 8,
                     .num_layers = 2,
                     .num_heads = 2,
                     .hidden_dim = 16,
                     .mlp_dim = 32,
                     .num_classes = 5});
  load_pretrained(model, filled(model.state_dict()));
  const Tensor output = model(filled("x", {2, 3, 16, 16}));
  goldens().expect("vit.output", output);
  goldens().expect_gradients("vit", {output}, model, {}, 2e-5);
}

TEST(Models, SmallNetworksLearn) {
  manual_seed(0);
  models::MLP mlp({4, 16, 3}, {.activation = "gelu"});
  EXPECT_EQ(mlp.named_parameters()[2].first, "2.weight");
  EXPECT_EQ(mlp(randn({5, 4})).sizes(), Shape({5, 3}));
  EXPECT_EQ(mlp(randn({5, 1, 2, 2})).sizes(), Shape({5, 3}));
  models::LeNet lenet;
  const Tensor loss = lenet(randn({2, 1, 28, 28})).sum();
  loss.backward();
  EXPECT_TRUE(lenet.conv1.weight.grad().defined());
  EXPECT_TRUE(contains(error_of([&] { lenet(randn({2, 1, 20, 20})); }), "[N, 1, 28, 28]"));
}

}  // namespace
}  // namespace tensora::testing
