#include "tensora/distributed/divided_value.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

Tensor combined(ReduceOp op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::minimum:
      return minimum(a, b);
    case ReduceOp::maximum:
      return maximum(a, b);
    default:
      return a + b;
  }
}

/// Changes of the placement of one value.
class Change {
 public:
  Change(const DividedValue& value, const std::vector<Device>& devices)
      : from_(value.placement), parts_(value.parts), devices_(devices) {}

  Tensor whole() const {
    if (from_.is_replicate()) return parts_[0];
    TensorList here;
    for (const Tensor& part : parts_) here.push_back(part.to(devices_[0]));
    return from_.is_shard() ? cat(here, from_.dim) : combination(here);
  }

  Tensor part(int64_t dim, size_t rank) const {
    if (from_.is_replicate()) return taken(parts_[rank], dim, rank);
    TensorList pieces;
    for (const Tensor& part : parts_) pieces.push_back(taken(part, dim, rank).to(devices_[rank]));
    return from_.is_shard() ? cat(pieces, from_.dim) : combination(pieces);
  }

 private:
  Tensor taken(const Tensor& from, int64_t dim, size_t rank) const {
    const DimRange range =
        dim_range(from.size(dim), static_cast<int>(devices_.size()), static_cast<int>(rank));
    return from.narrow(dim, range.begin, range.size);
  }
  Tensor combination(const TensorList& pieces) const {
    Tensor result = pieces[0];
    for (size_t i = 1; i < pieces.size(); ++i) result = combined(from_.op, result, pieces[i]);
    return result;
  }

  const Placement from_;
  const std::vector<Tensor>& parts_;
  const std::vector<Device>& devices_;
};

// What adds nothing to the first part. -0.0 changes no summand, not even -0.0.
Tensor neutral(const Tensor& like, ReduceOp op) {
  ensure(op == ReduceOp::sum, "a whole tensor becomes a sum of parts only");
  return is_differentiable(like.dtype()) ? -zeros_like(like) : zeros_like(like);
}

}  // namespace

bool DividedValue::is_one_tensor() const {
  return placement.is_replicate() &&
         std::ranges::all_of(parts, [&](const Tensor& part) { return part.is_same(parts[0]); });
}

DividedValue DividedValue::cast(DType dtype) const {
  DividedValue result = *this;
  for (size_t r = 0; r < parts.size(); ++r) result.parts[r] = parts[r].to(dtype);
  return result;
}

std::vector<Tensor> redistributed(const DividedValue& value, const Placement& to,
                                  const std::vector<Device>& devices) {
  if (value.placement == to) return value.parts;
  const Change change(value, devices);
  TensorList parts;
  for (size_t r = 0; to.is_shard() && r < devices.size(); ++r)
    parts.push_back(change.part(to.dim, r));
  if (to.is_shard()) return parts;
  parts = copies_of(change.whole(), devices);
  for (size_t r = 1; to.is_partial() && r < devices.size(); ++r)
    parts[r] = neutral(parts[r], to.op);
  return parts;
}

std::vector<Tensor> copies_of(const Tensor& whole, const std::vector<Device>& devices) {
  TensorList copies;
  for (size_t r = 0; r < devices.size(); ++r) {
    const auto same =
        std::find(devices.begin(), devices.begin() + static_cast<int64_t>(r), devices[r]) -
        devices.begin();
    copies.push_back(same < static_cast<int64_t>(r) ? copies[static_cast<size_t>(same)]
                                                    : whole.to(devices[r]));
  }
  return copies;
}

Shape part_sizes(const Shape& whole, const Placement& placement, int ranks, int rank) {
  Shape sizes = whole;
  if (!placement.is_shard()) return sizes;
  const int dim = static_cast<int>(placement.dim);
  sizes[dim] = dim_range(whole[dim], ranks, rank).size;
  return sizes;
}

}  // namespace tensora::distributed
