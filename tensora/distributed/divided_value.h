#pragma once

// Internal header: the parts of a divided tensor, and how they change places.

#include "tensora/distributed/sharded_tensor.h"

namespace tensora::distributed {

/// The elements of a tensor on several devices, one part for each.
struct DividedValue {
  Placement placement = {};
  std::vector<Tensor> parts = {};
  bool shares_memory = true;  // with the tensor that this is a view of

  /// Whether every part is the same tensor: nothing is divided, and the device is one.
  bool is_one_tensor() const;
  DividedValue cast(DType dtype) const;
};

/// The same values with another placement. Sums are in the order of the parts.
std::vector<Tensor> redistributed(const DividedValue& value, const Placement& to,
                                  const std::vector<Device>& devices);
/// `whole` on each device; the same tensor for all parts of a device.
std::vector<Tensor> copies_of(const Tensor& whole, const std::vector<Device>& devices);
/// The shape of part `rank` of `ranks`.
Shape part_sizes(const Shape& whole, const Placement& placement, int ranks, int rank);

}  // namespace tensora::distributed
