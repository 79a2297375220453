#pragma once

// Tensors of one process whose elements lie on several devices. See Note [Divided tensors] in
// dispatch/divided.h.

#include <optional>
#include <vector>

#include "tensora/distributed/sharded_tensor.h"

namespace tensora::distributed {

/// Divides this tensor, and so every handle to it, among devices: along `axis`, or with a copy on
/// each device if there is none. A device may be listed several times, which is of use for tests.
///
///   shard_(w, {"cuda:0", "cuda:1"}, 1);
///   Tensor y = relu(matmul(x, w));  // each device computes its columns of y
///
/// It keeps its shape, gradients, and history. Ops run on the parts, by the rules of Note [Shard
/// rules]; operands on the first device, or divided among the same devices, go with it. Gradients
/// are divided too. An op without a rule runs its definition, or gathers its operands. Reading
/// elements on the host (item, data_ptr, printing, saving) collects all of them on the first
/// device, where the tensor then stays. Tensors that share the memory of `self` must not exist.
const Tensor& shard_(const Tensor& self, const std::vector<Device>& devices,
                     std::optional<int64_t> axis = {});
/// Collects the elements of a tensor on its first device, where it then stays.
const Tensor& unshard_(const Tensor& self);

bool is_sharded(const Tensor& self);
/// How a tensor is divided; a tensor that is not: Replicate. The sum, say, of elements that are
/// divided along the dim that was summed is Partial until another op needs it.
Placement placement_of(const Tensor& self);
/// The parts, in the order of the devices; a tensor that is not divided is its only part. They
/// share the memory of the tensor, where it is a Shard.
std::vector<Tensor> parts_of(const Tensor& self);

}  // namespace tensora::distributed
