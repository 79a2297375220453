#pragma once

// Internal header: how calls on sharded tensors run, kept for the next call that is alike.

#include <memory>
#include <unordered_map>
#include <vector>

#include "tensora/dispatch/interceptor.h"
#include "tensora/distributed/shard_choice.h"

// Note [Plans]
// How a call on sharded tensors runs follows from the op, its attributes, and the shapes and
// placements of its inputs: the shapes of the outputs, the rule, the factor that is divided, what
// has to be communicated. Finding that out takes longer than a small op itself, and programs repeat
// their calls, so it is kept. Layouts are interned: operands that look the same have one layout
// object, and plans compare the addresses of layouts.

namespace tensora::distributed {

/// What a plan depends on in one operand.
struct OperandLayout {
  bool defined = false, wrapped_number = false;
  DType dtype = kFloat32;
  Device device;
  Shape sizes = {};
  Strides strides = {};
  int64_t offset = 0;
  Placements placements = {};  // of a stand-in; empty: a tensor that is the same on all ranks
  Shape part_sizes = {};       // of this rank's part of a stand-in
  Strides part_strides = {};

  /// Whether the tensor still has this geometry.
  bool describes(const TensorImpl& impl) const {
    return impl.view.sizes == sizes && impl.view.strides == strides && impl.offset == offset &&
           impl.view.dtype == dtype;
  }
  bool operator==(const OperandLayout&) const = default;
};
using OperandLayouts = SmallVector<const OperandLayout*, 4>;

/// What decides how a call runs. See Note [Plans].
struct ShardPlanKey {
  const OpBase* op = nullptr;
  OperandLayouts layouts = {};
  AttrWords words = {};            // of the attributes
  bool records = false;            // history
  DType default_dtype = kFloat32;  // what numbers become

  uint64_t hash() const;
  bool operator==(const ShardPlanKey& other) const;
};

/// How a call runs.
struct ShardPlan {
  enum class Way : uint8_t { divided, by_definition, gathered };
  Way way = Way::gathered;

  // Of divided calls. Outputs: those of one process.
  SmallVector<OutputSpec, 2> outputs = {};
  ShardChoice choice = {};
  std::vector<bool> as_is = {};                // inputs that the op gets as they are
  std::vector<bool> is_whole = {};             // outputs that all ranks have
  std::vector<Shape> part_sizes = {};          // of this rank's outputs
  std::unique_ptr<AttrsWithSizes> attrs = {};  // with this rank's sizes; null: as the call has them
  bool reshapes = false;  // the op is `view`, and the strides of a part may not allow it
  /// The layouts of the outputs last time, which are probably the same next time.
  mutable std::vector<const OperandLayout*> last_layouts = {};
};

/// The plans of a thread for meshes of one shape in which this rank has one place.
class ShardPlans {
 public:
  /// Those of this thread. The mesh must be used by its rank's threads only.
  static ShardPlans& of(const DeviceMesh& mesh);

  /// The one object for this layout.
  const OperandLayout* intern(OperandLayout layout);
  /// The plan of a call, made if there is none.
  const ShardPlan& plan(ShardPlanKey& key, const Call& call, const DeviceMesh& mesh);

  /// While one lives, no plan or layout is dropped.
  class Use {
   public:
    explicit Use(ShardPlans& plans);
    ~Use() { --plans_.users_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ShardPlans& plans_;
  };

  /// How many plans this thread has made, for tests.
  static int64_t made();

 private:
  struct Entry {
    ShardPlanKey key;
    ShardPlan plan;
  };
  std::unordered_multimap<uint64_t, std::unique_ptr<const OperandLayout>> layouts_;
  std::unordered_multimap<uint64_t, Entry> plans_;
  int users_ = 0;
};

}  // namespace tensora::distributed
