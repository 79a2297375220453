#include "tensora/distributed/data_parallel.h"

#include <algorithm>
#include <unordered_map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/core/determinism.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/distributed/block_schedule.h"
#include "tensora/distributed/gradient_norm.h"
#include "tensora/distributed/gradient_reducer.h"
#include "tensora/distributed/parameter_check.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/multi_tensor.h"

namespace tensora::distributed {
namespace {

void check_options(const DataParallelOptions& options) {
  check(options.zero_stage >= 0 && options.zero_stage <= 3,
        "data_parallel: zero_stage must be 0, 1, 2 or 3, got ", options.zero_stage);
  check(options.first_bucket_bytes >= 0 && options.bucket_bytes >= 0,
        "data_parallel: the sizes of buckets must not be negative, got ",
        options.first_bucket_bytes, " and ", options.bucket_bytes);
  check(options.zero_stage < 3 || (options.first_bucket_bytes == 0 && options.bucket_bytes == 0),
        "data_parallel: at zero_stage 3 the buckets are the blocks; first_bucket_bytes and "
        "bucket_bytes must be 0, got ",
        options.first_bucket_bytes, " and ", options.bucket_bytes);
  check(!options.wire_dtype || *options.wire_dtype == kBFloat16 || *options.wire_dtype == kFloat16,
        "data_parallel: wire_dtype must be bfloat16 or float16, got ",
        options.wire_dtype.value_or(kFloat32));
  check(options.blocks.empty() || options.zero_stage == 3,
        "data_parallel: blocks belong to zero_stage 3, got ", options.zero_stage);
}

// Splits slots by dtype and device.
std::vector<std::vector<Slot*>> alike(const std::vector<size_t>& members,
                                      const std::vector<std::unique_ptr<Slot>>& slots) {
  std::vector<std::vector<Slot*>> lists;
  for (const size_t i : members) {
    Slot* const slot = slots[i].get();
    auto list = std::find_if(lists.begin(), lists.end(), [&](const std::vector<Slot*>& other) {
      return other[0]->param.dtype() == slot->param.dtype() &&
             other[0]->param.device() == slot->param.device();
    });
    if (list == lists.end()) list = lists.emplace(lists.end());
    list->push_back(slot);
  }
  return lists;
}

// Whether a parameter has a block of its own, because it can be sent from where it is. On a GPU
// calls cost more than copies do, so that only what fills a bucket stays alone.
bool is_block(const Slot& slot, int ranks) {
  const int64_t least = slot.param.is_cpu() ? int64_t{1} << 18 : int64_t{25} << 20;
  return static_cast<int64_t>(slot.param.nbytes()) >= least &&
         ShardedBlock::gathers_in_place(slot, ranks);
}

// Stages 1 and 2.
std::vector<std::unique_ptr<ShardedBlock>> blocks_of(
    const std::vector<std::unique_ptr<Slot>>& slots, const std::shared_ptr<ProcessGroup>& group) {
  constexpr int64_t kBytes = int64_t{25} << 20;
  std::vector<std::unique_ptr<ShardedBlock>> blocks;
  std::vector<BucketItem> items;
  std::vector<size_t> small;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Tensor& param = slots[i]->param;
    if (is_block(*slots[i], group->size())) {
      blocks.push_back(
          std::make_unique<ShardedBlock>(std::vector<Slot*>{slots[i].get()}, group, false));
      continue;
    }
    items.push_back({static_cast<int64_t>(param.nbytes()), param.dtype(), param.device()});
    small.push_back(i);
  }
  for (std::vector<size_t>& members : plan_buckets(items, kBytes, kBytes)) {
    for (size_t& member : members) member = small[member];
    for (std::vector<Slot*>& list : alike(members, slots))
      blocks.push_back(std::make_unique<ShardedBlock>(list, group, false));
  }
  return blocks;
}

// Stage 3: the members of a module that are gathered in one call each.
std::vector<std::vector<Slot*>> lists_of(const std::vector<size_t>& members,
                                         const std::vector<std::unique_ptr<Slot>>& slots,
                                         int ranks) {
  std::vector<std::vector<Slot*>> lists;
  std::vector<size_t> small;
  for (const size_t i : members) {
    if (slots[i]->param.is_cpu() && is_block(*slots[i], ranks))
      lists.push_back({slots[i].get()});
    else
      small.push_back(i);
  }
  for (std::vector<Slot*>& list : alike(small, slots)) lists.push_back(std::move(list));
  return lists;
}

constexpr std::string_view kElementwise[] = {"SGD",   "Adam",    "AdamW",   "Adamax",   "NAdam",
                                             "RAdam", "RMSprop", "Adagrad", "Adadelta", "Lion"};

}  // namespace

double DataParallelReport::overlap() const {
  if (communication_seconds <= 0) return 1;
  return std::max(0.0, 1 - exposed_seconds / communication_seconds);
}

class DataParallel::Impl {
 public:
  Impl(nn::Module& model, DataParallelOptions given) : model_(model), options_(std::move(given)) {
    check_options(options_);
    if (!options_.group) options_.group = world();
    for (const auto& [name, param] : model.named_parameters()) {
      if (!param.requires_grad()) continue;
      check(is_dense(param.sizes(), param.strides()), "data_parallel: parameter '", name,
            "' of shape ", param.sizes(), " with strides ", param.strides(), " is not dense");
      slots_.push_back(std::make_unique<Slot>(Slot{name, param}));
      slots_.back()->turn = static_cast<int>(slots_.size()) - 1;
      slots_.back()->range = {0, param.numel()};
    }
    check(!slots_.empty(), "data_parallel: the model has no parameter that requires a gradient");
    if (is_alone()) return;
    check_same_parameters(model, *options_.group);
    broadcast_from_first(model, *options_.group);
    divide();
  }

  bool is_alone() const { return options_.group->size() == 1; }
  bool is_sharded() const { return options_.zero_stage > 0 && !is_alone(); }
  const DataParallelOptions& options() const { return options_; }
  ProcessGroup& group() const { return *options_.group; }
  GradientReducer* reducer() { return reducer_.get(); }
  BlockSchedule* schedule() { return schedule_.get(); }
  const std::vector<std::unique_ptr<Slot>>& slots() const { return slots_; }

  void shard(optim::Optimizer& optimizer);
  Tensor clip(double max_norm, double norm_type);
  void share_overflow();

 private:
  void divide();
  void after_optimizer_step();
  Tensor total_norm(double norm_type);
  Tensor exact_norm(double norm_type);

  nn::Module& model_;
  DataParallelOptions options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<ShardedBlock>> blocks_;  // stages 1 and 2
  std::unique_ptr<BlockSchedule> schedule_;            // stage 3
  std::unique_ptr<GradientReducer> reducer_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // ends with this object
};

void DataParallel::Impl::divide() {
  std::vector<std::vector<size_t>> fixed;
  if (options_.zero_stage == 3) {
    std::vector<BlockSchedule::Unit> units;
    for (const ModuleSlots& module : slots_by_module(model_, options_.blocks, slots_)) {
      BlockSchedule::Unit unit{.module = module.module, .blocks = {}};
      for (std::vector<Slot*>& list : lists_of(module.slots, slots_, group().size())) {
        std::vector<size_t>& members = fixed.emplace_back();
        for (const Slot* slot : list) members.push_back(static_cast<size_t>(slot->turn));
        unit.blocks.push_back(std::make_unique<ShardedBlock>(list, options_.group, true));
      }
      units.push_back(std::move(unit));
    }
    std::reverse(fixed.begin(), fixed.end());  // backward reaches the last block first
    schedule_ = std::make_unique<BlockSchedule>(std::move(units));
  } else if (options_.zero_stage > 0) {
    blocks_ = blocks_of(slots_, options_.group);
  }
  reducer_ = std::make_unique<GradientReducer>(slots_, options_, std::move(fixed));
  if (!schedule_) return;
  reducer_->set_on_bucket(
      [this](const std::vector<Slot*>& slots) { schedule_->on_gradients(slots); });
  reducer_->set_on_end([this] { schedule_->release_all(); });
}

void DataParallel::Impl::after_optimizer_step() {
  if (schedule_) return schedule_->release_all();
  for (const std::unique_ptr<ShardedBlock>& block : blocks_) {
    block->begin_gather();
    reducer_->report().bytes += block->bytes();
  }
  for (const std::unique_ptr<ShardedBlock>& block : blocks_) block->gather();
}

void DataParallel::Impl::shard(optim::Optimizer& optimizer) {
  if (!is_sharded()) return;
  const bool known = std::ranges::find(kElementwise, optimizer.name()) != std::end(kElementwise);
  check(known, "data_parallel: ", optimizer.name(),
        " does not treat every element alike, so it cannot step shards; use zero_stage 0");
  std::unordered_map<Tensor, const Slot*> by_param;
  for (const std::unique_ptr<Slot>& slot : slots_) by_param[slot->param] = slot.get();
  std::vector<std::vector<Tensor>> replaced;
  for (const optim::ParamGroup& group : optimizer.param_groups()) {
    std::vector<Tensor>& shards = replaced.emplace_back();
    for (const Tensor& param : group.params) {
      check(!optimizer.has_state(param), "data_parallel: the optimizer has stepped already; shard ",
            "it before its first step");
      const auto found = by_param.find(param);
      if (found == by_param.end()) {
        check(!param.requires_grad(), "data_parallel: a parameter of the optimizer, of shape ",
              param.sizes(), ", is not one of the model");
        continue;
      }
      shards.push_back(found->second->shard);
    }
  }
  for (size_t i = 0; i < replaced.size(); ++i)
    optimizer.param_groups()[i].params = std::move(replaced[i]);
  // The optimizer may outlive this object, or the other way round.
  const std::weak_ptr<bool> alive = alive_;
  optimizer.register_step_pre_hook([alive](optim::Optimizer&) {
    check(!alive.expired(),
          "data_parallel: the optimizer steps the shards of a DataParallel that is gone");
  });
  optimizer.register_step_post_hook([this, alive](optim::Optimizer&) {
    if (!alive.expired()) after_optimizer_step();
  });
}

// The norm of the whole gradients, as one process computes it.
Tensor DataParallel::Impl::exact_norm(double norm_type) {
  std::vector<Tensor> grads;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    const bool local = slot->shard.grad().defined();
    std::vector<Slot*> one{slot.get()};
    const ChunkLayout layout = layout_of(one, group().size());
    const TensorOptions like{.dtype = slot->shard.dtype(), .device = slot->shard.device()};
    const Tensor chunk = zeros({layout.chunk() + 1}, like);  // and whether there is a gradient
    if (local && slot->range.size() > 0)
      part_of(chunk, 0, slot->range.size()).copy_(slot->shard.grad());
    if (local) part_of(chunk, layout.chunk(), 1).fill_(1);
    const Tensor chunks = empty({(layout.chunk() + 1) * group().size()}, like);
    group().all_gather(data_of(chunks), data_of(chunk))->wait();
    const Tensor rows = chunks.view({group().size(), layout.chunk() + 1});
    if (rows.select(1, layout.chunk()).sum().item<double>() == 0) continue;
    const Tensor whole = empty({slot->param.numel()}, like);
    for (int rank = 0; rank < group().size(); ++rank) {
      const ChunkLayout::Piece& piece = layout.piece(0, rank);
      if (piece.range.size() > 0)
        part_of(whole, piece.range.begin, piece.range.size())
            .copy_(rows[rank].narrow(0, 0, piece.range.size()));
    }
    grads.push_back(whole);
  }
  return get_total_norm(grads, norm_type);
}

Tensor DataParallel::Impl::total_norm(double norm_type) {
  if (is_deterministic()) return exact_norm(norm_type);
  std::vector<Tensor> grads;
  for (const std::unique_ptr<Slot>& slot : slots_)
    if (slot->shard.grad().defined()) grads.push_back(slot->shard.grad());
  return norm_over_ranks(grads, norm_type, slots_.front()->shard.device(),
                         slots_.front()->shard.dtype(), group());
}

Tensor DataParallel::Impl::clip(double max_norm, double norm_type) {
  const no_grad silent;
  if (!is_sharded()) {
    std::vector<Tensor> params;
    for (const std::unique_ptr<Slot>& slot : slots_) params.push_back(slot->param);
    return tensora::clip_grad_norm_(params, max_norm, norm_type);
  }
  check(norm_type > 0, "clip_grad_norm_: norm_type must be positive, got ", norm_type);
  const Tensor total = total_norm(norm_type);
  std::vector<Tensor> grads;
  for (const std::unique_ptr<Slot>& slot : slots_)
    if (slot->shard.grad().defined()) grads.push_back(slot->shard.grad());
  clip_by_total(grads, total, max_norm);
  return total;
}

void DataParallel::Impl::share_overflow() {
  if (!is_sharded()) return;
  const no_grad silent;
  for (int rank = 0; rank < group().size(); ++rank) {
    const bool has_elements = std::ranges::any_of(slots_, [&](const auto& slot) {
      return shard_range(slot->param.numel(), group().size(), rank, slot->turn).size() > 0;
    });
    check_as<NotImplementedError>(has_elements, "data_parallel: share_overflow: the model is so ",
                                  "small that rank ", rank, " has no element of it, and could not ",
                                  "leave the step out; use zero_stage 0");
  }
  std::vector<Tensor> grads;
  for (const std::unique_ptr<Slot>& slot : slots_)
    if (slot->shard.grad().defined()) grads.push_back(slot->shard.grad());
  spread_overflow(grads, slots_.front()->shard.device(), group());
}

DataParallel::DataParallel(nn::Module& model, DataParallelOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}
DataParallel::~DataParallel() = default;
DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;

ProcessGroup& DataParallel::group() const { return impl_->group(); }
int DataParallel::zero_stage() const { return impl_->options().zero_stage; }
void DataParallel::shard(optim::Optimizer& optimizer) { impl_->shard(optimizer); }
Tensor DataParallel::clip_grad_norm_(double max_norm, double norm_type) {
  return impl_->clip(max_norm, norm_type);
}
void DataParallel::share_overflow() { impl_->share_overflow(); }

void DataParallel::join(const std::function<void()>& step) {
  check(zero_stage() < 3 || impl_->is_alone(),
        "data_parallel: join: at stage 3 every forward needs all ranks; give them equally many "
        "batches");
  if (impl_->is_alone()) return;
  while (impl_->reducer()->shadow_step()) step();
}

void DataParallel::reload_shards() {
  if (impl_->schedule()) impl_->schedule()->reload_shards();
}

DataParallelReport DataParallel::report() const {
  return impl_->is_alone() ? DataParallelReport() : impl_->reducer()->report();
}
void DataParallel::reset_report() {
  if (!impl_->is_alone()) impl_->reducer()->report() = {};
}

std::vector<DataParallel::Shard> DataParallel::shards() const {
  std::vector<Shard> all;
  for (const std::unique_ptr<Slot>& slot : impl_->slots())
    all.push_back({slot->name, slot->param, slot->shard, slot->range.begin, slot->range.end});
  return all;
}

DataParallel::NoSync::NoSync(DataParallel& parallel) : parallel_(parallel) {
  GradientReducer* const reducer = parallel.impl_->reducer();
  outer_ = !reducer || reducer->is_synchronizing();
  // At stage 3 no rank has whole gradients: they are reduced and added up shard by shard.
  if (reducer && parallel.zero_stage() < 3) reducer->set_synchronizing(false);
}
DataParallel::NoSync::~NoSync() {
  if (parallel_.impl_->reducer()) parallel_.impl_->reducer()->set_synchronizing(outer_);
}

DataParallel::WholeParameters::WholeParameters(DataParallel& parallel) : parallel_(parallel) {
  if (parallel.impl_->schedule()) parallel.impl_->schedule()->pin();
}
DataParallel::WholeParameters::~WholeParameters() {
  if (parallel_.impl_->schedule()) parallel_.impl_->schedule()->unpin();
}

DataParallel data_parallel(nn::Module& model, DataParallelOptions options) {
  return DataParallel(model, std::move(options));
}
DataParallel fully_shard(nn::Module& model, DataParallelOptions options) {
  options.zero_stage = 3;
  return DataParallel(model, std::move(options));
}

double sum_over_ranks(double value, ProcessGroup& group) {
  const bool on_gpu = group.backend() == "nccl";
  const Tensor sum = full({1}, value, {.dtype = kFloat64})
                         .to(on_gpu ? Device(DeviceType::cuda) : Device(DeviceType::cpu));
  group.all_reduce(data_of(sum))->wait();
  return sum.item<double>();
}

}  // namespace tensora::distributed
