#pragma once

#include <string>
#include <vector>

#include "tensora/core/tensor.h"
#include "tensora/distributed/device_mesh.h"

namespace tensora::distributed {

/// What the ranks along one dim of a mesh have of a tensor.
struct Placement {
  enum class Kind : uint8_t {
    replicate,  // every rank has all of it
    shard,      // each rank has a range of dim `dim`
    partial,    // the tensor is the combination of the ranks' values by `op`
  };
  Kind kind = Kind::replicate;
  int64_t dim = 0;
  ReduceOp op = ReduceOp::sum;

  static Placement replicate() { return {}; }
  static Placement shard(int64_t dim) { return {.kind = Kind::shard, .dim = dim}; }
  static Placement partial(ReduceOp op = ReduceOp::sum) {
    return {.kind = Kind::partial, .op = op};
  }
  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_partial() const { return kind == Kind::partial; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_shard_of(int64_t of) const { return is_shard() && dim == of; }
  bool operator==(const Placement&) const = default;
};
/// "Replicate", "Shard(0)" or "Partial(sum)".
std::string to_string(const Placement& placement);
/// One for each dim of a mesh. A dim of the tensor that several dims of the mesh shard is cut by
/// the first of them, and each part by the next.
using Placements = std::vector<Placement>;

/// Elements [begin, begin + size) of a dim.
struct DimRange {
  int64_t begin = 0, size = 0;
};
/// The part of a dim of `size` elements that coordinate `coordinate` of `ranks` has. Parts differ
/// by at most one element, the longer ones first; with fewer elements than ranks the last ranks
/// have none.
DimRange dim_range(int64_t size, int ranks, int coordinate);

// Note [Gradients of placements]
// The gradient of a sharded tensor is placed as the tensor is, except that the gradient of a
// partial tensor is replicated: each rank's summand has the whole sum's gradient. So the gradient
// of `redistribute` is `redistribute` back. Computations on `to_local` that use a replicated tensor
// in another way on each rank give a partial gradient for it; they say so by `grad_placements`.

/// A tensor that the ranks of a mesh have together. Its local parts are tensors like any others;
/// ops on them are the caller's, who says by the placements what came out:
///
///   DeviceMesh mesh = device_mesh({world.size()});
///   auto x = distribute_tensor(input, mesh, {Placement::shard(1)});
///   auto w = distribute_tensor(weight, mesh, {Placement::shard(0)});
///   ShardedTensor y(matmul(x.to_local(), w.to_local()), mesh, {Placement::partial()}, {8, 16});
///   Tensor whole = y.full_tensor();
///
/// All ranks of the mesh make the same calls in the same order. Sums are in the order of ranks.
class ShardedTensor {
 public:
  /// From this rank's part, which must have the shape that the placements give it. `sizes`: of the
  /// whole tensor.
  ShardedTensor(Tensor local, DeviceMesh mesh, Placements placements, Shape sizes);

  /// The shape of the whole tensor.
  const Shape& sizes() const { return sizes_; }
  const DeviceMesh& mesh() const { return mesh_; }
  const Placements& placements() const { return placements_; }

  /// This rank's part. `grad_placements`: how the gradient that reaches it is placed; empty: as
  /// Note [Gradients of placements] says.
  Tensor to_local(Placements grad_placements = {}) const;
  /// The same tensor with other placements: by all_gather, reduce_scatter, all_reduce, all_to_all
  /// or by taking a part, one dim of the mesh after the other. Differentiable, but for partial
  /// tensors whose op is not the sum.
  ShardedTensor redistribute(const Placements& placements) const;
  /// All of it, on every rank.
  Tensor full_tensor() const;

 private:
  Tensor local_;
  DeviceMesh mesh_;
  Placements placements_;
  Shape sizes_;
};

/// Divides a tensor whose values the first rank of the mesh gives to all. The parts are leaves;
/// they require gradients if `whole` does.
ShardedTensor distribute_tensor(const Tensor& whole, const DeviceMesh& mesh, Placements placements);

/// The shape of this rank's part.
Shape local_sizes(const Shape& sizes, const DeviceMesh& mesh, const Placements& placements);

}  // namespace tensora::distributed
