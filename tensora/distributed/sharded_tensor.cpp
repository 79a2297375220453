#include "tensora/distributed/sharded_tensor.h"

#include <algorithm>

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

Placements checked(Placements placements, const DeviceMesh& mesh, int64_t dims, const char* what) {
  check_as<ValueError>(static_cast<int>(placements.size()) == mesh.dims(), what, ": expected ",
                       mesh.dims(), " placements, one for each dim of the mesh, got ",
                       placements.size());
  for (Placement& placement : placements) {
    if (!placement.is_shard()) continue;
    const int64_t dim = placement.dim;
    check_as<IndexError>(dim >= -dims && dim < dims, what, ": Shard(", dim, ") of a tensor with ",
                         dims, " dims");
    if (dim < 0) placement.dim += dims;
  }
  return placements;
}

// How many elements of tensor dim `dim` the ranks along mesh dim `before` have together.
int64_t extent(const Shape& sizes, const DeviceMesh& mesh, const Placements& placements,
               int64_t dim, int before) {
  int64_t size = sizes[static_cast<int>(dim)];
  for (int i = 0; i < before; ++i)
    if (placements[static_cast<size_t>(i)].is_shard_of(dim))
      size = dim_range(size, mesh.size(i), mesh.coordinate(i)).size;
  return size;
}

/// Changes of one dim of the mesh. `size`: elements of the tensor's dim that its ranks have.
class MeshDim {
 public:
  explicit MeshDim(ProcessGroup& group) : group_(group), ranks_(group.size()) {}

  Tensor take_part(const Tensor& whole, int64_t dim) const {
    const DimRange mine = range(whole.size(dim), group_.rank());
    return whole.narrow(dim, mine.begin, mine.size).clone();
  }

  Tensor gather(const Tensor& part, int64_t dim, int64_t size) const {
    const int64_t longest = range(size, 0).size;
    const Tensor in = padded(part.movedim(dim, 0), longest);
    Shape sizes = in.sizes();
    sizes[0] *= ranks_;
    const Tensor out = empty(sizes, {.dtype = in.dtype(), .device = in.device()});
    group_.all_gather(data_of(out), data_of(in))->wait();
    return without_padding(out, size, longest).movedim(0, dim).contiguous();
  }

  Tensor reduce(const Tensor& partial, ReduceOp op) const {
    const Tensor sum = partial.contiguous().clone();
    group_.all_reduce(data_of(sum), op)->wait();
    return sum;
  }

  Tensor reduce_scatter(const Tensor& partial, ReduceOp op, int64_t dim) const {
    const int64_t size = partial.size(dim), longest = range(size, 0).size;
    const Tensor rows = partial.movedim(dim, 0);
    TensorList parts;
    for (int r = 0; r < ranks_; ++r)
      parts.push_back(padded(rows.narrow(0, range(size, r).begin, range(size, r).size), longest));
    const Tensor in = cat(parts);
    const Tensor out = empty_like(parts.front());
    group_.reduce_scatter(data_of(out), data_of(in), op)->wait();
    return out.narrow(0, 0, range(size, group_.rank()).size).movedim(0, dim).contiguous();
  }

  Tensor exchange(const Tensor& part, int64_t from, int64_t from_size, int64_t to) const {
    const int64_t to_size = part.size(to), mine = range(to_size, group_.rank()).size;
    TensorList sent;
    std::vector<int64_t> in_counts, out_counts;
    Shape sizes = part.sizes();
    sizes[static_cast<int>(to)] = mine;
    for (int r = 0; r < ranks_; ++r) {
      const DimRange theirs = range(to_size, r);
      sent.push_back(part.narrow(to, theirs.begin, theirs.size).contiguous().flatten());
      in_counts.push_back(sent.back().numel());
      sizes[static_cast<int>(from)] = range(from_size, r).size;
      out_counts.push_back(numel_of(sizes));
    }
    const Tensor in = cat(sent);
    sizes[static_cast<int>(from)] = from_size;
    const Tensor out = empty({numel_of(sizes)}, {.dtype = in.dtype(), .device = in.device()});
    group_.all_to_all(data_of(out), out_counts, data_of(in), in_counts)->wait();
    TensorList parts;
    int64_t at = 0;
    for (int r = 0; r < ranks_; at += out_counts[static_cast<size_t>(r++)]) {
      sizes[static_cast<int>(from)] = range(from_size, r).size;
      parts.push_back(out.narrow(0, at, out_counts[static_cast<size_t>(r)]).view(sizes));
    }
    return cat(parts, from);
  }

  // Values whose combination is the tensor.
  Tensor make_partial(const Tensor& whole, ReduceOp op) const {
    if (group_.rank() == 0 || (op != ReduceOp::sum && op != ReduceOp::product)) return whole;
    if (op == ReduceOp::product) return ones_like(whole);
    // -0.0 changes no summand, not even -0.0.
    return is_differentiable(whole.dtype()) ? -zeros_like(whole) : zeros_like(whole);
  }

 private:
  DimRange range(int64_t size, int rank) const { return dim_range(size, ranks_, rank); }

  static int64_t numel_of(const Shape& sizes) {
    int64_t numel = 1;
    for (const int64_t size : sizes) numel *= size;
    return numel;
  }

  static Tensor padded(const Tensor& rows, int64_t length) {
    if (rows.size(0) == length) return rows.contiguous();
    Shape sizes = rows.sizes();
    sizes[0] = length;
    const Tensor result = zeros(sizes, {.dtype = rows.dtype(), .device = rows.device()});
    result.narrow(0, 0, rows.size(0)).copy_(rows);
    return result;
  }

  Tensor without_padding(const Tensor& rows, int64_t size, int64_t longest) const {
    if (size % ranks_ == 0) return rows;
    TensorList parts;
    for (int r = 0; r < ranks_; ++r)
      parts.push_back(rows.narrow(0, r * longest, range(size, r).size));
    return cat(parts);
  }

  ProcessGroup& group_;
  int ranks_;
};

/// Brings a local part from some placements to others.
class Change {
 public:
  Change(const DeviceMesh& mesh, const Shape& sizes, Placements from, Placements to)
      : mesh_(mesh), sizes_(sizes), now_(std::move(from)), to_(std::move(to)) {}

  // A dim of the tensor that several dims of the mesh cut can only be changed by the last of them.
  // So the first pass, from the last dim of the mesh to the first, undoes what changes and what
  // lies within something that changes, and the second one cuts again. Where nothing else is in the
  // way, the first pass goes to the new placement directly.
  Tensor apply(Tensor local) {
    for (int i = mesh_.dims(); i-- > 0;) {
      const Placement from = now(i), to = target(i);
      if (from == to && !(from.is_shard() && outer_changes(i, from.dim))) continue;
      const bool directly = to.is_shard() && !outer_changes(i, to.dim);
      if (!from.is_replicate()) local = step(local, i, directly ? to : Placement::replicate());
    }
    for (int i = 0; i < mesh_.dims(); ++i)
      if (now(i) != target(i)) local = step(local, i, target(i));
    return local;
  }

 private:
  const Placement& now(int i) const { return now_[static_cast<size_t>(i)]; }
  const Placement& target(int i) const { return to_[static_cast<size_t>(i)]; }

  // Whether a dim of the mesh before `i` begins or ends to cut this dim of the tensor.
  bool outer_changes(int i, int64_t dim) const {
    for (int k = 0; k < i; ++k)
      if (now(k).is_shard_of(dim) != target(k).is_shard_of(dim)) return true;
    return false;
  }

  Tensor step(const Tensor& local, int i, const Placement& to) {
    const Placement from = std::exchange(now_[static_cast<size_t>(i)], to);
    const MeshDim ranks(mesh_.group(i));
    if (mesh_.size(i) == 1) return local;
    if (from.is_shard()) {
      const int64_t size = extent(sizes_, mesh_, now_, from.dim, i);
      if (to.is_replicate()) return ranks.gather(local, from.dim, size);
      return from.dim == to.dim ? local : ranks.exchange(local, from.dim, size, to.dim);
    }
    if (from.is_partial())
      return to.is_shard() ? ranks.reduce_scatter(local, from.op, to.dim)
                           : ranks.reduce(local, from.op);
    return to.is_shard() ? ranks.take_part(local, to.dim) : ranks.make_partial(local, to.op);
  }

  const DeviceMesh& mesh_;
  const Shape& sizes_;
  Placements now_, to_;
};

// See Note [Gradients of placements].
Placements of_gradient(Placements placements) {
  for (Placement& placement : placements)
    if (placement.is_partial()) placement = Placement::replicate();
  return placements;
}

struct Plan {
  DeviceMesh mesh;
  Shape sizes;
  Placements from, to;            // of the values
  Placements grad_from, grad_to;  // of the gradient that comes and of the one that goes on
};

struct Redistribute : Function<Redistribute> {
  static Tensor forward(Context& context, const Tensor& local, const Plan& plan) {
    context.data["plan"] = plan;
    const Tensor result = Change(plan.mesh, plan.sizes, plan.from, plan.to).apply(local);
    return result.is_same(local) ? local.view_as(local) : result;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const auto plan = std::any_cast<Plan>(context.data["plan"]);
    const Plan back{.mesh = plan.mesh,
                    .sizes = plan.sizes,
                    .from = plan.grad_from,
                    .to = plan.grad_to,
                    .grad_from = of_gradient(plan.grad_to),
                    .grad_to = of_gradient(plan.grad_from)};
    return {Redistribute::apply(grads[0], back), Tensor()};
  }
};

bool only_sums(const Placements& placements) {
  return std::ranges::none_of(placements, [](const Placement& placement) {
    return placement.is_partial() && placement.op != ReduceOp::sum;
  });
}

}  // namespace

std::string to_string(const Placement& placement) {
  if (placement.is_shard()) return concat("Shard(", placement.dim, ")");
  return placement.is_partial() ? concat("Partial(", name(placement.op), ")") : "Replicate";
}

DimRange dim_range(int64_t size, int ranks, int coordinate) {
  const int64_t each = size / ranks, longer = size % ranks;
  return {.begin = each * coordinate + std::min<int64_t>(coordinate, longer),
          .size = each + (coordinate < longer ? 1 : 0)};
}

Shape local_sizes(const Shape& sizes, const DeviceMesh& mesh, const Placements& placements) {
  Shape local = sizes;
  for (int dim = 0; dim < sizes.size(); ++dim)
    local[dim] = extent(sizes, mesh, placements, dim, mesh.dims());
  return local;
}

ShardedTensor::ShardedTensor(Tensor local, DeviceMesh mesh, Placements placements, Shape sizes)
    : local_(std::move(local)), mesh_(std::move(mesh)), sizes_(std::move(sizes)) {
  placements_ = checked(std::move(placements), mesh_, sizes_.size(), "ShardedTensor");
  const Shape expected = local_sizes(sizes_, mesh_, placements_);
  check_as<ValueError>(local_.sizes() == expected,
                       "ShardedTensor: this rank's part of a tensor of ", "shape ", sizes_,
                       " must have shape ", expected, ", got ", local_.sizes());
}

Tensor ShardedTensor::to_local(Placements grad_placements) const {
  if (grad_placements.empty() || !local_.requires_grad() || !is_grad_enabled()) return local_;
  return Redistribute::apply(local_, Plan{.mesh = mesh_,
                                          .sizes = sizes_,
                                          .from = placements_,
                                          .to = placements_,
                                          .grad_from = checked(std::move(grad_placements), mesh_,
                                                               sizes_.size(), "to_local"),
                                          .grad_to = of_gradient(placements_)});
}

ShardedTensor ShardedTensor::redistribute(const Placements& placements) const {
  const Placements to = checked(placements, mesh_, sizes_.size(), "redistribute");
  if (to == placements_) return *this;
  const bool records = local_.requires_grad() && is_grad_enabled();
  check_as<NotImplementedError>(!records || (only_sums(placements_) && only_sums(to)),
                                "redistribute: only Partial(sum) has a gradient");
  const Plan plan{.mesh = mesh_,
                  .sizes = sizes_,
                  .from = placements_,
                  .to = to,
                  .grad_from = of_gradient(to),
                  .grad_to = of_gradient(placements_)};
  return {Redistribute::apply(local_, plan), mesh_, to, sizes_};
}

Tensor ShardedTensor::full_tensor() const {
  return redistribute(Placements(placements_.size())).to_local();
}

ShardedTensor distribute_tensor(const Tensor& whole, const DeviceMesh& mesh,
                                Placements placements) {
  const no_grad silent;
  const Placements to = checked(std::move(placements), mesh, whole.dim(), "distribute_tensor");
  const Tensor values = whole.detach().contiguous().clone();
  for (int i = mesh.dims(); i-- > 0;) mesh.group(i).broadcast(data_of(values), 0)->wait();
  Tensor local = Change(mesh, values.sizes(), Placements(to.size()), to).apply(values);
  local.requires_grad_(whole.requires_grad());
  return {local, mesh, to, values.sizes()};
}

}  // namespace tensora::distributed
