// What a package of AOTInductor has to know about a decoder, and the tensors that it works with.
#include <ATen/ATen.h>
#include <torch/headeronly/version.h>

#include <fstream>

#include "tensora/torch/bridge.h"
#include "tensora/torch/decoder.h"
#include "tensora/torch/package.h"

namespace tensora::torch {
namespace {

using nlohmann::json;

// Inductor writes vectors of up to 8 numbers into the code, but not rows of a matrix.
at::Tensor as_row(const at::Tensor& vector) { return vector.unsqueeze(0); }

void add(Package::Constants& all, const std::string& name, const Matrix& matrix) {
  for (size_t i = 0; i < matrix.dense.size(); ++i) all[concat(name, "_", i)] = matrix.dense[i];
  if (matrix.bias.defined()) all[name + "_bias"] = as_row(matrix.bias);
}

void add(Package::Constants& all, const std::string& name, const Norm& norm) {
  if (norm.wide.defined()) all[name] = as_row(norm.wide);
}

}  // namespace

Package::Constants Decoder::constants() const {
  Package::Constants all;
  add(all, "embedding", embedding_);
  if (!tied_) add(all, "head", head_);
  add(all, "final_norm", final_norm_);
  const RopeTables& tables = kernels_->tables();
  all["rope_cos"] = tables.torch.cos;
  all["rope_sin"] = tables.torch.sin;
  if (tables.torch_local.cos.defined()) {
    all["local_rope_cos"] = tables.torch_local.cos;
    all["local_rope_sin"] = tables.torch_local.sin;
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::string name = concat("layer_", i, "_");
    add(all, name + "attention_norm", layer.attention_norm);
    add(all, name + "feed_forward_norm", layer.feed_forward_norm);
    add(all, name + "post_attention_norm", layer.post_attention_norm);
    add(all, name + "post_feed_forward_norm", layer.post_feed_forward_norm);
    add(all, name + "q_norm", layer.attention.q_norm);
    add(all, name + "k_norm", layer.attention.k_norm);
    add(all, name + "qkv", layer.qkv);
    add(all, name + "output", layer.output);
    add(all, name + "gate_up", layer.gated.gate_up);
    add(all, name + "down", layer.gated.down);
  }
  return all;
}

json Decoder::description(const DecoderOptions& options) const {
  const llm::ModelConfig& c = config();
  std::vector<bool> local;
  for (int64_t i = 0; i < c.layers; ++i) local.push_back(c.is_local(i));
  json tensors = json::object();
  for (const auto& [name, tensor] : constants())
    tensors[name] = {{"shape", tensor.sizes().vec()},
                     {"dtype", concat(tensora_dtype(tensor.scalar_type()))}};
  return {{"format", "tensora-decode-1"},
          {"torch", TORCH_VERSION},
          {"device", std::string(name(device().type))},
          {"dtype", concat(activation_dtype())},
          {"cache_dtype", concat(options.cache_dtype)},
          {"block_size", options.block_size},
          {"layers", c.layers},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"rotary_dim", c.rotary_dim},
          {"rope_in_halves", c.rope_in_halves},
          {"norm_eps", c.norm_eps},
          {"attention_scale", c.attention_scale},
          {"attention_softcap", c.attention_softcap},
          {"final_softcap", c.final_softcap},
          {"embedding_scale", c.embedding_scale},
          {"window", c.window},
          {"local_layers", local},
          {"activation", layers_.at(0).gated.activation == Activation::silu ? "silu" : "gelu_tanh"},
          {"tensors", tensors}};
}

void Decoder::use_package(const DecoderOptions& options) {
  if (options.package.empty() && options.describe.empty()) return;
  check(config().experts == 0,
        "libtorch: AOTInductor packages for models with experts are not supported");
  const json about = description(options);
  if (!options.describe.empty()) {
    std::ofstream file(options.describe);
    file << about.dump(1) << "\n";
    check(file.flush().good(), "libtorch: the setting describe: '", options.describe,
          "' cannot be written");
  }
  if (!options.package.empty())
    package_ = std::make_unique<Package>(options.package, about, constants());
}

}  // namespace tensora::torch
