#pragma once

// Internal header: which factors of a call the ranks of a mesh divide.

#include "tensora/distributed/shard_rule.h"
#include "tensora/distributed/sharded_tensor.h"

namespace tensora::distributed {

/// How a call's operands are placed while it runs.
struct ShardChoice {
  std::vector<Placements> inputs, gradients, outputs;  // gradients: of the inputs
};

/// For each dim of the mesh the factor that costs the least bytes: to bring the inputs from
/// `placed` to where they are needed, and to add up partial outputs. `mesh`: its sizes.
ShardChoice choose_shards(const ShardRule& rule, const WholeCall& call, std::span<const int> mesh,
                          const std::vector<Placements>& placed);

/// A call's attributes with one changed: the sizes of the output.
class AttrsWithSizes {
 public:
  AttrsWithSizes(const OpBase& op, const void* attrs, std::string_view name, const Shape& sizes);
  ~AttrsWithSizes();
  AttrsWithSizes(const AttrsWithSizes&) = delete;
  AttrsWithSizes& operator=(const AttrsWithSizes&) = delete;
  const void* get() const { return memory_.data(); }

 private:
  const OpBase& op_;
  std::vector<std::max_align_t> memory_;
};

}  // namespace tensora::distributed
