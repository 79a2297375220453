#include "tensora/distributed/gradient_reducer.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

// Ends a step with the backward that began it. A backward that throws drops its callbacks.
class GradientReducer::StepGuard {
 public:
  explicit StepGuard(GradientReducer& reducer) : reducer_(&reducer) {}
  ~StepGuard() {
    if (reducer_) reducer_->abandon_step();
  }
  StepGuard(const StepGuard&) = delete;
  StepGuard& operator=(const StepGuard&) = delete;

  void finish() {
    reducer_->finish_step();
    reducer_ = nullptr;
  }

 private:
  GradientReducer* reducer_;
};

GradientReducer::GradientReducer(std::vector<std::unique_ptr<Slot>>& slots,
                                 const DataParallelOptions& options,
                                 std::vector<std::vector<size_t>> fixed)
    : slots_(slots),
      options_(options),
      group_(options.group),
      fixed_(std::move(fixed)),
      device_(slots.front()->device()) {
  std::vector<size_t> order(slots_.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  make_buckets(order);
  agreed_ = !fixed_.empty();
  for (size_t i = 0; i < slots_.size(); ++i)
    removers_.push_back(slots_[i]->param.register_post_accumulate_grad_hook(
        [this, i](const Tensor&) { on_gradient(i); }));
}

GradientReducer::~GradientReducer() {
  for (const std::function<void()>& remove : removers_) remove();
}

void GradientReducer::make_buckets(std::span<const size_t> order) {
  std::vector<std::vector<size_t>> plan = fixed_;
  if (plan.empty()) {
    std::vector<BucketItem> items;
    for (const size_t i : order) {
      const Tensor& param = slots_[i]->param;
      items.push_back({static_cast<int64_t>(param.nbytes()), param.dtype(), param.device()});
    }
    const int64_t bytes = options_.bucket_bytes > 0 ? options_.bucket_bytes
                                                    : (on_cpu() ? 2 : 25) * (int64_t{1} << 20);
    const int64_t first = options_.first_bucket_bytes > 0 ? options_.first_bucket_bytes : 1 << 20;
    plan = plan_buckets(items, std::min(first, bytes), bytes);
    for (std::vector<size_t>& bucket : plan)
      for (size_t& item : bucket) item = order[item];
  }
  const BucketOptions bucket_options{.sharded = options_.zero_stage > 0,
                                     .keep_memory = options_.zero_stage <= 1,
                                     .adopt = options_.reduction == GradientReduction::mean,
                                     .wire_dtype = options_.wire_dtype};
  buckets_.clear();
  places_.assign(slots_.size(), {});
  for (std::vector<size_t>& members : plan) {
    std::vector<Slot*> pointers;
    for (size_t i = 0; i < members.size(); ++i) {
      places_[members[i]] = {buckets_.size(), i};
      pointers.push_back(slots_[members[i]].get());
    }
    buckets_.push_back(std::make_unique<GradientBucket>(pointers, group_, bucket_options));
  }
}

void GradientReducer::begin_step() {
  in_step_ = true;
  next_ = 0;
}

void GradientReducer::on_gradient(size_t slot) {
  if (!synchronizing_) {
    if (on_end_ && !in_step_) {
      in_step_ = true;
      queue_callback([this] { end_step(); });
    }
    return;
  }
  if (!in_step_) {
    begin_step();
    finished_ = false;  // as it was at the end of the last epoch
    const auto guard = std::make_shared<StepGuard>(*this);
    queue_callback([guard] { guard->finish(); });
  }
  const Place place = places_[slot];
  GradientBucket& bucket = *buckets_[place.bucket];
  check(options_.reduction == GradientReduction::mean || options_.zero_stage > 0 ||
            !(bucket.holds(slots_[slot]->param.grad()) || was_reduced(slots_[slot]->param.grad())),
        "data_parallel: the gradient of '", slots_[slot]->name,
        "' still has the sum of an earlier backward, which would be summed again; call zero_grad() "
        "first, or accumulate within no_sync()");
  bucket.put(place.index);
  if (!agreed_) ready_order_.push_back(slot);
  launch_complete();
}

// Whether the gradient is a result of the first step, whose buckets are gone.
bool GradientReducer::was_reduced(const Tensor& grad) const {
  return std::ranges::any_of(first_buckets_,
                             [&](const auto& bucket) { return bucket->holds(grad); });
}

void GradientReducer::launch_complete() {
  // A mean that the device has to correct is a sum until then.
  const bool mean = options_.reduction == GradientReduction::mean && on_cpu();
  while (next_ < buckets_.size() && buckets_[next_]->is_complete()) {
    GradientBucket& bucket = *buckets_[next_++];
    bucket.launch(mean ? ReduceOp::average : ReduceOp::sum);
    report_.bytes += bucket.bytes();
    if (on_bucket_) on_bucket_(bucket.slots());
  }
}

void GradientReducer::fill_missing() {
  for (const std::unique_ptr<GradientBucket>& bucket : buckets_)
    for (size_t i = 0; i < bucket->slots().size(); ++i) {
      const Slot& slot = *bucket->slots()[i];
      if (slot.ready) continue;
      // It may have a gradient of micro-batches that were not synchronized.
      const bool earlier =
          !finished_ && slot.param.grad().defined() &&
          !(bucket->holds(slot.param.grad()) && options_.reduction == GradientReduction::sum);
      if (earlier)
        bucket->put(i);
      else
        bucket->put_zeros(i);
    }
}

void GradientReducer::reduce_control() {
  std::vector<float> control;
  for (const std::unique_ptr<Slot>& slot : slots_) control.push_back(slot->used ? 1.0F : 0.0F);
  control.push_back(finished_ ? 1.0F : 0.0F);
  // Usually it is the same in every step: nothing has to be sent to the device.
  if (control != sent_control_) own_control_ = tensor(control, {.dtype = kFloat32}).to(device_);
  sent_control_ = std::move(control);
  control_ = own_control_.clone();
  control_work_ = group_->all_reduce(data_of(control_));
}

std::vector<float> GradientReducer::read_control() {
  const bool all_used = std::ranges::all_of(slots_, [](const auto& slot) { return slot->used; });
  if (!on_cpu() && all_used && !options_.strict)
    return std::vector<float>(slots_.size(), static_cast<float>(group_->size()));
  return to_vector<float>(control_);
}

void GradientReducer::apply_scale(const std::vector<float>& control) {
  if (options_.reduction == GradientReduction::sum) return;
  const auto ranks = static_cast<double>(group_->size());
  if (!on_cpu()) {
    const Tensor working = ranks - control_.narrow(0, static_cast<int64_t>(slots_.size()), 1);
    const Tensor factor = working.clamp_min(1).reciprocal();
    for (const std::unique_ptr<GradientBucket>& bucket : buckets_) bucket->scale(factor);
    return;
  }
  const double working = ranks - static_cast<double>(control.back());
  if (working == ranks || working == 0) return;
  for (const std::unique_ptr<GradientBucket>& bucket : buckets_) bucket->scale(ranks / working);
}

void GradientReducer::hand_out(const std::vector<float>& control) {
  std::string differing;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Place place = places_[i];
    if (control[i] > 0) buckets_[place.bucket]->hand_out(place.index);
    const bool equal = control[i] == 0 || control[i] == static_cast<float>(group_->size());
    if (options_.strict && !equal) differing += (differing.empty() ? "" : ", ") + slots_[i]->name;
  }
  check(differing.empty(),
        "data_parallel: some ranks used these parameters in this step and others did not: ",
        differing);
}

void GradientReducer::finish_step() {
  const no_grad silent;
  fill_missing();
  launch_complete();
  reduce_control();
  const Clock::time_point start = Clock::now();
  for (const std::unique_ptr<GradientBucket>& bucket : buckets_) {
    bucket->wait();
    report_.communication_seconds += bucket->seconds();
  }
  control_work_->wait();
  report_.exposed_seconds += seconds_since(start);
  ++report_.steps;
  const std::vector<float> control = read_control();
  apply_scale(control);
  hand_out(control);
  for (const std::unique_ptr<GradientBucket>& bucket : buckets_) bucket->reset();
  first_buckets_.clear();
  if (!agreed_) agree_on_order();
  end_step();
}

void GradientReducer::end_step() {
  in_step_ = false;
  if (on_end_) on_end_();
}

void GradientReducer::agree_on_order() {
  std::vector<int64_t> order;
  std::vector<bool> seen(slots_.size(), false);
  for (const size_t slot : ready_order_) {
    order.push_back(static_cast<int64_t>(slot));
    seen[slot] = true;
  }
  for (size_t i = slots_.size(); i-- > 0;)
    if (!seen[i]) order.push_back(static_cast<int64_t>(i));
  const Device at = device_.is_meta() ? Device(DeviceType::cpu) : device_;  // the host reads it
  const Tensor sent = tensor(order, {.dtype = kInt64}).to(at);
  group_->broadcast(data_of(sent), 0)->wait();
  std::vector<size_t> agreed;
  for (const int64_t slot : to_vector<int64_t>(sent)) agreed.push_back(static_cast<size_t>(slot));
  first_buckets_ = std::move(buckets_);
  make_buckets(agreed);
  ready_order_.clear();
  agreed_ = true;
}

void GradientReducer::abandon_step() {
  // The other ranks wait for the rest of the buckets, which will not come.
  if (std::ranges::any_of(buckets_, [](const auto& bucket) { return bucket->is_under_way(); }))
    group_->abort_group(
        concat("rank ", group_->rank(), ": backward failed while gradients were being reduced"));
  for (const std::unique_ptr<GradientBucket>& bucket : buckets_) bucket->abandon();
  in_step_ = false;
}

bool GradientReducer::shadow_step() {
  finished_ = true;
  begin_step();
  finish_step();
  return to_vector<float>(control_).back() < static_cast<float>(group_->size());
}

}  // namespace tensora::distributed
