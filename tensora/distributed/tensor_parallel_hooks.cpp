#include "tensora/distributed/tensor_parallel_hooks.h"

#include "tensora/autograd/checkpoint_run.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/distributed/vocabulary_parallel.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/ops.h"
#include "tensora/ops/collective/collective.h"

namespace tensora::distributed {
namespace {

using StatePtr = std::shared_ptr<TensorParallelState>;
using Placement = ParameterPart::Placement;

// Note [Tensor parallel]
// Between its two halves a block's activations are the same on all ranks. Each half begins with
// matrices whose rows are divided and ends with one whose columns are divided: so every rank
// computes its heads, or its part of the feed-forward size, and gets a partial result, whose sum
// over the ranks is the half's result. In backward, the gradient of a half's input is partial.
//
//                        replicated stream                divided sequence (dim 1)
//   before a half        replicate_grad                   all_gather
//   behind it            all_reduce                       reduce_scatter
//
// Gradients of parameters are complete on the rank that has them, except where
//   - a norm sees a part of the positions (divided sequence) or of the heads (q_norm, k_norm);
//   - a key/value head is on several ranks, each of which has some of its query heads.
// These are summed over the ranks by hooks on the leaves, before they are accumulated. A bias that
// is added to a partial result is on rank 0 alone; the others have zeros, and drop its gradient.

// The second run of a checkpoint happens in backward, so the first one recorded gradients.
bool is_divided(const TensorParallelState& state) {
  return is_checkpoint_rerun() ? state.sequence_parallel : state.sequence_is_divided;
}

Tensor enter(const TensorParallelState& state, const Tensor& x) {
  const std::string& group = state.group->name();
  return is_divided(state) ? collective::all_gather(x, 1, group)
                           : collective::replicate_grad(x, group);
}

Tensor leave(const TensorParallelState& state, const Tensor& partial) {
  const std::string& group = state.group->name();
  return is_divided(state) ? collective::reduce_scatter(partial, ReduceOp::sum, 1, group)
                           : collective::all_reduce(partial, ReduceOp::sum, group);
}

void attach_entry(nn::Module& module, const StatePtr& state) {
  module.register_forward_pre_hook([state](nn::Module&, TensorList& inputs) {
    if (!state->suspended) inputs[0] = enter(*state, inputs[0]);
  });
}

void attach_exit(nn::Module& module, const StatePtr& state) {
  module.register_forward_hook([state](nn::Module&, const TensorList&, TensorList& outputs) {
    if (!state->suspended) outputs[0] = leave(*state, outputs[0]);
  });
}

// The slots of models::HeadPart, on all ranks if a rank has them: the graphs of the ranks must be
// alike, because backward calls collectives in their order.
std::vector<int64_t> repeated_heads(int64_t heads, int64_t kv_heads, const ProcessGroup& group) {
  bool some = false;
  for (int rank = 0; rank < group.size(); ++rank)
    some = some || !models::head_part(heads, kv_heads, group.size(), rank).repeat.empty();
  models::HeadPart own = models::head_part(heads, kv_heads, group.size(), group.rank());
  if (some && own.repeat.empty())
    for (int64_t slot = 0; slot < own.kv.size(); ++slot) own.repeat.push_back(slot);
  return own.repeat;
}

// Attention wants groups of query heads of one size; see models::HeadPart::repeat.
void attach_repeat(nn::Module& projection, const StatePtr& state, const Tensor& slots,
                   int64_t size) {
  projection.register_forward_hook(
      [state, slots, size](nn::Module&, const TensorList&, TensorList& outputs) {
        if (state->suspended) return;
        const Tensor heads = outputs[0].unflatten(-1, {-1, size});
        outputs[0] = heads.index_select(-2, slots.to(heads.device())).flatten(-2);
      });
}

void attach_embedding(nn::Module& embedding, const StatePtr& state,
                      const VocabularyPart& vocabulary) {
  const auto absent = std::make_shared<Tensor>();  // between the two hooks of a call
  embedding.register_forward_pre_hook([=](nn::Module&, TensorList& inputs) {
    if (state->suspended) return;
    const int64_t positions = inputs[0].size(1), ranks = state->group->size();
    state->sequence_is_divided = state->sequence_parallel && is_grad_enabled();
    check_as<ValueError>(!state->sequence_is_divided || positions % ranks == 0,
                         "shard_model: with sequence_parallel the number of positions must be a "
                         "multiple of the ",
                         ranks, " ranks, got ", positions);
    LocalTokens local = local_tokens(inputs[0], vocabulary);
    inputs[0] = local.rows;
    *absent = local.absent;
  });
  embedding.register_forward_hook([=](nn::Module&, const TensorList&, TensorList& outputs) {
    if (state->suspended) return;
    const Tensor mask = std::exchange(*absent, {}).unsqueeze(-1);
    outputs[0] = leave(*state, outputs[0].masked_fill(mask, 0));
  });
}

class DividedHead final : public models::ParallelHead {
 public:
  DividedHead(StatePtr state, VocabularyPart vocabulary)
      : state_(std::move(state)), vocabulary_(std::move(vocabulary)) {}

  Tensor logits(const Tensor& hidden, const Tensor& weight) const override {
    if (state_->suspended) return linear(hidden, weight);
    return gather_vocabulary(linear(enter(*state_, hidden), weight), vocabulary_);
  }
  Tensor loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets) const override {
    if (state_->suspended) return nn::linear_cross_entropy(hidden, weight, targets);
    return vocabulary_cross_entropy(enter(*state_, hidden), weight, targets, vocabulary_);
  }

 private:
  StatePtr state_;
  VocabularyPart vocabulary_;
};

void attach_gradients(const ParameterPart& part, const StatePtr& state) {
  if (!part.parameter.requires_grad()) return;
  const std::string& name = part.name;
  const bool per_head = name.find(".q_norm.") != name.npos || name.find(".k_norm.") != name.npos;
  const bool per_position = part.placement == Placement::replicated && state->sequence_parallel;
  if (per_head || per_position) {
    part.parameter.register_hook([state](const Tensor& grad) {
      return state->suspended ? grad
                              : collective::all_reduce(grad, ReduceOp::sum, state->group->name());
    });
  } else if (part.overlaps()) {
    ParameterPart ranges = part;
    ranges.parameter = {};  // which would keep itself alive
    part.parameter.register_hook([state, ranges](const Tensor& grad) {
      return state->suspended ? grad : sum_overlaps(ranges, grad, *state->group);
    });
  } else if (part.placement == Placement::first_only && state->group->rank() > 0) {
    part.parameter.register_hook(
        [state](const Tensor& grad) { return state->suspended ? grad : zeros_like(grad); });
  }
}

}  // namespace

std::shared_ptr<TensorParallelState> attach_tensor_parallel(models::LLaMA& model,
                                                            const std::vector<ParameterPart>& parts,
                                                            std::shared_ptr<ProcessGroup> group,
                                                            bool sequence_parallel) {
  const auto state = std::make_shared<TensorParallelState>();
  state->group = std::move(group);
  state->sequence_parallel = sequence_parallel;
  if (state->group->size() == 1) return state;
  const models::LLaMAConfig& config = model.config();
  const VocabularyPart vocabulary{config.vocab_size, state->group};
  attach_embedding(model.model.embed_tokens, state, vocabulary);
  for (const nn::TransformerBlock& block : model.model.layers) {
    nn::CausalSelfAttention attention = block.self_attn;  // handles
    nn::FeedForwardSwiGLU feed_forward = block.mlp;
    attach_entry(attention, state);
    attach_exit(attention.o_proj, state);
    attach_entry(feed_forward, state);
    attach_exit(feed_forward, state);
    const std::vector<int64_t> repeated =
        repeated_heads(attention.num_heads, attention.options.num_kv_heads, *state->group);
    if (repeated.empty()) continue;
    const Tensor slots = tensor(repeated, {.dtype = kInt64});
    for (nn::Linear* projection : {&attention.k_proj, &attention.v_proj})
      attach_repeat(*projection, state, slots, attention.options.head_size);
  }
  for (const ParameterPart& part : parts) attach_gradients(part, state);
  model.set_parallel_head(std::make_shared<DividedHead>(state, vocabulary));
  return state;
}

}  // namespace tensora::distributed
