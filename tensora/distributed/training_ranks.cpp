#include "tensora/distributed/training_ranks.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/distributed/sharded_checkpoints.h"
#include "tensora/ops.h"

namespace tensora::distributed {

TrainingRanks::TrainingRanks(DataParallelOptions options) : options_(std::move(options)) {
  if (!options_.group) options_.group = world();
}
TrainingRanks::~TrainingRanks() = default;

void TrainingRanks::attach(nn::Module& model, optim::Optimizer& optimizer) {
  model_ = &model;
  optimizer_ = &optimizer;
  parallel_ = std::make_unique<DataParallel>(model, options_);
  parallel_->shard(optimizer);
}

void TrainingRanks::backward(const Tensor& loss, bool last) {
  if (last) return loss.backward();
  const auto scope = parallel_->no_sync();
  loss.backward();
}

Tensor TrainingRanks::clip_grad_norm_(double max_norm) {
  return parallel_->clip_grad_norm_(max_norm);
}
void TrainingRanks::share_overflow() { parallel_->share_overflow(); }

Tensor TrainingRanks::mean(const Tensor& number) {
  const no_grad silent;
  const Tensor sum = number.detach().to(kFloat32).clone();
  options_.group->all_reduce(sum.impl().view, ReduceOp::average)->wait();
  return sum;
}

bool TrainingRanks::any(bool value) { return sum_over_ranks(value ? 1 : 0, *options_.group) > 0; }

void TrainingRanks::with_whole_parameters(const std::function<void()>& body) {
  const auto whole = parallel_->whole_parameters();
  body();
}

void TrainingRanks::save(const std::string& folder, int64_t step, int keep_last,
                         const Value& extra) {
  ShardedCheckpoints(folder, keep_last).save(step, *model_, *parallel_, *optimizer_, extra);
}

std::optional<std::pair<int64_t, Value>> TrainingRanks::restore(const std::string& folder) {
  const auto loaded = ShardedCheckpoints(folder).load_latest(*model_, *parallel_, *optimizer_);
  if (!loaded) return {};
  return std::pair(loaded->step, loaded->extra);
}

}  // namespace tensora::distributed
