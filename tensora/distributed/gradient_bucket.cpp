#include "tensora/distributed/gradient_bucket.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

constexpr int64_t kAlignment = 64;  // elements; of the beginnings of gradients

}  // namespace

Tensor part_as(const Tensor& data, int64_t begin, const Tensor& like) {
  const no_grad silent;
  return shallow_detach(
      as_strided(data, like.sizes(), like.strides(), data.storage_offset() + begin));
}

Tensor part_of(const Tensor& data, int64_t begin, int64_t count) {
  const no_grad silent;
  return shallow_detach(as_strided(data, {count}, {1}, data.storage_offset() + begin));
}

Tensor flat(const Tensor& dense) {
  const no_grad silent;
  ensure(is_dense(dense.sizes(), dense.strides()), "a tensor of shape ", dense.sizes(),
         " with strides ", dense.strides(), " is not dense");
  return shallow_detach(as_strided(dense.detach(), {dense.numel()}, {1}, dense.storage_offset()));
}

ChunkLayout layout_of(std::span<Slot* const> slots, int ranks) {
  std::vector<ChunkLayout::Array> arrays;
  for (const Slot* slot : slots) arrays.push_back({slot->param.numel(), slot->turn});
  return {arrays, ranks};
}

GradientBucket::GradientBucket(std::vector<Slot*> slots, std::shared_ptr<ProcessGroup> group,
                               const BucketOptions& options)
    : slots_(std::move(slots)), group_(std::move(group)), options_(options) {
  options_.adopt = options_.adopt && slots_.size() == 1;
  if (options_.sharded) {
    layout_ = std::make_unique<ChunkLayout>(layout_of(slots_, group_->size()));
    options_.adopt = slots_.size() == 1 && layout_->is_array();
    elements_ = layout_->chunk() * group_->size();
    return;
  }
  for (const Slot* slot : slots_) {
    const int64_t begin = (elements_ + kAlignment - 1) / kAlignment * kAlignment;
    offsets_.push_back(begin);
    elements_ = begin + slot->param.numel();
  }
}

int64_t GradientBucket::bytes() const {
  return bytes_of(options_.wire_dtype.value_or(slots_.front()->param.dtype()), elements_);
}

void GradientBucket::require_memory() {
  if (memory_.defined()) return;
  const Slot& first = *slots_.front();
  // The gaps between gradients are reduced too, and must be numbers.
  memory_ = zeros({elements_}, {.dtype = first.param.dtype(), .device = first.device()});
}

bool GradientBucket::holds(const Tensor& grad) const {
  return memory_.defined() && memory_.shares_storage(grad);
}

void GradientBucket::put(size_t index) {
  // Under create_graph a gradient may belong to several parameters, and to the graph.
  const bool shared = is_grad_enabled();
  const no_grad silent;
  Slot& slot = *slots_[index];
  Tensor grad = slot.param.grad();
  if (is_sparse(grad)) {  // the ranks have different entries
    grad = dense_of(grad);
    slot.param.set_grad(grad);
  }
  if (grad.requires_grad()) grad = grad.detach();
  slot.ready = slot.used = true;
  ++filled_;
  const bool fits =
      is_dense(grad.sizes(), grad.strides()) && grad.strides() == slot.param.strides();
  if (options_.adopt && fits && !shared) {
    memory_ = flat(grad);
    if (options_.sharded) slot.param.set_grad({});
    return;
  }
  require_memory();
  if (!options_.sharded) {
    if (holds(grad)) return;  // it was added up there
    const Tensor place = part_as(memory_, offsets_[index], slot.param);
    place.copy_(grad);
    slot.param.set_grad(place);
    return;
  }
  if (!fits) {
    Tensor copy = empty_like(slot.param.detach());
    copy.copy_(grad);
    grad = copy;
  }
  const Tensor elements = flat(grad);
  for (int rank = 0; rank < group_->size(); ++rank) {
    const ChunkLayout::Piece& piece = layout_->piece(index, rank);
    if (piece.range.size() == 0) continue;
    part_of(memory_, rank * layout_->chunk() + piece.at, piece.range.size())
        .copy_(part_of(elements, piece.range.begin, piece.range.size()));
  }
  slot.param.set_grad({});
}

void GradientBucket::put_zeros(size_t index) {
  const no_grad silent;
  Slot& slot = *slots_[index];
  slot.ready = true;
  slot.used = false;
  ++filled_;
  if (options_.adopt) {
    memory_ = flat(zeros_like(slot.param.detach()));
    return;
  }
  require_memory();
  if (!options_.sharded) {
    part_of(memory_, offsets_[index], slot.param.numel()).zero_();
    return;
  }
  for (int rank = 0; rank < group_->size(); ++rank) {
    const ChunkLayout::Piece& piece = layout_->piece(index, rank);
    if (piece.range.size() > 0)
      part_of(memory_, rank * layout_->chunk() + piece.at, piece.range.size()).zero_();
  }
}

void GradientBucket::launch(ReduceOp op) {
  const no_grad silent;
  ensure(is_complete() && !work_, "a bucket with ", filled_, " of ", slots_.size(),
         " gradients was launched");
  const bool casts = options_.wire_dtype && *options_.wire_dtype != memory_.dtype();
  wire_ = casts ? memory_.to(*options_.wire_dtype) : memory_;
  if (!options_.sharded) {
    work_ = group_->all_reduce(data_of(wire_), op);
    return;
  }
  reduced_ = empty({layout_->chunk()}, {.dtype = memory_.dtype(), .device = memory_.device()});
  wire_result_ = casts ? empty_like(reduced_, {.dtype = wire_.dtype()}) : reduced_;
  work_ = group_->reduce_scatter(data_of(wire_result_), data_of(wire_), op);
}

void GradientBucket::wait() {
  const no_grad silent;
  work_->wait();
  seconds_ = work_->seconds();
  if (!options_.sharded) {
    if (!wire_.is_same(memory_)) memory_.copy_(wire_);
    return;
  }
  if (!wire_result_.is_same(reduced_)) reduced_.copy_(wire_result_);
  if (!options_.keep_memory) memory_ = {};
}

void GradientBucket::scale(double factor) {
  const no_grad silent;
  result().mul_(factor);
}
void GradientBucket::scale(const Tensor& factor) {
  const no_grad silent;
  result().mul_(factor);
}

void GradientBucket::hand_out(size_t index) {
  const no_grad silent;
  const Slot& slot = *slots_[index];
  if (!options_.sharded) {
    if (slot.used && options_.adopt) return;  // it was reduced in place
    slot.param.set_grad(part_as(memory_, options_.adopt ? 0 : offsets_[index], slot.param));
    return;
  }
  const ChunkLayout::Piece& piece = layout_->piece(index, group_->rank());
  if (piece.range.size() == 0) return;
  const Tensor part = part_of(reduced_, piece.at, piece.range.size());
  const Tensor before = slot.shard.grad();
  if (before.defined())
    before.add_(part);
  else
    slot.shard.set_grad(part);
}

bool GradientBucket::is_under_way() const { return work_ && !work_->done(); }

void GradientBucket::abandon() {
  // Other ranks may still be carrying the call out.
  if (work_)
    work_->keep(std::make_shared<std::vector<Tensor>>(
        std::vector<Tensor>{memory_, wire_, wire_result_, reduced_}));
  memory_ = {};
  reset();
}

void GradientBucket::reset() {
  work_ = nullptr;
  wire_ = wire_result_ = reduced_ = Tensor();
  if (options_.adopt || !options_.keep_memory) memory_ = Tensor();
  filled_ = 0;
  for (Slot* slot : slots_) slot->ready = slot->used = false;
}

}  // namespace tensora::distributed
