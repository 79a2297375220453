#include "tensora/distributed/training_ranks.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/report.h"
#include "tensora/distributed/sharded_checkpoints.h"
#include "tensora/ops.h"

namespace tensora::distributed {

TrainingRanks::TrainingRanks(DataParallelOptions options, TensorRanks tensor)
    : options_(std::move(options)), tensor_ranks_(tensor) {
  const bool in_world = !options_.group;
  if (in_world) options_.group = world();
  all_ = options_.group;
  if (tensor.count == 1) return;
  check_as<NotImplementedError>(in_world && options_.zero_stage == 0,
                                "TrainingRanks: tensor parallel ranks go with the world and with "
                                "zero_stage 0, got stage ",
                                options_.zero_stage);
  const ParallelGroups groups = split_world(tensor.count);
  tensor_group_ = groups.tensor;
  options_.group = groups.data;
}
TrainingRanks::~TrainingRanks() = default;

void TrainingRanks::attach(nn::Module& model, optim::Optimizer& optimizer) {
  model_ = &model;
  optimizer_ = &optimizer;
  if (tensor_group_)
    tensor_ = std::make_unique<TensorParallel>(
        model, TensorParallelOptions{.group = tensor_group_,
                                     .sequence_parallel = tensor_ranks_.sequence_parallel});
  parallel_ = std::make_unique<DataParallel>(model, options_);
  parallel_->shard(optimizer);
}

void TrainingRanks::backward(const Tensor& loss, bool last) {
  if (last) return loss.backward();
  const auto scope = parallel_->no_sync();
  loss.backward();
}

Tensor TrainingRanks::clip_grad_norm_(double max_norm) {
  return tensor_ ? tensor_->clip_grad_norm_(max_norm) : parallel_->clip_grad_norm_(max_norm);
}
void TrainingRanks::share_overflow() {
  if (tensor_)
    tensor_->share_overflow();
  else
    parallel_->share_overflow();
}

Tensor TrainingRanks::mean(const Tensor& number) {
  const no_grad silent;
  const Tensor sum = number.detach().to(kFloat32).clone();
  options_.group->all_reduce(data_of(sum), ReduceOp::average)->wait();
  return sum;
}

bool TrainingRanks::any(bool value) { return sum_over_ranks(value ? 1 : 0, *all_) > 0; }

void TrainingRanks::evaluate(const std::function<void()>& body) {
  if (tensor_)
    body();
  else
    with_whole_parameters(body);
}

void TrainingRanks::with_whole_parameters(const std::function<void()>& body) {
  if (tensor_) return tensor_->with_whole_parameters(body);
  const auto whole = parallel_->whole_parameters();
  body();
}

void TrainingRanks::save(const std::string& folder, int64_t step, int keep_last,
                         const Value& extra) {
  ShardedCheckpoints(folder, keep_last)
      .save(step, *model_, *parallel_, *optimizer_, extra, tensor_.get());
}

std::optional<std::pair<int64_t, Value>> TrainingRanks::restore(const std::string& folder) {
  const auto loaded =
      ShardedCheckpoints(folder).load_latest(*model_, *parallel_, *optimizer_, tensor_.get());
  if (!loaded) return {};
  for (const std::string& reason : loaded->skipped)
    if (is_first()) report(concat("a newer checkpoint was skipped: ", reason));
  return std::pair(loaded->step, loaded->extra);
}

}  // namespace tensora::distributed
