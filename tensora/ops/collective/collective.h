#pragma once

// Not in tensora/ops.h: programs of one rank need none of it.

#include <string>

#include "tensora/core/process_group.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

// Note [Gradients of collectives]
// A collective maps one value per rank to one value per rank, and what its gradient is depends on
// what these values mean. The functions here are typed by placement. A tensor is *partial* if the
// value is the sum over the ranks, *replicated* if every rank has all of it, *sharded* if each has
// a part.
//
//   function         takes        to           its gradient
//   all_reduce       partial      replicated   passes
//   replicate_grad   replicated   replicated   is all_reduce: each rank has used the value
//   differently all_gather       sharded      replicated   is reduce_scatter reduce_scatter partial
//   sharded      is all_gather all_to_all       sharded      sharded      is all_to_all back
//   broadcast        the root's   replicated   is reduce
//   reduce           partial      the root's   is broadcast
//
// The gradient of a replicated tensor, where it reaches all_gather or broadcast, is taken to be
// partial: each rank has a part of the computation behind it. PyTorch's all_reduce, whose gradient
// is summed again, is replicate_grad(all_reduce(x)).

struct AllReduceAttrs {
  ReduceOp op = ReduceOp::sum;
  std::string group = "world";
};
struct GroupAttrs {
  std::string group = "world";
};
struct GroupDimAttrs {
  int64_t dim = 0;
  std::string group = "world";
};
struct ReduceScatterAttrs {
  ReduceOp op = ReduceOp::sum;
  int64_t dim = 0;
  std::string group = "world";
};
struct AllToAllAttrs {
  int64_t split_dim = 0, concat_dim = 0;
  std::string group = "world";
};
struct RootAttrs {
  int root = 0;
  std::string group = "world";
};

extern OpDef<AllReduceAttrs> all_reduce_op;
extern OpDef<GroupAttrs> replicate_grad_op;
extern OpDef<GroupDimAttrs> all_gather_op;
extern OpDef<ReduceScatterAttrs> reduce_scatter_op;
extern OpDef<AllToAllAttrs> all_to_all_op;
extern OpDef<RootAttrs> broadcast_op;
extern OpDef<RootAttrs> reduce_to_op;

/// Collectives of the group of that name as ops; see Note [Gradients of collectives].
namespace collective {

/// Combines the tensors of all ranks, element by element, in the order of ranks.
Tensor all_reduce(const Tensor& input, ReduceOp op = ReduceOp::sum,
                  const std::string& group = "world");
/// The tensor itself; its gradient is summed over the ranks.
Tensor replicate_grad(const Tensor& input, const std::string& group = "world");
/// The tensors of all ranks, one after the other along `dim`.
Tensor all_gather(const Tensor& input, int64_t dim = 0, const std::string& group = "world");
/// This rank's part, along `dim`, of the combination of all tensors.
Tensor reduce_scatter(const Tensor& input, ReduceOp op = ReduceOp::sum, int64_t dim = 0,
                      const std::string& group = "world");
/// Cuts the tensor along `split_dim` into a part for each rank and puts those that come from the
/// ranks together along `concat_dim`.
Tensor all_to_all(const Tensor& input, int64_t split_dim = 0, int64_t concat_dim = 0,
                  const std::string& group = "world");
/// The tensor of rank `root`.
Tensor broadcast(const Tensor& input, int root = 0, const std::string& group = "world");
/// The sum over the ranks on rank `root`, zeros on the others.
Tensor reduce(const Tensor& input, int root = 0, const std::string& group = "world");

}  // namespace collective
}  // namespace tensora
