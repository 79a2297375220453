#include "tensora/models/vit.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/nn/init.h"
#include "tensora/nn/transformer_block.h"
#include "tensora/ops.h"

namespace tensora::models {

ViTConfig ViTConfig::preset(const std::string& name) {
  if (name == "tiny") return {.num_heads = 3, .hidden_dim = 192, .mlp_dim = 768};
  if (name == "b_16") return {};
  if (name == "b_32") return {.patch_size = 32};
  const ViTConfig large{.num_layers = 24, .num_heads = 16, .hidden_dim = 1024, .mlp_dim = 4096};
  if (name == "l_16") return large;
  if (name == "l_32") {
    ViTConfig config = large;
    config.patch_size = 32;
    return config;
  }
  check(name == "h_14", "ViTConfig: there is no preset '", name,
        "'; there are tiny, b_16, b_32, l_16, l_32 and h_14");
  return {.patch_size = 14, .num_layers = 32, .num_heads = 16, .hidden_dim = 1280, .mlp_dim = 5120};
}

namespace {

constexpr double kNormEps = 1e-6;

void check_config(const ViTConfig& c) {
  check(c.patch_size > 0 && c.image_size > 0 && c.image_size % c.patch_size == 0,
        "ViT: patch_size must divide image_size, got ", c.patch_size, " and ", c.image_size);
  check(c.num_heads > 0 && c.hidden_dim > 0 && c.hidden_dim % c.num_heads == 0,
        "ViT: num_heads must divide hidden_dim, got ", c.num_heads, " and ", c.hidden_dim);
}

}  // namespace

ViTMLP::ViTMLP(const ViTConfig& c)
    : dropout(c.dropout),
      up(register_module("0", nn::Linear(c.hidden_dim, c.mlp_dim))),
      down(register_module("3", nn::Linear(c.mlp_dim, c.hidden_dim))) {}

Tensor ViTMLP::forward(const Tensor& input) const {
  const Tensor hidden = linear_activation(input, up.weight, up.bias, "gelu");
  return down(tensora::dropout(hidden, dropout, is_training()));
}

ViTBlock::ViTBlock(const ViTConfig& c)
    : dropout(c.dropout),
      ln_1(register_module("ln_1", nn::LayerNorm({c.hidden_dim}, {.eps = kNormEps}))),
      self_attention(register_module(
          "self_attention",
          nn::MultiheadAttention(c.hidden_dim, c.num_heads,
                                 {.dropout = c.attention_dropout, .batch_first = true}))),
      ln_2(register_module("ln_2", nn::LayerNorm({c.hidden_dim}, {.eps = kNormEps}))),
      mlp(register_module("mlp", ViTMLP(c))) {}

std::tuple<Tensor, Tensor> ViTBlock::forward(const Tensor& sum, const Tensor& branch) const {
  const nn::AddNormOptions options{.dropout_p = is_training() ? dropout : 0, .for_products = true};
  const auto [x, before] = nn::add_norm(ln_1, branch, sum, options);
  const nn::MultiheadAttentionCall call{.need_weights = false};
  const Tensor attended = std::get<0>(self_attention(x, x, x, call));
  const auto [y, between] = nn::add_norm(ln_2, attended, before, options);
  return {between, mlp(y)};
}

ViTEncoder::ViTEncoder(const ViTConfig& c)
    : dropout(c.dropout),
      layers(register_module("layers", nn::ModuleDict<ViTBlock>())),
      ln(register_module("ln", nn::LayerNorm({c.hidden_dim}, {.eps = kNormEps}))) {
  const int64_t side = c.image_size / c.patch_size;
  pos_embedding = register_parameter(
      "pos_embedding", empty({1, side * side + 1, c.hidden_dim}, nn::FactoryScope::current()));
  for (int64_t i = 0; i < c.num_layers; ++i)
    layers.insert(concat("encoder_layer_", i), ViTBlock(c));
}

Tensor ViTEncoder::forward(const Tensor& tokens) const {
  Tensor sum = tensora::dropout(tokens + pos_embedding, dropout, is_training()), branch;
  for (const std::string& key : layers.keys()) std::tie(sum, branch) = layers[key](sum, branch);
  return std::get<0>(nn::add_norm(ln, branch, sum, {.dropout_p = is_training() ? dropout : 0}));
}

ViT::ViT(ViTConfig config)
    : conv_proj((check_config(config),
                 register_module("conv_proj",
                                 nn::Conv2d(config.in_channels, config.hidden_dim,
                                            config.patch_size, {.stride = config.patch_size})))),
      encoder(register_module("encoder", ViTEncoder(config))),
      heads(register_module("heads", nn::ModuleDict<nn::Linear>())),
      config_(config) {
  class_token = register_parameter("class_token",
                                   empty({1, 1, config.hidden_dim}, nn::FactoryScope::current()));
  heads.insert("head", nn::Linear(config.hidden_dim, config.num_classes));
  reset_parameters();
}

void ViT::reset_parameters() {
  const no_grad silent;
  class_token.zero_();
  encoder.pos_embedding.normal_(0, 0.02);
  const double fan_in =
      static_cast<double>(config_.in_channels * config_.patch_size * config_.patch_size);
  nn::init::trunc_normal_(conv_proj.weight, 0, std::sqrt(1 / fan_in));
  conv_proj.bias.zero_();
  heads["head"].weight.zero_();
  heads["head"].bias.zero_();
  for (const std::string& key : encoder.layers.keys()) {
    const ViTBlock& block = encoder.layers[key];
    for (const nn::Linear* layer : {&block.mlp.up, &block.mlp.down}) {
      nn::init::xavier_uniform_(layer->weight);
      layer->bias.normal_(0, 1e-6);
    }
  }
}

Tensor ViT::forward(const Tensor& images) const {
  check(images.dim() == 4 && images.size(1) == config_.in_channels &&
            images.size(2) == config_.image_size && images.size(3) == config_.image_size,
        "ViT: expected images of shape [N, ", config_.in_channels, ", ", config_.image_size, ", ",
        config_.image_size, "], got ", images.sizes());
  const Tensor patches = conv_proj(images).flatten(2).transpose(1, 2);  // N T hidden_dim
  const Tensor first =
      class_token.to(patches.dtype()).expand({images.size(0), 1, config_.hidden_dim});
  return heads["head"](encoder(cat({first, patches}, 1)).select(1, 0));
}

}  // namespace tensora::models
