#pragma once

// Internal header: parameters that are divided among the ranks and gathered together.

#include <memory>
#include <vector>

#include "tensora/autograd/saved_tensor_hooks.h"
#include "tensora/distributed/gradient_bucket.h"

namespace tensora::distributed {

/// Parameters of one dtype and device, of which each rank steps its part.
///
/// With `owns_shards` false (stages 1 and 2) every rank has the whole parameters, and the shards
/// are views of them. With it (stage 3) a rank has its shards alone; the parameters are on the meta
/// device, except between `begin_gather` and `release`.
class ShardedBlock {
 public:
  /// Gives every slot its shard: a leaf that requires grad.
  ShardedBlock(std::vector<Slot*> slots, std::shared_ptr<ProcessGroup> group, bool owns_shards);
  ~ShardedBlock();

  const std::vector<Slot*>& slots() const { return slots_; }

  /// Starts to collect the parts of all ranks; nothing if that was done.
  void begin_gather();
  /// Makes the parameters whole. Without `begin_gather` before, does that too.
  void gather();
  /// Stage 3: frees the whole parameters.
  void release();
  /// Stage 3: takes this rank's part of the whole parameters for its shards.
  void reload_shards();
  bool is_whole() const { return whole_.defined() || !owns_shards_; }

  /// If `tensor` is part of the whole parameters: what finds it again after they were released and
  /// gathered anew. Null otherwise.
  std::unique_ptr<PackedTensor> pack(const Tensor& tensor);

  int64_t bytes() const { return bytes_of(dtype_, layout_.chunk()); }
  /// Whether a parameter that has a block of its own is gathered where it is (stages 1 and 2).
  static bool gathers_in_place(const Slot& slot, int ranks);

 private:
  class PackedPart;
  void collect_chunk();
  void spread(const Tensor& whole_of, size_t index) const;

  std::vector<Slot*> slots_;
  std::shared_ptr<ProcessGroup> group_;
  bool owns_shards_;
  ChunkLayout layout_;
  bool in_place_;  // the parts are gathered in the one parameter itself
  DType dtype_;
  Device device_;
  std::vector<int64_t> offsets_;  // of the parameters in whole_
  int64_t elements_ = 0;
  Tensor chunk_;   // stage 3: the shards; otherwise a copy of them for the way
  Tensor chunks_;  // of all ranks, while they are collected
  Tensor whole_;   // stage 3: the whole parameters
  WorkPtr work_;
};

}  // namespace tensora::distributed
