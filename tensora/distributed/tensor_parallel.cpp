#include "tensora/distributed/tensor_parallel.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/base/error_kinds.h"
#include "tensora/distributed/gradient_norm.h"
#include "tensora/distributed/parameter_check.h"
#include "tensora/distributed/tensor_parallel_hooks.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/multi_tensor.h"

namespace tensora::distributed {
namespace {

using models::IndexRange;
using Placement = ParameterPart::Placement;

IndexRange scaled(const IndexRange& range, int64_t size) {
  return {range.begin * size, range.end * size};
}

// How the parameters of a LLaMA are divided, by the last parts of their names.
class Plan {
 public:
  Plan(const models::LLaMAConfig& config, int ranks) {
    const int64_t heads = config.num_attention_heads;
    const int64_t kv = config.num_key_value_heads > 0 ? config.num_key_value_heads : heads;
    const int64_t size = config.head_dim > 0 ? config.head_dim : config.hidden_size / heads;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const models::HeadPart part = models::head_part(heads, kv, ranks, rank);
      queries_.push_back(scaled(part.query, size));
      keys_.push_back(scaled(part.kv, size));
      hidden_.push_back(models::balanced_part(config.intermediate_size, ranks, rank));
      vocabulary_.push_back(models::balanced_part(config.vocab_size, ranks, rank));
    }
  }

  ParameterPart part(const std::string& name, const Tensor& parameter) const {
    ParameterPart part{.name = name, .parameter = parameter, .sizes = parameter.sizes()};
    const auto is = [&](std::string_view layer) { return name.find(layer) != std::string::npos; };
    const auto divide = [&](int dim, const std::vector<IndexRange>& ranges) {
      part.placement = Placement::divided;
      part.dim = dim;
      part.held = ranges;
    };
    const bool bias = name.ends_with(".bias");
    if (is("embed_tokens.") || is("lm_head.")) divide(0, vocabulary_);
    if (is(".q_proj.")) divide(0, queries_);
    if (is(".k_proj.") || is(".v_proj.")) divide(0, keys_);
    if (is(".gate_proj.") || is(".up_proj.")) divide(0, hidden_);
    if (is(".o_proj.") || is(".down_proj.")) {
      if (bias)
        part.placement = Placement::first_only;
      else
        divide(1, is(".o_proj.") ? queries_ : hidden_);
    }
    return part;
  }

 private:
  std::vector<IndexRange> queries_, keys_, hidden_, vocabulary_;
};

models::LLaMA& checked_model(nn::Module& model, const ProcessGroup& group) {
  auto* const llama = dynamic_cast<models::LLaMA*>(&model);
  check_as<TypeError>(llama, "shard_model: expected a models::LLaMA, got a ", model.name());
  const models::LLaMAConfig& config = llama->config();
  const int64_t ranks = group.size();
  check_as<ValueError>(ranks <= config.num_attention_heads, "shard_model: a model with ",
                       config.num_attention_heads, " attention heads cannot be divided over ",
                       ranks, " ranks");
  check_as<ValueError>(ranks <= config.intermediate_size && ranks <= config.vocab_size,
                       "shard_model: a feed-forward size of ", config.intermediate_size,
                       " and a vocabulary of ", config.vocab_size, " cannot be divided over ",
                       ranks, " ranks");
  check_as<NotImplementedError>(config.attention_dropout == 0,
                                "shard_model: attention_dropout must be 0, got ",
                                config.attention_dropout);
  return *llama;
}

std::string_view name(const ParameterPart& part) {
  if (part.placement == Placement::replicated) return "replicated";
  if (part.placement == Placement::first_only) return "on rank 0";
  return part.dim == 0 ? "divided along dim 0" : "divided along dim 1";
}

}  // namespace

class TensorParallel::Impl {
 public:
  Impl(nn::Module& model, TensorParallelOptions given)
      : group(given.group ? given.group : world()), model(checked_model(model, *group)) {
    if (group->size() > 1) {
      check_same_parameters(model, *group);
      broadcast_from_first(model, *group);
    }
    const Plan plan(this->model.config(), group->size());
    for (const auto& [name, parameter] : model.named_parameters())
      parts.push_back(plan.part(name, parameter));
    for (const ParameterPart& part : parts) {
      part.parameter.set_grad({});
      part.parameter.set_data(part_of_whole(part, part.parameter.detach(), group->rank()));
    }
    state = attach_tensor_parallel(this->model, parts, group, given.sequence_parallel);
  }

  std::shared_ptr<ProcessGroup> group;
  models::LLaMA& model;
  std::vector<ParameterPart> parts;
  std::shared_ptr<TensorParallelState> state;

  std::vector<Tensor> grads() const {
    std::vector<Tensor> all;
    for (const ParameterPart& part : parts)
      if (part.parameter.grad().defined()) all.push_back(part.parameter.grad());
    return all;
  }
};

TensorParallel::TensorParallel(nn::Module& model, TensorParallelOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}
TensorParallel::~TensorParallel() = default;
TensorParallel::TensorParallel(TensorParallel&&) noexcept = default;
TensorParallel& TensorParallel::operator=(TensorParallel&&) noexcept = default;

ProcessGroup& TensorParallel::group() const { return *impl_->group; }
const std::vector<ParameterPart>& TensorParallel::parts() const { return impl_->parts; }

const ParameterPart* TensorParallel::find_part(const std::string& name) const {
  const auto found = std::ranges::find(impl_->parts, name, &ParameterPart::name);
  return found == impl_->parts.end() ? nullptr : &*found;
}

StateDict TensorParallel::whole_state_dict() const {
  const StateDict local = impl_->model.state_dict();
  StateDict whole;
  for (const auto& [name, tensor] : local) {
    const ParameterPart* const part = find_part(name);
    whole.insert(name, part ? gather_whole(*part, tensor, group()) : tensor);
  }
  return whole;
}

void TensorParallel::load_whole_state_dict(const StateDict& state) {
  StateDict local;
  for (const auto& [name, tensor] : state) {
    const ParameterPart* const part = find_part(name);
    local.insert(name,
                 part && tensor.defined() ? part_of_whole(*part, tensor, group().rank()) : tensor);
  }
  impl_->model.load_state_dict(local);
}

void TensorParallel::with_whole_parameters(const std::function<void()>& body) {
  std::vector<Tensor> local;
  for (const ParameterPart& part : impl_->parts) {
    local.push_back(shallow_detach(part.parameter));
    part.parameter.set_data(gather_whole(part, local.back(), group()));
  }
  const auto restore = [&] {
    for (size_t i = 0; i < local.size(); ++i) impl_->parts[i].parameter.set_data(local[i]);
    impl_->state->suspended = false;
  };
  impl_->state->suspended = true;
  try {
    body();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

Tensor TensorParallel::clip_grad_norm_(double max_norm, double norm_type) {
  check_as<ValueError>(norm_type > 0, "clip_grad_norm_: norm_type must be positive, got ",
                       norm_type);
  const no_grad silent;
  std::vector<Tensor> own;
  for (const ParameterPart& part : impl_->parts) {
    if (!part.parameter.grad().defined()) continue;
    const Tensor here = counted(part, part.parameter.grad(), group().rank());
    if (here.defined()) own.push_back(here);
  }
  const Tensor& first = impl_->parts.front().parameter;
  const Tensor total = norm_over_ranks(own, norm_type, first.device(), first.dtype(), group());
  clip_by_total(impl_->grads(), total, max_norm);
  return total;
}

void TensorParallel::share_overflow() {
  const no_grad silent;
  spread_overflow(impl_->grads(), impl_->parts.front().parameter.device(), group());
}

std::string TensorParallel::describe() const {
  std::string text;
  for (const ParameterPart& part : impl_->parts)
    append(text, concat(part.name, ": ", part.sizes, ", ", name(part), ", here ",
                        part.parameter.sizes(), "\n"));
  return text;
}

TensorParallel shard_model(nn::Module& model, TensorParallelOptions options) {
  return TensorParallel(model, std::move(options));
}

TensorParallel shard_model(nn::Module& model, int ranks) {
  return TensorParallel(model, {.group = split_world(ranks).tensor});
}

ParallelGroups split_world(int tensor_ranks) {
  const std::shared_ptr<ProcessGroup> all = world();
  check_as<ValueError>(tensor_ranks >= 1 && all->size() % tensor_ranks == 0, "a world of ",
                       all->size(), " ranks cannot be divided into groups of ", tensor_ranks);
  return {all->split(all->rank() / tensor_ranks), all->split(all->rank() % tensor_ranks)};
}

}  // namespace tensora::distributed
