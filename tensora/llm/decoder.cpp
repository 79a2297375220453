#include "tensora/llm/decoder.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/process_group.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/llm/model_shard.h"
#include "tensora/llm/rope_table.h"
#include "tensora/llm/self_attention.h"
#include "tensora/llm/weight_source.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

constexpr int64_t kPositionGrain = 256;

/// On the CPU activations are float32, and so they are beside float32 weights.
DType dtype_beside(const WeightSource& weights) {
  const DType dtype = weights.matrix_dtype("blk.0.attn_output.weight");
  if (weights.device().is_cpu() || dtype == kFloat32) return kFloat32;
  return dtype == kFloat16 ? kFloat16 : kBFloat16;
}

}  // namespace

/// Notes what is wanted and checks that it is there; `run` then loads it. So a file that lacks
/// something is refused before the first weight is loaded.
class Decoder::Loader {
 public:
  explicit Loader(WeightSource& source) : source(source) {}

  void matrix(const std::string& name, const Shape& sizes, Weight& target) {
    source.expect(name, sizes);
    wanted_.push_back({.name = name, .sizes = sizes, .matrix = &target});
  }
  void vector(const std::string& name, int64_t size, Tensor& target) {
    source.expect(name, {size});
    wanted_.push_back({.name = name, .sizes = {size}, .vector = &target});
  }
  /// `names` without ".weight", with their numbers of rows.
  void projection(Projection& target, std::vector<std::pair<std::string, int64_t>> names,
                  int64_t width, bool must_have_bias = false) {
    std::vector<std::string> plain;
    for (const auto& [name, rows] : names) plain.push_back(name);
    target = Projection(plain);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto& [name, rows] = names[i];
      matrix(name + ".weight", {rows, width}, target.parts()[i].weight);
      if (must_have_bias || source.contains(name + ".bias"))
        vector(name + ".bias", rows, target.parts()[i].bias);
    }
    std::vector<Weight*> matrices;
    for (Projection::Part& part : target.parts()) matrices.push_back(&part.weight);
    together(std::move(matrices));
  }
  /// Matrices noted before; see place_together.
  void together(std::vector<Weight*> matrices) {
    if (matrices.size() > 1) wanted_.push_back({.together = std::move(matrices)});
  }
  void run() {
    for (const Wanted& wanted : wanted_)
      if (wanted.matrix)
        *wanted.matrix = source.matrix(wanted.name, wanted.sizes);
      else if (wanted.vector)
        *wanted.vector = source.vector(wanted.name, wanted.sizes);
      else
        place_together(wanted.together);
  }

  WeightSource& source;

 private:
  struct Wanted {
    std::string name = {};
    Shape sizes = {};
    Weight* matrix = nullptr;
    Tensor* vector = nullptr;
    std::vector<Weight*> together = {};
  };
  std::vector<Wanted> wanted_;
};

Decoder::Decoder(const ModelConfig& config, const DecoderDesign& design, WeightSource& weights)
    : Model(config, weights.device(), dtype_beside(weights)),
      layers_(static_cast<size_t>(config.layers)) {
  const inference_mode silent;
  Loader loader(weights);
  loader.matrix("token_embd.weight", {config.vocab_size, config.hidden_size}, embedding_);
  for (int64_t i = 0; i < config.layers; ++i) load_layer(loader, design, i);
  loader.vector("output_norm.weight", config.hidden_size, final_norm_);
  tied_ = !weights.contains("output.weight");
  models::IndexRange vocabulary{0, config.vocab_size};
  if (const ModelShard* const shard = weights.shard()) {
    group_ = shard->group;
    vocabulary = shard->vocabulary;
  }
  if (tied_)
    head_ = Projection({"output"});
  else
    loader.projection(head_, {{"output", vocabulary.size()}}, config.hidden_size);
  loader.run();
  if (tied_) head_.parts()[0].weight = embedding_.rows(vocabulary.begin, vocabulary.size());
  head_.finish();
  for (Layer& layer : layers_) finish(layer);
  positions_ = weights.positions() > 0 ? weights.positions() : config.context_length;
  // A few more rows, because the bound of a batch may be rounded up to whole blocks.
  const int64_t rows = (positions_ / kPositionGrain + 1) * kPositionGrain;
  table_ = rope_table(config, RopeKind::global, rows, positions_, device());
  if (config.window > 0 && config.local_rope_base)
    local_table_ = rope_table(config, RopeKind::local, rows, positions_, device());
}

void Decoder::load_layer(Loader& loader, const DecoderDesign& design, int64_t number) {
  const ModelConfig& c = config();
  Layer& layer = layers_[static_cast<size_t>(number)];
  const std::string block = "blk." + std::to_string(number) + ".";
  loader.vector(block + "attn_norm.weight", c.hidden_size, layer.attention_norm);
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  if (loader.source.contains(block + "attn_qkv.weight"))
    loader.projection(layer.qkv, {{block + "attn_qkv", queries + 2 * keys}}, c.hidden_size,
                      design.qkv_bias);
  else
    loader.projection(
        layer.qkv,
        {{block + "attn_q", queries}, {block + "attn_k", keys}, {block + "attn_v", keys}},
        c.hidden_size, design.qkv_bias);
  loader.projection(layer.output, {{block + "attn_output", c.hidden_size}}, queries);
  if (design.qk_norm) {
    loader.vector(block + "attn_q_norm.weight", c.head_dim, layer.q_norm);
    loader.vector(block + "attn_k_norm.weight", c.head_dim, layer.k_norm);
  }
  if (design.post_norms) {
    loader.vector(block + "post_attention_norm.weight", c.hidden_size, layer.post_attention_norm);
    loader.vector(block + "post_ffw_norm.weight", c.hidden_size, layer.post_feed_forward_norm);
  }
  loader.vector(block + "ffn_norm.weight", c.hidden_size, layer.feed_forward_norm);
  load_feed_forward(loader, design, number);
}

void Decoder::load_feed_forward(Loader& loader, const DecoderDesign& design, int64_t number) {
  const ModelConfig& c = config();
  Layer& layer = layers_[static_cast<size_t>(number)];
  const std::string block = "blk." + std::to_string(number) + ".";
  if (c.experts > 0) {
    Experts& experts = layer.experts;
    experts.activation = design.activation;
    experts.count = c.experts;
    experts.used = c.experts_used;
    experts.normalize = c.normalize_experts;
    experts.scale = c.expert_scale;
    const Shape wide{c.experts, c.feed_forward, c.hidden_size};
    loader.matrix(block + "ffn_gate_inp.weight", {c.experts, c.hidden_size}, experts.router);
    loader.matrix(block + "ffn_gate_exps.weight", wide, experts.gate);
    loader.matrix(block + "ffn_up_exps.weight", wide, experts.up);
    loader.matrix(block + "ffn_down_exps.weight", {c.experts, c.hidden_size, c.feed_forward},
                  experts.down);
    return;
  }
  FeedForward& network = layer.feed_forward;
  network.activation = design.activation;
  if (loader.source.contains(block + "ffn_gate.weight")) {
    loader.projection(network.gate, {{block + "ffn_gate", c.feed_forward}}, c.hidden_size);
    loader.projection(network.up, {{block + "ffn_up", c.feed_forward}}, c.hidden_size);
    loader.together({&network.gate.parts()[0].weight, &network.up.parts()[0].weight});
  } else {
    // Both in one matrix, the gate first; see `finish`.
    loader.projection(network.up, {{block + "ffn_up", 2 * c.feed_forward}}, c.hidden_size);
    network.gate = Projection({block + "ffn_gate"});
  }
  loader.projection(network.down, {{block + "ffn_down", c.hidden_size}}, c.feed_forward);
}

void Decoder::finish(Layer& layer) const {
  layer.qkv.finish();
  layer.output.finish();
  if (config().experts > 0) return;
  Projection::Part &gate = layer.feed_forward.gate.parts()[0],
                   &up = layer.feed_forward.up.parts()[0];
  if (const int64_t rows = config().feed_forward; !gate.weight.defined()) {
    gate.weight = up.weight.rows(0, rows);
    up.weight = up.weight.rows(rows, rows);
    if (up.bias.defined()) {
      gate.bias = up.bias.narrow(0, 0, rows);
      up.bias = up.bias.narrow(0, rows, rows);
    }
  }
  layer.feed_forward.gate.finish();
  layer.feed_forward.up.finish();
  layer.feed_forward.down.finish();
}

int64_t Decoder::bytes() const {
  int64_t sum = embedding_.bytes() + (tied_ ? 0 : head_.bytes());
  for (const Layer& layer : layers_) {
    sum += layer.qkv.bytes() + layer.output.bytes();
    if (config().experts == 0)
      sum += layer.feed_forward.gate.bytes() + layer.feed_forward.up.bytes() +
             layer.feed_forward.down.bytes();
    for (const Weight* weight :
         {&layer.experts.router, &layer.experts.gate, &layer.experts.up, &layer.experts.down})
      sum += weight->bytes();
    for (const Tensor* norm :
         {&layer.attention_norm, &layer.feed_forward_norm, &layer.post_attention_norm,
          &layer.post_feed_forward_norm, &layer.q_norm, &layer.k_norm})
      if (norm->defined()) sum += static_cast<int64_t>(norm->nbytes());
  }
  return sum + static_cast<int64_t>(final_norm_.nbytes());
}

void Decoder::check_batch(const Batch& batch, const PagedCache& cache) const {
  check(cache.keys.size() == layers_.size() && cache.values.size() == layers_.size(),
        "model: the cache must have ", layers_.size(), " layers, got ", cache.keys.size());
  check(batch.max_length <= table_.size(0), "model: it was loaded for ", positions(),
        " positions, but a sequence of the batch may have ", batch.max_length);
}

Tensor Decoder::normalised(Stream& stream, const Tensor& weight, DType dtype) const {
  auto [result, sum] =
      residual_rms_norm(stream.branch.defined() ? stream.branch : stream.sum, weight,
                        {.residual = stream.branch.defined() ? stream.sum : Tensor(),
                         .eps = config().norm_eps,
                         .dtype = dtype});
  stream = {.sum = sum};
  return result;
}

// The products of few tokens normalise them themselves: that is less work than one more step that
// all threads wait for. On the CPU both ways give the same bits.
Projection::Input Decoder::input(Stream& stream, const Tensor& weight, const Batch& batch) const {
  const int64_t few = device().is_cpu() ? 16 : 1;
  if (stream.sum.size(0) <= few && !stream.branch.defined() && batch.adapters.empty() &&
      weight.dtype() == kFloat32)
    return {.x = stream.sum, .norm = weight, .eps = config().norm_eps};
  return {.x = normalised(stream, weight, activation_dtype())};
}

template <class Branch>
Tensor Decoder::summed(const Tensor& residual, const Branch& branch) const {
  if (!group_) return branch(residual);
  const Tensor partial = branch(group_->rank() == 0 ? residual : Tensor());
  group_->all_reduce(data_of(partial), ReduceOp::sum, CallMode::blocking)->wait();
  return partial;
}

/// Where a branch is normalised before it is added, the addition is left to the next norm.
template <class Branch>
void Decoder::add(Stream& stream, const Tensor& post_norm, const Branch& branch) const {
  if (!post_norm.defined()) {
    stream.sum = summed(stream.sum, branch);
    return;
  }
  Stream alone{.sum = summed(Tensor(), branch)};
  stream.branch = normalised(alone, post_norm, kFloat32);
}

Tensor Decoder::attention(const Layer& layer, int64_t number, const Projection::Input& x,
                          const Batch& batch, PagedCache& cache) const {
  const ModelConfig& c = config();
  const auto i = static_cast<size_t>(number);
  const bool local = c.is_local(number);
  const Tensor seen =
      self_attention(layer.qkv(x, batch, {.dtype = activation_dtype()}), batch, cache.keys[i],
                     cache.values[i], local && local_table_.defined() ? local_table_ : table_,
                     {.store = {.heads = c.heads,
                                .kv_heads = c.kv_heads,
                                .in_halves = c.rope_in_halves,
                                .q_norm = layer.q_norm,
                                .k_norm = layer.k_norm,
                                .eps = c.norm_eps},
                      .attention = {.scale = c.attention_scale,
                                    .softcap = c.attention_softcap,
                                    .window = local ? c.window : 0}});
  return seen.reshape({x.x.size(0), c.heads * c.head_dim});
}

Decoder::Stream Decoder::run(const Batch& batch, PagedCache& cache) const {
  check_batch(batch, cache);
  Stream stream{
      .sum = quant_embedding(batch.tokens, embedding_.data,
                             {.scale = embedding_.scale, .factor = config().embedding_scale})};
  // Adapters are given by the places of tokens, so with them all rows are kept to the end.
  const bool only = batch.tokens.size(0) == 1 && batch.logit_rows.defined() &&
                    batch.logit_rows.size(0) == 1;  // the only row there is
  const bool some = batch.logit_rows.defined() && !only, early = some && batch.adapters.empty();
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    batch.check_wanted();
    Tensor seen = attention(layer, static_cast<int64_t>(i),
                            input(stream, layer.attention_norm, batch), batch, cache);
    // Behind the last attention tokens no longer see one another: the other rows can be left out.
    if (early && i + 1 == layers_.size()) {
      seen = seen.index_select(0, batch.logit_rows);
      stream.sum = stream.sum.index_select(0, batch.logit_rows);
    }
    add(stream, layer.post_attention_norm, [&](const Tensor& residual) {
      return layer.output({seen}, batch, {.residual = residual, .dtype = kFloat32});
    });
    batch.check_wanted();
    const bool mixed = config().experts > 0;
    const Projection::Input h =
        mixed ? Projection::Input{normalised(stream, layer.feed_forward_norm, activation_dtype())}
              : input(stream, layer.feed_forward_norm, batch);
    add(stream, layer.post_feed_forward_norm, [&](const Tensor& residual) {
      return mixed ? layer.experts(h.x, residual)
                   : layer.feed_forward(h, batch, activation_dtype(), residual);
    });
  }
  if (some && !early)
    for (Tensor* part : {&stream.sum, &stream.branch})
      if (part->defined()) *part = part->index_select(0, batch.logit_rows);
  return stream;
}

Tensor Decoder::forward(const Batch& batch, PagedCache& cache) const {
  const inference_mode silent;
  Stream stream = run(batch, cache);
  Batch rows;  // the head has no adapters
  const Tensor logits = head_(input(stream, final_norm_, rows), rows, {.dtype = kFloat32});
  const double cap = config().final_softcap;
  return cap > 0 ? tanh(logits / cap) * cap : logits;
}

Tensor Decoder::hidden(const Batch& batch, PagedCache& cache) const {
  const inference_mode silent;
  Stream stream = run(batch, cache);
  return normalised(stream, final_norm_, kFloat32);
}

std::shared_ptr<const Model> make_decoder(const ModelConfig& config, const DecoderDesign& design,
                                          WeightSource& weights) {
  return std::make_shared<const Decoder>(config, design, weights);
}

}  // namespace tensora::llm
