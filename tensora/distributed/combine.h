#pragma once

#include <span>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

// Note [Sums in the order of ranks]
// A sum of floating numbers depends on the order of its terms. Ring and tree algorithms add in an
// order that follows from the element's place in the buffer and from the number of ranks, so that
// results change with the bucket size. Here an element's result is always ((x0 + x1) + x2) + …,
// over the ranks in their order, in float32 for the half types, rounded once at the end. It depends
// on nothing but the values, whichever rank computes it, in whatever pieces it travels, and it is
// what one process gets that adds up the same micro-batches one after the other.

/// Combines `count` elements of each part, in the order of the parts, and writes the result to all
/// of `outs`; these may be parts too, the same elements of them. All memory is the host's.
void combine(ReduceOp op, DType dtype, std::span<const void* const> parts,
             std::span<void* const> outs, int64_t count);

/// Carries out a collective whose ranks' memory this process reaches as a whole: `calls` has one
/// call for each rank. On the host it computes at once; on another device it queues the work on the
/// current queue.
void carry_out(std::span<const Collective> calls);

/// A part of a collective in the host's memory; any thread may carry it out, in any order.
struct CollectivePiece {
  bool combines = false;  // or copies from[0] to to[0]
  ReduceOp op = ReduceOp::sum;
  DType dtype = kUInt8;
  std::vector<const void*> from = {};
  std::vector<void*> to = {};
  int64_t count = 0;  // elements
};
/// The parts of a collective that is worth being divided; none for others.
std::vector<CollectivePiece> pieces_of(std::span<const Collective> calls);
void carry_out(const CollectivePiece& piece);

}  // namespace tensora::distributed
