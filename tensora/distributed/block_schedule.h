#pragma once

// Internal header: when the blocks of a fully sharded model are gathered and freed.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/distributed/sharded_block.h"
#include "tensora/nn/module.h"

namespace tensora::distributed {

// Note [Fully sharded blocks]
// A hook in front of a block's forward gathers its parameters, one behind it frees them. What ops
// save of them for backward is packed as a place in the block, so that it does not keep them alive;
// a hook on the gradients of the block's outputs gathers them again, and they are freed when the
// block's gradients are complete. The parameters outside of all blocks stay from the beginning of
// forward to the end of backward. While a block is computed, the next one in the order of the last
// forward (in backward the one before) is already being gathered. All ranks run the same program,
// so they gather in the same order.
class BlockSchedule {
 public:
  /// One module's blocks, one per dtype and device.
  struct Unit {
    nn::Module* module;
    std::vector<std::unique_ptr<ShardedBlock>> blocks;
    std::unique_ptr<SavedTensorHooks> packing = nullptr;  // while its forward runs
    int next = -1, previous = -1;                         // in the order of the last forward
    bool whole = false;
    size_t reduced = 0;  // blocks whose gradients are complete in this backward
  };

  /// The first unit is that of the model itself.
  explicit BlockSchedule(std::vector<Unit> units);
  ~BlockSchedule();
  BlockSchedule(const BlockSchedule&) = delete;
  BlockSchedule& operator=(const BlockSchedule&) = delete;

  /// The gradients of these parameters are complete.
  void on_gradients(const std::vector<Slot*>& slots);
  /// Backward has ended, or the optimizer has changed the shards.
  void release_all();
  /// Gathers everything, and keeps it until `unpin`.
  void pin();
  void unpin();
  void reload_shards();

 private:
  void watch(size_t unit);
  void before_forward(size_t unit);
  void after_forward(size_t unit, const TensorList& outputs);
  void gather(size_t unit, int ahead);
  void release(size_t unit);
  std::unique_ptr<PackedTensor> pack(const Tensor& tensor);

  std::vector<Unit> units_;
  std::vector<std::function<void()>> removers_;
  int last_ = -1;  // the unit whose forward ran last
  int pins_ = 0;
};

/// The slots by module: first those of the model itself, then those of each block; a parameter that
/// several of them use is the model's. `paths` as in DataParallelOptions::blocks.
struct ModuleSlots {
  nn::Module* module;
  std::vector<size_t> slots;
};
std::vector<ModuleSlots> slots_by_module(nn::Module& model, const std::vector<std::string>& paths,
                                         const std::vector<std::unique_ptr<Slot>>& slots);

}  // namespace tensora::distributed
