#include "tensora/distributed/gradient_norm.h"

#include <cmath>

#include "tensora/dispatch/data_of.h"
#include "tensora/dispatch/op.h"
#include "tensora/distributed/gradient_bucket.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/multi_tensor.h"
#include "tensora/ops/optim/multi_tensor_op.h"

namespace tensora::distributed {

Tensor norm_over_ranks(const std::vector<Tensor>& parts, double norm_type, Device device,
                       DType dtype, ProcessGroup& group) {
  Tensor part = get_total_norm(parts, norm_type).to(device).to(kFloat64).reshape({1});
  const bool largest = std::isinf(norm_type);
  part = largest ? part.clone() : part.pow(norm_type);
  group.all_reduce(data_of(part), largest ? ReduceOp::maximum : ReduceOp::sum)->wait();
  if (!largest) part = part.pow(1 / norm_type);
  return part.reshape({}).to(dtype);
}

void clip_by_total(const std::vector<Tensor>& grads, const Tensor& total, double max_norm) {
  std::vector<Arg> inputs(grads.begin(), grads.end());
  if (inputs.empty()) return;
  inputs.emplace_back(total);
  const ListClipAttrs attrs{.limit = max_norm};
  tensora::detail::apply_inplace(list_clip_op, {inputs.data(), inputs.size()}, &attrs);
}

void spread_overflow(const std::vector<Tensor>& grads, Device device, ProcessGroup& group) {
  const Tensor flag = zeros({1}, {.dtype = kFloat32, .device = device});
  for (const Tensor& grad : grads)
    flag.add_((grad * 0).sum().to(kFloat32));  // NaN if an element is infinite or NaN
  group.all_reduce(data_of(flag))->wait();
  if (!grads.empty()) part_of(flat(grads.front()), 0, 1).add_(flag.to(grads.front().dtype()));
}

}  // namespace tensora::distributed
