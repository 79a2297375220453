#include "tensora/distributed/pipeline_ranks.h"

#include <algorithm>

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/gradient_norm.h"
#include "tensora/distributed/report.h"
#include "tensora/distributed/sharded_checkpoints.h"
#include "tensora/distributed/sharded_tensor.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

// The rank whose stage has a parameter.
int owner_of(std::string_view name, int64_t layers, int ranks) {
  constexpr std::string_view kLayers = "model.layers.";
  if (name.starts_with("model.embed_tokens.")) return 0;
  if (!name.starts_with(kLayers)) return ranks - 1;
  const int64_t layer = std::stoll(std::string(name.substr(kLayers.size())));
  for (int rank = 0;; ++rank) {
    const DimRange mine = dim_range(layers, ranks, rank);
    if (layer < mine.begin + mine.size) return rank;
  }
}

// Gives `state` the structure of another parameter's: its numbers, and tensors to be filled.
void take_structure(Value& state, const Value& known, const Shape& known_sizes,
                    const Tensor& parameter) {
  if (state.is_none()) state = Value::dict();
  for (const auto& [key, value] : known.to_dict()) {
    if (!value.is_tensor()) {
      state[key] = value;
      continue;
    }
    const Tensor& tensor = value.to_tensor();
    if (!state.contains(key))
      state[key] = tensor.sizes() == known_sizes ? zeros_like(parameter, {.dtype = tensor.dtype()})
                                                 : tensor.clone();
  }
}

}  // namespace

PipelineRanks::PipelineRanks(std::string schedule, std::shared_ptr<ProcessGroup> group)
    : schedule_(std::move(schedule)), group_(group ? std::move(group) : world()) {
  ends_ = group_->split(is_first() || is_last() ? 0 : 1);
}
PipelineRanks::~PipelineRanks() = default;

void PipelineRanks::attach(nn::Module& model, optim::Optimizer& optimizer) {
  model_ = dynamic_cast<models::LLaMA*>(&model);
  check_as<TypeError>(model_, "PipelineRanks: expected a models::LLaMA, got a ", model.name());
  const models::LLaMAConfig& config = model_->config();
  check_as<ValueError>(config.num_hidden_layers >= group_->size(),
                       "PipelineRanks: ", config.num_hidden_layers,
                       " layers cannot be divided among ", group_->size(), " ranks");
  check_as<NotImplementedError>(config.attention_dropout == 0,
                                "PipelineRanks: attention_dropout must be 0, got ",
                                config.attention_dropout);
  optimizer_ = &optimizer;
  const DimRange mine = dim_range(config.num_hidden_layers, group_->size(), group_->rank());
  first_layer_ = mine.begin;
  end_layer_ = mine.begin + mine.size;
  for (const auto& [name, parameter] : model_->named_parameters())
    parameters_.push_back({parameter, owner_of(name, config.num_hidden_layers, group_->size())});
  DataParallel same(model, {.group = group_});  // compares the models and takes rank 0's values
}

void PipelineRanks::backward(const Tensor& /*loss*/, bool /*last*/) {
  fail("PipelineRanks: micro-batches go through the ranks together");
}

// As LLaMABody does.
Tensor PipelineRanks::stage(const Tensor& input) const {
  const models::LLaMABody& body = model_->model;
  Tensor sum = is_first() ? body.embed_tokens(input) : input, branch;
  for (int64_t i = first_layer_; i < end_layer_; ++i) {
    const nn::TransformerBlock& block = body.layers[i];
    if (model_->checkpoint_activations)
      sum = checkpoint([block](const Tensor& x) { return block(x); }, sum);
    else
      std::tie(sum, branch) = block.forward_parts(sum, branch);
  }
  if (is_last()) return std::get<0>(nn::add_norm(body.norm, branch, sum));
  return branch.defined() ? sum + branch : sum;
}

Tensor PipelineRanks::pass(const std::vector<train::MicroBatch>& batches) {
  const int count = static_cast<int>(batches.size());
  if (!pipeline_ || pipeline_->schedule().micro_batches != count)
    pipeline_ = std::make_unique<Pipeline>(
        std::vector<Pipeline::Stage>{[this](const Tensor& input) { return stage(input); }},
        PipelineOptions{.group = group_, .schedule = schedule_, .micro_batches = count});
  Tensor input;
  if (is_first()) {
    TensorList inputs;
    for (const train::MicroBatch& batch : batches) inputs.push_back(batch.inputs);
    input = cat(inputs);
  }
  const auto loss = [&](const Tensor& hidden, int i) {
    const Tensor& targets = batches[static_cast<size_t>(i)].targets;
    return nn::linear_cross_entropy(hidden, model_->head_weight(), targets) / double(count);
  };
  const Tensor losses = pipeline_->step(input, loss);
  if (is_tied()) add_tied_gradients();
  const no_grad silent;
  const Tensor total = losses.defined() ? losses.sum().to(kFloat32)
                                        : zeros({}, {.device = batches[0].inputs.device()});
  group_->broadcast(data_of(total), group_->size() - 1)->wait();
  return total;
}

// The embedding is a leaf on the first rank and the head on the last one.
void PipelineRanks::add_tied_gradients() const {
  if (!is_first() && !is_last()) return;
  const no_grad silent;
  const Tensor& weight = model_->head_weight();
  ends_->all_reduce(data_of(weight.grad()))->wait();
}

Tensor PipelineRanks::clip_grad_norm_(double max_norm) {
  std::vector<Tensor> here, counted;
  for (const auto& [parameter, owner] : parameters_) {
    if (!parameter.grad().defined()) continue;
    here.push_back(parameter.grad());
    if (owner == group_->rank()) counted.push_back(parameter.grad());
  }
  const Tensor& any = parameters_[0].parameter;
  const Tensor total = norm_over_ranks(counted, 2, any.device(), any.dtype(), *group_);
  clip_by_total(here, total, max_norm);
  return total;
}

void PipelineRanks::share_overflow() { fail("PipelineRanks: gradients are not scaled"); }

bool PipelineRanks::any(bool value) { return sum_over_ranks(value ? 1 : 0, *group_) > 0; }

void PipelineRanks::share_parameters() const {
  const no_grad silent;
  for (const auto& [parameter, owner] : parameters_)
    group_->broadcast(data_of(parameter), owner)->wait();
}

// The state of a parameter's owner, on all ranks.
void PipelineRanks::share_state() const {
  const no_grad silent;
  const auto known = std::ranges::find_if(parameters_, [&](const Owned& one) {
    return one.owner == group_->rank() && optimizer_->has_state(one.parameter);
  });
  if (known == parameters_.end()) return;  // before the first step, on all ranks
  for (const auto& [parameter, owner] : parameters_) {
    Value& state = optimizer_->state(parameter);
    if (owner != group_->rank())
      take_structure(state, optimizer_->state(known->parameter), known->parameter.sizes(),
                     parameter);
    for (const auto& [key, value] : state.to_dict())
      if (value.is_tensor()) group_->broadcast(data_of(value.to_tensor()), owner)->wait();
  }
}

void PipelineRanks::with_whole_parameters(const std::function<void()>& body) {
  share_parameters();
  body();
}

void PipelineRanks::save(const std::string& folder, int64_t step, int keep_last,
                         const Value& extra) {
  share_parameters();
  share_state();
  DataParallel same(*model_, {.group = group_});
  ShardedCheckpoints(folder, keep_last).save(step, *model_, same, *optimizer_, extra);
}

std::optional<std::pair<int64_t, Value>> PipelineRanks::restore(const std::string& folder) {
  DataParallel same(*model_, {.group = group_});
  const auto loaded = ShardedCheckpoints(folder).load_latest(*model_, same, *optimizer_);
  if (!loaded) return {};
  for (const std::string& reason : loaded->skipped)
    if (is_first()) report(concat("a newer checkpoint was skipped: ", reason));
  return std::pair(loaded->step, loaded->extra);
}

}  // namespace tensora::distributed
