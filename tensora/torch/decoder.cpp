#include "tensora/torch/decoder.h"

#include <ATen/ATen.h>

#include "tensora/autograd/grad_mode.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/core/backend.h"
#include "tensora/llm/rope_table.h"
#include "tensora/llm/weight_source.h"
#include "tensora/torch/bridge.h"
#include "tensora/torch/errors.h"
#include "tensora/torch/scope.h"

namespace tensora::torch {
namespace {

constexpr int64_t kPositionGrain = 256;

}  // namespace

// Hybrid multiplies as native does; LibTorch's products want one dtype.
DType Decoder::dtype_for(const llm::WeightSource& weights, const DecoderOptions& options) {
  if (options.dtype) return *options.dtype;
  const DType found = weights.matrix_dtype("blk.0.attn_output.weight");
  if (options.hybrid) {
    if (weights.device().is_cpu() || found == kFloat32) return kFloat32;
    return found == kFloat16 ? kFloat16 : kBFloat16;
  }
  if (found == kFloat32 || found == kFloat16 || found == kBFloat16) return found;
  // On processors LibTorch has fast products of bfloat16 only: float16 takes 2 to 15 times as long.
  return weights.device().is_cpu() && cpu::multiplies_bf16() ? kBFloat16 : kFloat16;
}

Decoder::Decoder(const llm::ModelConfig& config, const llm::DecoderDesign& design,
                 llm::WeightSource& weights, const DecoderOptions& options)
    : Model(config, weights.device(), dtype_for(weights, options)),
      dtype_(torch_dtype(activation_dtype())),
      layers_(static_cast<size_t>(config.layers)) {
  const inference_mode silent;
  const Scope scope(device());
  Loader loader(weights, dtype_, options.hybrid,
                options.package.empty() && options.describe.empty());
  loader.matrix(embedding_, {{"token_embd", config.vocab_size}}, config.hidden_size);
  for (int64_t i = 0; i < config.layers; ++i) load_layer(loader, design, i);
  loader.norm(final_norm_, "output_norm.weight", config.hidden_size);
  tied_ = !weights.contains("output.weight");
  if (!tied_) loader.matrix(head_, {{"output", config.vocab_size}}, config.hidden_size);
  loader.run();
  if (tied_) head_ = embedding_;
  if (options.hybrid)
    for (Layer& layer : layers_) {
      llm::Experts& experts = layer.experts.ours;
      if (experts.count == 0) continue;
      experts.router = layer.experts.router.ours.weight(0);
      experts.gate = layer.experts.gate.ours.weight(0);
      experts.up = layer.experts.up.ours.weight(0);
      experts.down = layer.experts.down.ours.weight(0);
    }
  dequantized_ = !options.hybrid && loader.has_dequantized();
  converted_ = !options.hybrid && loader.has_converted();
  keeps_int8_ = loader.has_int8();
  positions_ = weights.positions() > 0 ? weights.positions() : config.context_length;
  make_kernels(options);
  use_package(options);
}

Decoder::~Decoder() = default;

void Decoder::make_kernels(const DecoderOptions& options) {
  const llm::ModelConfig& c = config();
  // As in llm::Decoder: the bound of a batch may be rounded up to whole blocks.
  const int64_t rows = (positions_ / kPositionGrain + 1) * kPositionGrain;
  RopeTables tables;
  tables.ours = llm::rope_table(c, llm::RopeKind::global, rows, positions_, device());
  tables.torch = RopeTable::from(tables.ours, c.rope_in_halves, dtype_);
  if (c.window > 0 && c.local_rope_base) {
    tables.ours_local = llm::rope_table(c, llm::RopeKind::local, rows, positions_, device());
    tables.torch_local = RopeTable::from(tables.ours_local, c.rope_in_halves, dtype_);
  }
  if (options.hybrid)
    kernels_ =
        std::make_unique<HybridKernels>(c, dtype_, std::move(tables), device(), options.kernels);
  else
    kernels_ = std::make_unique<Kernels>(c, dtype_, std::move(tables));
}

void Decoder::load_layer(Loader& loader, const llm::DecoderDesign& design, int64_t number) {
  const llm::ModelConfig& c = config();
  Layer& layer = layers_[static_cast<size_t>(number)];
  const std::string block = concat("blk.", number, ".");
  layer.attention.number = number;
  layer.attention.is_local = c.is_local(number);
  loader.norm(layer.attention_norm, block + "attn_norm.weight", c.hidden_size);
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  if (loader.contains(block + "attn_qkv.weight"))
    loader.matrix(layer.qkv, {{block + "attn_qkv", queries + 2 * keys}}, c.hidden_size,
                  design.qkv_bias);
  else
    loader.matrix(layer.qkv,
                  {{block + "attn_q", queries}, {block + "attn_k", keys}, {block + "attn_v", keys}},
                  c.hidden_size, design.qkv_bias);
  loader.matrix(layer.output, {{block + "attn_output", c.hidden_size}}, queries);
  if (design.qk_norm) {
    loader.norm(layer.attention.q_norm, block + "attn_q_norm.weight", c.head_dim);
    loader.norm(layer.attention.k_norm, block + "attn_k_norm.weight", c.head_dim);
  }
  if (design.post_norms) {
    loader.norm(layer.post_attention_norm, block + "post_attention_norm.weight", c.hidden_size);
    loader.norm(layer.post_feed_forward_norm, block + "post_ffw_norm.weight", c.hidden_size);
  }
  loader.norm(layer.feed_forward_norm, block + "ffn_norm.weight", c.hidden_size);
  load_feed_forward(loader, design, number);
}

void Decoder::load_feed_forward(Loader& loader, const llm::DecoderDesign& design, int64_t number) {
  const llm::ModelConfig& c = config();
  Layer& layer = layers_[static_cast<size_t>(number)];
  const std::string block = concat("blk.", number, ".");
  if (c.experts > 0) {
    ExpertsLayer& experts = layer.experts;
    experts.ours.activation = design.activation;
    experts.ours.count = c.experts;
    experts.ours.used = c.experts_used;
    experts.ours.normalize = c.normalize_experts;
    experts.ours.scale = c.expert_scale;
    loader.matrix(experts.router, {{block + "ffn_gate_inp", c.experts}}, c.hidden_size);
    const auto stack = [&](Matrix& target, const char* name, int64_t rows, int64_t width) {
      loader.matrix(target, {{block + name, rows}}, width, false, c.experts);
    };
    stack(experts.gate, "ffn_gate_exps", c.feed_forward, c.hidden_size);
    stack(experts.up, "ffn_up_exps", c.feed_forward, c.hidden_size);
    stack(experts.down, "ffn_down_exps", c.hidden_size, c.feed_forward);
    return;
  }
  GatedLayer& gated = layer.gated;
  gated.activation = design.activation;
  if (loader.contains(block + "ffn_gate.weight"))
    loader.matrix(gated.gate_up,
                  {{block + "ffn_gate", c.feed_forward}, {block + "ffn_up", c.feed_forward}},
                  c.hidden_size);
  else
    loader.pair(gated.gate_up, block + "ffn_up", c.feed_forward, c.hidden_size);
  loader.matrix(gated.down, {{block + "ffn_down", c.hidden_size}}, c.feed_forward);
}

int64_t Decoder::bytes() const {
  const auto size = [](const Norm& norm) {
    return norm.ours.defined() ? static_cast<int64_t>(norm.ours.nbytes()) : 0;
  };
  int64_t sum = embedding_.bytes() + (tied_ ? 0 : head_.bytes()) + size(final_norm_);
  for (const Layer& layer : layers_) {
    for (const Norm* norm :
         {&layer.attention_norm, &layer.feed_forward_norm, &layer.post_attention_norm,
          &layer.post_feed_forward_norm, &layer.attention.q_norm, &layer.attention.k_norm})
      sum += size(*norm);
    for (const Matrix* matrix :
         {&layer.qkv, &layer.output, &layer.gated.gate_up, &layer.gated.down, &layer.experts.router,
          &layer.experts.gate, &layer.experts.up, &layer.experts.down})
      sum += matrix->bytes();
  }
  return sum;
}

std::vector<std::string> Decoder::notes() const {
  std::vector<std::string> notes = kernels_->notes();
  if (dequantized_)
    notes.push_back(concat("quantized weights were converted to ", activation_dtype()));
  else if (converted_)
    notes.push_back(concat("some weights were converted to ", activation_dtype()));
  if (package_) notes.push_back(package_->note());
  if (const int64_t count = repeated_; count > 0)
    notes.push_back(concat(count, count == 1 ? " step" : " steps",
                           " ran out of memory; the caches of Tensora's and LibTorch's allocators "
                           "were emptied, and it was tried once more"));
  return notes;
}

void Decoder::check_batch(const llm::Batch& batch, const llm::PagedCache& cache) const {
  check(cache.keys.size() == layers_.size() && cache.values.size() == layers_.size(),
        "model: the cache must have ", layers_.size(), " layers, got ", cache.keys.size());
  check(batch.adapters.empty(), "model: LibTorch's decoders take no LoRA adapters");
  check(batch.positions.size(0) == batch.tokens.size(0), "model: expected a position per token");
}

at::Tensor Decoder::run(Step& step) const {
  const Kernels& kernels = *kernels_;
  const llm::Batch& batch = step.batch();
  at::Tensor x = kernels.embedding(step, embedding_);
  const bool some =
      batch.logit_rows.defined() && !(step.tokens() == 1 && batch.logit_rows.size(0) == 1);
  const auto add = [&](const Norm& post, const auto& branch) {
    x = post.wide.defined() ? x + kernels.branch_norm(branch(at::Tensor()), post) : branch(x);
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    batch.check_wanted();
    const at::Tensor qkv =
        kernels.linear(kernels.normalised(x, layer.attention_norm, false), layer.qkv, {});
    at::Tensor seen = kernels.attention(step, layer.attention, qkv);
    // Behind the last attention tokens no longer see one another: the other rows can be left out.
    if (some && i + 1 == layers_.size()) {
      const at::Tensor rows = to_torch(batch.logit_rows);
      seen = seen.index_select(0, rows);
      x = x.index_select(0, rows);
    }
    add(layer.post_attention_norm,
        [&](const at::Tensor& residual) { return kernels.linear({seen}, layer.output, residual); });
    batch.check_wanted();
    const bool mixed = config().experts > 0;
    const Input h = kernels.normalised(x, layer.feed_forward_norm, mixed);
    add(layer.post_feed_forward_norm, [&](const at::Tensor& residual) {
      return mixed ? kernels.experts(h.x, layer.experts, residual)
                   : kernels.linear({kernels.gated(h, layer.gated)}, layer.gated.down, residual);
    });
  }
  return x;
}

// Where one library has no memory left, the other may keep some that it does not need.
template <class Body>
Tensor Decoder::guarded(const llm::Batch& batch, llm::PagedCache& cache, const Body& body) const {
  const inference_mode silent;
  check_batch(batch, cache);
  const Scope scope(device());
  const auto attempt = [&] {
    return translated([&] {
      Step step(batch, cache, config());
      return scope.result(body(step));
    });
  };
  if (scope.is_recording()) return attempt();
  try {
    return attempt();
  } catch (const OutOfMemoryError&) {
    ++repeated_;
    empty_torch_cache(device());
    empty_cache(device());
    return attempt();
  }
}

Tensor Decoder::forward(const llm::Batch& batch, llm::PagedCache& cache) const {
  return guarded(batch, cache, [&](Step& step) {
    if (package_ && package_->fits(step)) return package_->logits(step);
    if (package_ && step.is_decode()) package_->count_other_step();
    const at::Tensor x = run(step);
    const at::Tensor logits = kernels_->logits(kernels_->normalised(x, final_norm_, false), head_);
    const double cap = config().final_softcap;
    return cap > 0 ? logits.div(cap).tanh_().mul_(cap) : logits;
  });
}

Tensor Decoder::hidden(const llm::Batch& batch, llm::PagedCache& cache) const {
  return guarded(batch, cache, [&](Step& step) {
    return kernels_->branch_norm(run(step), final_norm_).to(at::kFloat);
  });
}

}  // namespace tensora::torch
