#include "tensora/models/llama.h"

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/checkpoint_run.h"
#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/models/token_check.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/linear_group_op.h"

namespace tensora::models {

namespace {

nn::TransformerBlockOptions block_options(const LLaMAConfig& c) {
  const int64_t size = c.head_dim > 0 ? c.head_dim : c.hidden_size / c.num_attention_heads;
  const nn::RotaryEmbedding rotary(size, {.max_positions = c.max_position_embeddings,
                                          .base = c.rope_theta,
                                          .scaling = c.rope_scaling});
  return {.attention = {.num_kv_heads = c.num_key_value_heads,
                        .head_size = size,
                        .bias = c.attention_bias,
                        .out_bias = c.attention_out_bias,
                        .qk_norm_eps = c.qk_norm ? std::optional(c.rms_norm_eps) : std::nullopt,
                        .window = c.sliding_window,
                        .dropout = c.attention_dropout,
                        .rotary = rotary},
          .feed_forward = {.bias = c.mlp_bias},
          .norm_eps = c.rms_norm_eps};
}

// The linear layer at the end of a checkpoint. In the second run nobody reads its result, and it is
// not computed.
struct LastLinear : Function<LastLinear> {
  static Tensor forward(Context& context, const Tensor& x /* … k */,
                        const Tensor& weight /* n k */) {
    context.save_for_backward({x, weight});
    if (!is_checkpoint_rerun()) return linear(x, weight);
    Shape sizes = x.sizes();
    sizes[sizes.size() - 1] = weight.size(0);
    return empty(sizes, {.dtype = x.dtype(), .device = x.device()});
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const TensorList saved = context.saved_tensors();
    const auto matrix = [](const Tensor& x) { return x.reshape({-1, x.size(-1)}); };
    return {
        context.needs_input_grad(0) ? matmul(grads[0], saved[1]) : Tensor(),
        context.needs_input_grad(1) ? matmul(matrix(grads[0]).t(), matrix(saved[0])) : Tensor()};
  }
};

// Note [What a checkpointed block keeps]
// The feed-forward half computes four times as wide as the block is, and by products alone: two
// thirds of what a block would keep. This half is computed again. The attention half keeps what its
// gradient needs: to compute it again too would take two thirds of that time for a third of the
// memory.
TensorList feed_forward_again(const nn::TransformerBlock& block, const Tensor& branch,
                              const Tensor& sum, bool plain) {
  const auto body = [block, plain](const TensorList& in) {  // a handle: may outlive the model
    const nn::AddNormOptions rounded{.for_products = true};
    const auto [x, between] = add_norm(block.post_attention_layernorm, in[0], in[1], rounded);
    const nn::FeedForwardSwiGLU& mlp = block.mlp;
    if (!plain) return TensorList{between, mlp(x)};
    const std::vector<Tensor> both =
        linear_group(x, std::vector<Tensor>{mlp.gate_proj.weight, mlp.up_proj.weight});
    return TensorList{between, LastLinear::apply(swiglu(both[0], both[1]), mlp.down_proj.weight)};
  };
  return checkpoint(body, TensorList{branch, sum});
}

}  // namespace

LLaMABody::LLaMABody(const LLaMAConfig& c)
    : embed_tokens(register_module("embed_tokens", nn::Embedding(c.vocab_size, c.hidden_size))),
      layers(register_module("layers", nn::ModuleList<nn::TransformerBlock>())),
      norm(register_module("norm", nn::RMSNorm({c.hidden_size}, {.eps = c.rms_norm_eps}))) {
  const nn::TransformerBlockOptions options = block_options(c);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    layers.push_back(
        nn::TransformerBlock(c.hidden_size, c.num_attention_heads, c.intermediate_size, options));
}

Tensor LLaMABody::forward(const Tensor& tokens, nn::KVCache* cache, bool checkpointed) const {
  Tensor sum = embed_tokens(tokens), branch;
  nn::AttentionStep step{.cache = cache};
  if (cache && !layers.is_empty()) {
    // One mask serves all layers; for one position, or a text from its beginning, none is needed.
    const int64_t before = cache->length(), added = tokens.size(1);
    if (before > 0 && added > 1)
      step.mask = nn::causal_mask(added, before + added, layers[0].self_attn.options.window,
                                  tokens.device());
  }
  for (const nn::TransformerBlock& block : layers) {
    if ((block.*&LLaMABody::has_hooks)()) {  // they see the block's input and output as a whole
      if (branch.defined()) sum = sum + std::exchange(branch, {});
      const auto body = [block, step](const Tensor& x) { return block(x, step); };
      sum = checkpointed ? checkpoint(body, sum) : body(sum);
    } else if (checkpointed && is_grad_enabled()) {
      const nn::FeedForwardSwiGLU& mlp = block.mlp;
      bool plain = !is_autocast_enabled() && !(mlp.*&LLaMABody::has_hooks)();
      for (const nn::Linear* layer : {&mlp.gate_proj, &mlp.up_proj, &mlp.down_proj})
        plain &= !layer->bias.defined() && !(layer->*&LLaMABody::has_hooks)();
      const auto [x, before] =
          add_norm(block.input_layernorm, branch, sum, nn::AddNormOptions{.for_products = true});
      const TensorList parts = feed_forward_again(block, block.self_attn(x, step), before, plain);
      sum = parts[0];
      branch = parts[1];
    } else {
      std::tie(sum, branch) = block.forward_parts(sum, branch, step);
    }
    ++step.layer;
  }
  return std::get<0>(nn::add_norm(norm, branch, sum));
}

LLaMA::LLaMA(LLaMAConfig config)
    : model((config.check_valid(), register_module("model", LLaMABody(config)))),
      config_(std::move(config)) {
  if (!config_.tie_word_embeddings)
    lm_head = register_module("lm_head",
                              nn::Linear(config_.hidden_size, config_.vocab_size, {.bias = false}));
  reset_parameters();
}

void LLaMA::reset_parameters() {
  const no_grad silent;
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.dim() > 1)
      parameter.normal_(0, config_.initializer_range);
    else
      parameter.fill_(name.ends_with("bias") ? 0 : 1);
}

const Tensor& LLaMA::head_weight() const {
  return lm_head ? lm_head->weight : model.embed_tokens.weight;
}

Tensor LLaMA::logits(const Tensor& hidden) const {
  const ParallelHead* const parallel = parallel_head_->get();
  return parallel ? parallel->logits(hidden, head_weight()) : linear(hidden, head_weight());
}

Tensor LLaMA::forward(const Tensor& tokens) const {
  check_tokens("LLaMA", tokens);
  return logits(model(tokens, nullptr, checkpoint_activations));
}

Tensor LLaMA::forward(const Tensor& tokens, const Tensor& targets) const {
  check_tokens("LLaMA", tokens);
  const Tensor hidden = model(tokens, nullptr, checkpoint_activations);
  if (const ParallelHead* const parallel = parallel_head_->get())
    return parallel->loss(hidden, head_weight(), targets);
  return nn::linear_cross_entropy(hidden, head_weight(), targets);
}

Tensor LLaMA::forward_cached(const Tensor& tokens, nn::KVCache& cache,
                             CachedOptions options) const {
  check_tokens("LLaMA", tokens);
  check(cache.num_layers() == config_.num_hidden_layers, "LLaMA: expected a cache for ",
        config_.num_hidden_layers, " layers, got one for ", cache.num_layers());
  const no_grad silent;
  const Tensor hidden = model(tokens, &cache, false);
  return logits(options.all_positions ? hidden : hidden.select(1, -1));
}

Tensor LLaMA::generate(const Tensor& prompt, const GenerateOptions& options) {
  return generate_cached(*this, config_.num_hidden_layers, prompt, options);
}

}  // namespace tensora::models
