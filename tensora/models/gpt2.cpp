#include "tensora/models/gpt2.h"

#include <cmath>

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/models/token_check.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/feed_forward_op.h"

namespace tensora::models {

// ---- blocks
// --------------------------------------------------------------------------------------

GPT2Attention::GPT2Attention(const GPT2Config& c)
    : num_heads(c.n_head),
      dropout(c.attn_pdrop),
      c_attn(register_module("c_attn", nn::Linear(c.n_embd, 3 * c.n_embd))),
      c_proj(register_module("c_proj", nn::Linear(c.n_embd, c.n_embd))) {}

Tensor GPT2Attention::forward(const Tensor& input, const nn::AttentionStep& step) const {
  // The heads are views of one product, and unbind puts their gradients together in one pass.
  const std::vector<Tensor> parts = c_attn(input).unflatten(-1, {3, num_heads, -1}).unbind(2);
  const auto heads = [&](size_t i) { return parts[i].transpose(1, 2); };  // B H T D
  return c_proj(nn::causal_attention(heads(0), heads(1), heads(2), step,
                                     {.dropout_p = is_training() ? dropout : 0}));
}

GPT2MLP::GPT2MLP(const GPT2Config& c)
    : activation(c.activation_function == "gelu_new" ? "gelu_tanh" : c.activation_function),
      c_fc(register_module("c_fc", nn::Linear(c.n_embd, c.n_inner > 0 ? c.n_inner : 4 * c.n_embd))),
      c_proj(register_module("c_proj", nn::Linear(c_fc.out_features, c.n_embd))) {}

Tensor GPT2MLP::forward(const Tensor& input) const {
  if ((c_proj.*&GPT2MLP::has_hooks)())  // which want to see what it gets
    return c_proj(linear_activation(input, c_fc.weight, c_fc.bias, activation));
  return feed_forward(input, c_fc.weight, c_fc.bias, c_proj.weight, c_proj.bias, activation);
}

GPT2Block::GPT2Block(const GPT2Config& c)
    : dropout(c.resid_pdrop),
      ln_1(register_module("ln_1", nn::LayerNorm({c.n_embd}, {.eps = c.layer_norm_epsilon}))),
      attn(register_module("attn", GPT2Attention(c))),
      ln_2(register_module("ln_2", nn::LayerNorm({c.n_embd}, {.eps = c.layer_norm_epsilon}))),
      mlp(register_module("mlp", GPT2MLP(c))) {}

std::tuple<Tensor, Tensor> GPT2Block::forward(const Tensor& sum, const Tensor& branch,
                                              const nn::AttentionStep& step) const {
  const nn::AddNormOptions options{.dropout_p = is_training() ? dropout : 0, .for_products = true};
  const auto [x, before] = nn::add_norm(ln_1, branch, sum, options);
  const auto [y, between] = nn::add_norm(ln_2, attn(x, step), before, options);
  return {between, mlp(y)};
}

// ---- the model
// -----------------------------------------------------------------------------------

GPT2Body::GPT2Body(const GPT2Config& c)
    : embd_pdrop(c.embd_pdrop),
      resid_pdrop(c.resid_pdrop),
      wte(register_module("wte", nn::Embedding(c.vocab_size, c.n_embd))),
      wpe(register_module("wpe", nn::Embedding(c.n_positions, c.n_embd))),
      h(register_module("h", nn::ModuleList<GPT2Block>())),
      ln_f(register_module("ln_f", nn::LayerNorm({c.n_embd}, {.eps = c.layer_norm_epsilon}))) {
  for (int64_t i = 0; i < c.n_layer; ++i) h.push_back(GPT2Block(c));
}

Tensor GPT2Body::forward(const Tensor& tokens, nn::KVCache* cache, bool checkpointed) const {
  const int64_t start = cache && cache->num_layers() > 0 ? cache->length() : 0;
  const int64_t added = tokens.size(1), positions = wpe.num_embeddings;
  check(start + added <= positions, "GPT2: ", start + added,
        " positions exceed the model's n_positions=", positions);
  const Tensor embedded = wte(tokens) + wpe.weight.narrow(0, start, added);
  Tensor sum = dropout(embedded, embd_pdrop, is_training()), branch;
  nn::AttentionStep step{.cache = cache};
  if (start > 0 && added > 1)
    step.mask = nn::causal_mask(added, start + added, {}, tokens.device());
  for (const GPT2Block& block : h) {
    if (checkpointed && is_grad_enabled()) {
      const auto body = [block](const TensorList& in) {  // a handle: it may outlive the model
        auto [a, b] = block(in[0], in.size() > 1 ? in[1] : Tensor());
        return TensorList{a, b};
      };
      const TensorList parts =
          checkpoint(body, branch.defined() ? TensorList{sum, branch} : TensorList{sum});
      sum = parts[0];
      branch = parts[1];
    } else {
      std::tie(sum, branch) = block(sum, branch, step);
    }
    ++step.layer;
  }
  return std::get<0>(
      nn::add_norm(ln_f, branch, sum, {.dropout_p = is_training() ? resid_pdrop : 0}));
}

GPT2::GPT2(GPT2Config config)
    : transformer((config.check_valid(), register_module("transformer", GPT2Body(config)))),
      config_(std::move(config)) {
  reset_parameters();
}

void GPT2::reset_parameters() {
  const no_grad silent;
  // What is added to the residual stream starts smaller the more layers add to it.
  const double narrow = config_.initializer_range /
                        std::sqrt(2 * static_cast<double>(std::max<int64_t>(1, config_.n_layer)));
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.dim() > 1)
      parameter.normal_(0, name.ends_with("c_proj.weight") ? narrow : config_.initializer_range);
    else
      parameter.fill_(name.ends_with("bias") ? 0 : 1);
}

Tensor GPT2::forward(const Tensor& tokens) const {
  check_tokens("GPT2", tokens);
  return linear(transformer(tokens, nullptr, checkpoint_activations), transformer.wte.weight);
}

Tensor GPT2::forward(const Tensor& tokens, const Tensor& targets) const {
  check_tokens("GPT2", tokens);
  return nn::linear_cross_entropy(transformer(tokens, nullptr, checkpoint_activations),
                                  transformer.wte.weight, targets);
}

Tensor GPT2::forward_cached(const Tensor& tokens, nn::KVCache& cache, CachedOptions options) const {
  check_tokens("GPT2", tokens);
  check(cache.num_layers() == config_.n_layer, "GPT2: expected a cache for ", config_.n_layer,
        " layers, got one for ", cache.num_layers());
  const no_grad silent;
  const Tensor hidden = transformer(tokens, &cache, false);
  return linear(options.all_positions ? hidden : hidden.select(1, -1), transformer.wte.weight);
}

Tensor GPT2::generate(const Tensor& prompt, const GenerateOptions& options) {
  return generate_cached(*this, config_.n_layer, prompt, options);
}

}  // namespace tensora::models
