#include "tensora/distributed/sharded_block.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

constexpr int64_t kAlignment = 64;  // elements

Tensor leaf_of(const Tensor& data) {
  Tensor leaf = shallow_detach(data);
  leaf.requires_grad_();
  return leaf;
}

// Any op that reads a parameter that is not there fails, and says so, because it is on this device.
Tensor placeholder(const Tensor& like) {
  return make_tensor(like.sizes(), like.strides(), like.dtype(), Device(DeviceType::meta));
}

}  // namespace

bool ShardedBlock::gathers_in_place(const Slot& slot, int ranks) {
  const ChunkLayout::Array array{slot.param.numel(), slot.turn};
  return ChunkLayout({&array, 1}, ranks).is_array();
}

ShardedBlock::ShardedBlock(std::vector<Slot*> slots, std::shared_ptr<ProcessGroup> group,
                           bool owns_shards)
    : slots_(std::move(slots)),
      group_(std::move(group)),
      owns_shards_(owns_shards),
      layout_(layout_of(slots_, group_->size())),
      in_place_(!owns_shards && layout_.is_array()),
      dtype_(slots_.front()->param.dtype()),
      device_(slots_.front()->param.device()) {
  const no_grad silent;
  if (owns_shards_) chunk_ = zeros({layout_.chunk()}, {.dtype = dtype_, .device = device_});
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = *slots_[i];
    const ChunkLayout::Piece& piece = layout_.piece(i, group_->rank());
    slot.range = piece.range;
    offsets_.push_back(elements_);
    elements_ += (slot.param.numel() + kAlignment - 1) / kAlignment * kAlignment;
    const Tensor part = part_of(flat(slot.param), piece.range.begin, piece.range.size());
    if (!owns_shards_) {
      slot.shard = leaf_of(part);
      continue;
    }
    const Tensor own = part_of(chunk_, piece.at, piece.range.size());
    if (piece.range.size() > 0) own.copy_(part);
    slot.shard = leaf_of(own);
    slot.param.set_data(placeholder(slot.param));
  }
}

ShardedBlock::~ShardedBlock() {
  // The memory belongs to the call, which other ranks may still carry out.
  if (work_)
    work_->keep(std::make_shared<std::vector<Tensor>>(
        std::vector<Tensor>{chunk_, chunks_, in_place_ ? slots_[0]->param.detach() : Tensor()}));
}

// Stages 1 and 2: the parts lie apart in the parameters.
void ShardedBlock::collect_chunk() {
  if (owns_shards_) return;
  chunk_ = zeros({layout_.chunk()}, {.dtype = dtype_, .device = device_});
  for (size_t i = 0; i < slots_.size(); ++i) {
    const ChunkLayout::Piece& piece = layout_.piece(i, group_->rank());
    if (piece.range.size() == 0) continue;
    part_of(chunk_, piece.at, piece.range.size()).copy_(slots_[i]->shard.detach());
  }
}

void ShardedBlock::begin_gather() {
  if (work_ || whole_.defined()) return;
  const no_grad silent;
  if (in_place_) {
    work_ = group_->all_gather(data_of(flat(slots_[0]->param)), data_of(slots_[0]->shard));
    return;
  }
  collect_chunk();
  chunks_ = empty({layout_.chunk() * group_->size()}, {.dtype = dtype_, .device = device_});
  work_ = group_->all_gather(data_of(chunks_), data_of(chunk_));
}

// Copies the parts of parameter `index` from all chunks.
void ShardedBlock::spread(const Tensor& elements, size_t index) const {
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (!owns_shards_ && rank == group_->rank()) continue;
    const ChunkLayout::Piece& piece = layout_.piece(index, rank);
    if (piece.range.size() == 0) continue;
    part_of(elements, piece.range.begin, piece.range.size())
        .copy_(part_of(chunks_, rank * layout_.chunk() + piece.at, piece.range.size()));
  }
}

void ShardedBlock::gather() {
  if (whole_.defined()) return;
  const no_grad silent;
  begin_gather();
  work_->wait();
  if (in_place_) {
    slots_[0]->param.impl().storage->bump_version();
    work_ = nullptr;
    return;
  }
  Tensor whole;
  const bool is_whole = owns_shards_ && layout_.is_array() && chunks_.numel() == elements_;
  if (owns_shards_)
    whole = is_whole ? chunks_ : empty({elements_}, {.dtype = dtype_, .device = device_});
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = *slots_[i];
    if (!owns_shards_) {
      spread(flat(slot.param), i);
      continue;
    }
    if (!is_whole) spread(part_of(whole, offsets_[i], slot.param.numel()), i);
    slot.param.set_data(part_as(whole, offsets_[i], slot.param));
  }
  whole_ = whole;
  work_ = nullptr;
  chunks_ = {};
  if (!owns_shards_) chunk_ = {};
}

void ShardedBlock::release() {
  if (!owns_shards_) return;
  if (work_) {  // it was begun ahead and is not needed
    work_->wait();
    work_ = nullptr;
    chunks_ = {};
  }
  if (!whole_.defined()) return;
  for (const Slot* slot : slots_) slot->param.set_data(placeholder(slot->param));
  whole_ = {};
}

void ShardedBlock::reload_shards() {
  if (!owns_shards_) return;
  ensure(whole_.defined(), "the parameters of a block are not gathered");
  const no_grad silent;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const ShardRange range = slots_[i]->range;
    if (range.size() > 0)
      slots_[i]->shard.detach().copy_(part_of(flat(slots_[i]->param), range.begin, range.size()));
  }
}

// Part of the whole parameters, for backward.
class ShardedBlock::PackedPart final : public PackedTensor {
 public:
  PackedPart(ShardedBlock& block, const Tensor& tensor)
      : block_(block),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        offset_(tensor.storage_offset()) {}
  Tensor unpack() const override {
    block_.gather();
    return shallow_detach(as_strided(block_.whole_, sizes_, strides_, offset_));
  }

 private:
  ShardedBlock& block_;
  Shape sizes_;
  Strides strides_;
  int64_t offset_;
};

std::unique_ptr<PackedTensor> ShardedBlock::pack(const Tensor& tensor) {
  if (!whole_.defined() || !whole_.shares_storage(tensor) || tensor.dtype() != dtype_)
    return nullptr;
  return std::make_unique<PackedPart>(*this, tensor);
}

}  // namespace tensora::distributed
