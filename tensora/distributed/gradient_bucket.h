#pragma once

// Internal header: gradients that travel together.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"
#include "tensora/distributed/shard_layout.h"

namespace tensora::distributed {

/// A parameter whose gradients are reduced.
struct Slot {
  std::string name;
  Tensor param;
  Tensor shard = {};  // stages 1 to 3: the leaf with this rank's part, which the optimizer steps
  ShardRange range = {};  // its elements
  int turn = 0;           // see shard_range
  bool ready = false;     // the gradient of this backward is in the bucket
  bool used = false;      // and it is not zeros that stand for none

  /// Where its gradients are; at stage 3 the parameter itself is not there most of the time.
  Device device() const { return shard.defined() ? shard.device() : param.device(); }
};

/// How the parts of these parameters lie in a buffer of one chunk per rank.
ChunkLayout layout_of(std::span<Slot* const> slots, int ranks);

struct BucketOptions {
  bool sharded = false;     // each rank gets its shards of the result only
  bool keep_memory = true;  // between the steps
  // A gradient that is alone in its bucket is sent from where it is. Without `sharded` the result
  // replaces it; with it, this is done whatever the option says, where its parts are equally long.
  bool adopt = true;
  std::optional<DType> wire_dtype = {};
};

/// The elements of a dense tensor in the order of memory, as a vector that shares it.
Tensor flat(const Tensor& dense);
/// `data` from element `begin` on, as a tensor of this geometry.
Tensor part_as(const Tensor& data, int64_t begin, const Tensor& like);
/// `count` elements of a vector.
Tensor part_of(const Tensor& data, int64_t begin, int64_t count);

/// The gradients of some parameters of one dtype and device, and the call that reduces them.
class GradientBucket {
 public:
  GradientBucket(std::vector<Slot*> slots, std::shared_ptr<ProcessGroup> group,
                 const BucketOptions& options);

  const std::vector<Slot*>& slots() const { return slots_; }
  /// Takes in the gradient of a parameter. It leaves the parameter where the result is sharded.
  void put(size_t index);
  void put_zeros(size_t index);
  bool is_complete() const { return filled_ == slots_.size(); }
  /// Begins the call. All slots must be filled.
  void launch(ReduceOp op);
  /// Waits for it.
  void wait();
  /// Multiplies the result.
  void scale(double factor);
  void scale(const Tensor& factor);
  /// Gives the parameter, or its shard, the result as its gradient.
  void hand_out(size_t index);
  /// Ends the step.
  void reset();
  bool is_under_way() const;
  /// Ends a step that failed. What a call that is under way works on is never freed.
  void abandon();
  /// Whether this gradient is the result of an earlier step.
  bool holds(const Tensor& grad) const;

  double seconds() const { return seconds_; }
  int64_t bytes() const;

 private:
  void require_memory();
  const Tensor& result() const { return options_.sharded ? reduced_ : memory_; }

  std::vector<Slot*> slots_;
  std::shared_ptr<ProcessGroup> group_;
  BucketOptions options_;
  std::vector<int64_t> offsets_;  // of whole gradients in the memory
  std::unique_ptr<ChunkLayout> layout_;
  int64_t elements_ = 0;
  Tensor memory_;              // what is reduced
  Tensor reduced_;             // this rank's chunk of the result
  Tensor wire_, wire_result_;  // the same in the dtype of the way
  size_t filled_ = 0;
  WorkPtr work_;
  double seconds_ = 0;
};

}  // namespace tensora::distributed
