#pragma once

#include "tensora/nn/conv.h"
#include "tensora/nn/layer_norm.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/multihead_attention.h"

namespace tensora::models {

struct ViTConfig {
  int64_t image_size = 224, patch_size = 16;
  int64_t num_layers = 12, num_heads = 12;
  int64_t hidden_dim = 768, mlp_dim = 3072;
  double dropout = 0, attention_dropout = 0;
  int64_t num_classes = 1000, in_channels = 3;

  /// "tiny" (5.7 M parameters), "b_16", "b_32", "l_16", "l_32", "h_14".
  static ViTConfig preset(const std::string& name);
};

class ViTMLP : public nn::Layer<ViTMLP> {
 public:
  explicit ViTMLP(const ViTConfig& config);
  Tensor forward(const Tensor& input) const;

  double dropout;
  nn::Linear up, down;  // "0" and "3"
};

class ViTBlock : public nn::Layer<ViTBlock> {
 public:
  explicit ViTBlock(const ViTConfig& config);
  /// On `sum` + dropout(`branch`); returns such a pair. See TransformerBlock::forward_parts.
  std::tuple<Tensor, Tensor> forward(const Tensor& sum, const Tensor& branch) const;

  double dropout;
  nn::LayerNorm ln_1;
  nn::MultiheadAttention self_attention;
  nn::LayerNorm ln_2;
  ViTMLP mlp;
};

class ViTEncoder : public nn::Layer<ViTEncoder> {
 public:
  explicit ViTEncoder(const ViTConfig& config);
  Tensor forward(const Tensor& tokens /* N T hidden_dim */) const;

  double dropout;
  nn::Parameter pos_embedding;  // 1 T hidden_dim
  nn::ModuleDict<ViTBlock> layers;
  nn::LayerNorm ln;
};

/// A vision transformer with torchvision's names of parameters.
class ViT : public nn::Layer<ViT> {
 public:
  explicit ViT(ViTConfig config = {});

  /// Logits N num_classes.
  Tensor forward(const Tensor& images /* N C H W */) const;
  void reset_parameters();
  const ViTConfig& config() const { return config_; }

  nn::Parameter class_token;  // 1 1 hidden_dim
  nn::Conv2d conv_proj;
  ViTEncoder encoder;
  nn::ModuleDict<nn::Linear> heads;  // "head"

 private:
  ViTConfig config_;
};

}  // namespace tensora::models
