#include "tensora/distributed/parameter_part.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {

using models::IndexRange;
using Placement = ParameterPart::Placement;

IndexRange ParameterPart::owned(int rank) const {
  IndexRange range = held[static_cast<size_t>(rank)];
  if (rank > 0) range.begin = std::max(range.begin, held[static_cast<size_t>(rank) - 1].end);
  range.end = std::max(range.begin, range.end);
  return range;
}

bool ParameterPart::overlaps() const {
  if (placement != Placement::divided) return false;
  for (size_t rank = 1; rank < held.size(); ++rank)
    if (held[rank].begin < held[rank - 1].end) return true;
  return false;
}

Tensor part_of_whole(const ParameterPart& part, const Tensor& whole, int rank) {
  check(whole.sizes() == part.sizes, "shard_model: '", part.name, "' must have the shape ",
        part.sizes, ", got ", whole.sizes());
  const no_grad silent;
  if (part.placement == Placement::first_only && rank > 0) return zeros_like(whole);
  if (part.placement != Placement::divided) return whole.clone(MemoryFormat::contiguous);
  const IndexRange& range = part.held[static_cast<size_t>(rank)];
  return whole.narrow(part.dim, range.begin, range.size()).clone(MemoryFormat::contiguous);
}

Tensor counted(const ParameterPart& part, const Tensor& local, int rank) {
  if (part.placement != Placement::divided) return rank == 0 ? local : Tensor();
  const IndexRange own = part.owned(rank);
  if (own.size() == 0) return {};
  return local.narrow(part.dim, own.begin - part.held[static_cast<size_t>(rank)].begin, own.size());
}

Tensor gather_whole(const ParameterPart& part, const Tensor& local, ProcessGroup& group) {
  const no_grad silent;
  if (part.placement == Placement::replicated) return local.detach();
  if (part.placement == Placement::first_only) {
    const Tensor whole = local.detach().clone(MemoryFormat::contiguous);
    group.broadcast(data_of(whole), 0, CallMode::blocking)->wait();
    return whole;
  }
  int64_t longest = 0;
  for (int rank = 0; rank < group.size(); ++rank)
    longest = std::max(longest, part.owned(rank).size());
  const Tensor own = counted(part, local.detach(), group.rank());
  Shape sizes = part.sizes;
  sizes[part.dim] = sizes[0];
  sizes[0] = longest;
  const TensorOptions like{.dtype = local.dtype(), .device = local.device()};
  const Tensor chunk = zeros(sizes, like);
  if (own.defined()) chunk.narrow(0, 0, own.size(part.dim)).copy_(own.transpose(0, part.dim));
  Shape all_sizes{group.size()};
  for (const int64_t size : sizes) all_sizes.push_back(size);
  const Tensor all = empty(all_sizes, like);
  group.all_gather(data_of(all), data_of(chunk), CallMode::blocking)->wait();
  TensorList parts;
  for (int rank = 0; rank < group.size(); ++rank)
    parts.push_back(all[rank].narrow(0, 0, part.owned(rank).size()));
  return cat(parts, 0).transpose(0, part.dim).contiguous();
}

Tensor sum_overlaps(const ParameterPart& part, const Tensor& local, ProcessGroup& group) {
  const no_grad silent;
  const IndexRange& own = part.held[static_cast<size_t>(group.rank())];
  const Tensor whole = zeros(part.sizes, {.dtype = local.dtype(), .device = local.device()});
  const Tensor here = whole.narrow(part.dim, own.begin, own.size());
  here.copy_(local);
  group.all_reduce(data_of(whole), ReduceOp::sum, CallMode::blocking)->wait();
  return here.contiguous();
}

}  // namespace tensora::distributed
