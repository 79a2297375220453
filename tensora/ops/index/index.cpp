// Registers nothing: functions of other ops.
#include "tensora/ops/index/index.h"

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/index/index_ops.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/fill.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/nonzero.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/split.h"

namespace tensora {
namespace {

using Kind = TensorIndex::Kind;

bool is_mask(const Tensor& tensor) { return tensor.dtype() == kBool || tensor.dtype() == kUInt8; }

// How many dims of the tensor an entry stands for.
int dims_used(const TensorIndex& entry) {
  switch (entry.kind) {
    case Kind::integer:
    case Kind::slice:
      return 1;
    case Kind::tensor:
      return is_mask(entry.tensor) ? entry.tensor.dim() : 1;
    default:
      return 0;
  }
}

/// Indices taken apart: first a view, then integer tensors along some of its dims.
class Resolved {
 public:
  Resolved(const Tensor& x, TensorIndices indices, std::string_view op) : view_(x), op_(op) {
    int used = 0, ellipses = 0;
    for (const TensorIndex& entry : indices) {
      used += dims_used(entry);
      ellipses += entry.kind == Kind::ellipsis;
    }
    check(ellipses <= 1, op, ": only one ellipsis is allowed, got ", ellipses);
    check(used <= x.dim(), op, x.dim() == 0 ? ": invalid index of a 0-dim tensor:" : ":",
          " too many indices (", used, ") for a tensor of ", x.dim(), " dimensions");
    const int left_over = x.dim() - used;
    for (const TensorIndex& entry : indices) {
      add(entry, left_over);
      source_dim_ += entry.kind == Kind::ellipsis ? left_over : dims_used(entry);
    }
  }

  const Tensor& view() const { return view_; }
  const Dims& dims() const { return dims_; }
  bool has_tensors() const { return !dims_.empty(); }
  /// `front` followed by the index tensors.
  SmallVector<Arg, 8> inputs(std::initializer_list<Arg> front) const {
    SmallVector<Arg, 8> result(front);
    for (const Tensor& index : indices_) result.emplace_back(index);
    return result;
  }
  Shape sizes() const {
    if (!has_tensors()) return view_.sizes();
    SmallVector<const Shape*, kMaxDims> index_sizes;
    for (const Tensor& index : indices_) index_sizes.push_back(&index.sizes());
    return indexed_shape(view_.sizes(), dims_, {index_sizes.data(), index_sizes.size()}, op_).sizes;
  }

 private:
  void add(const TensorIndex& entry, int left_over) {
    switch (entry.kind) {
      case Kind::none:
        view_ = unsqueeze(view_, next_++);
        break;
      case Kind::ellipsis:
        next_ += left_over;
        break;
      case Kind::integer:
        select_one(entry.integer);
        break;
      case Kind::slice:
        add_slice(entry.slice);
        break;
      case Kind::boolean:
        add_mask(full({}, entry.integer != 0, {.dtype = kBool, .device = view_.device()}));
        break;
      case Kind::tensor:
        add_tensor(entry.tensor);
        break;
    }
  }

  // Checked here: `select` would name a dim of the view, not of the tensor.
  void select_one(int64_t index) {
    const int64_t size = view_.sizes()[next_];
    check_as<IndexError>(index >= -size && index < size, op_, ": index ", index,
                         " is out of bounds for dimension ", source_dim_, " with size ", size);
    view_ = select(view_, next_, index);
  }

  void add_slice(const Slice& part) {
    const bool whole = part.start.value_or(0) == 0 && !part.stop && part.step == 1;
    if (!whole) view_ = slice(view_, next_, part.start, part.stop, part.step);
    ++next_;
  }

  void add_tensor(const Tensor& tensor) {
    if (is_mask(tensor)) return add_mask(tensor);
    const DType dtype = tensor.dtype();
    // As in PyTorch, a 0-dim index of any integer dtype counts as a plain integer.
    if (tensor.dim() == 0 && is_integral(dtype)) {
      return select_one(tensor.item<int64_t>());
    }
    check(dtype == kInt64 || dtype == kInt32, op_,
          ": index tensors must be int64, int32, bool or uint8, got ", dtype);
    add_index(to(tensor, view_.device()));
  }

  void add_mask(const Tensor& mask) {
    if (mask.dim() == 0) {
      view_ = unsqueeze(view_, next_);
      return add_index(reshape(nonzero(reshape(mask, {1})), {-1}));
    }
    for (int d = 0; d < mask.dim(); ++d)
      check(mask.sizes()[d] == view_.sizes()[next_ + d], op_, ": a mask of shape ", mask.sizes(),
            " does not match the indexed tensor of shape ", view_.sizes(), " at dimension ",
            next_ + d);
    for (const Tensor& positions : unbind(nonzero(mask), 1))
      add_index(to(positions, view_.device()));
  }

  void add_index(const Tensor& positions) {
    dims_.push_back(next_++);
    indices_.push_back(positions);
  }

  Tensor view_;
  std::string_view op_;
  Dims dims_;
  SmallVector<Tensor, 2> indices_;
  int next_ = 0;        // the dim of view_ that the next entry is about
  int source_dim_ = 0;  // the same of the tensor that is indexed
};

// The value in a shape that broadcasts to `shape`. Surplus leading dims of size 1 are dropped, as
// in PyTorch.
Tensor fitted(const Tensor& value, const Shape& shape, const Tensor& target) {
  Shape sizes = value.sizes();
  while (sizes.size() > shape.size() && sizes[0] == 1) sizes.erase(0);
  check(can_broadcast_to(sizes, shape), "index_put_: shape mismatch: a value of shape ",
        value.sizes(), " cannot be broadcast to the indexed shape ", shape);
  Tensor result = sizes.size() == value.dim() ? value : reshape(value, sizes);
  result = to(result, target.device(), target.dtype());
  return result.sizes() == shape ? result : expand(result, shape);
}

}  // namespace

Tensor index(const Tensor& x, TensorIndices indices) {
  const Resolved at(x, indices, "index");
  if (at.has_tensors()) {
    Tensor result = apply(index_op, at.inputs({at.view()}), {at.dims()});
    result.impl().selected_copy = true;
    return result;
  }
  return at.view().is_same(x) ? view(x, x.sizes()) : at.view();
}

const Tensor& index_put_(const Tensor& x, TensorIndices indices, const Tensor& value,
                         bool accumulate) {
  const Resolved at(x, indices, "index_put_");
  const Tensor& target = at.view();
  const Tensor values = fitted(value, at.sizes(), target);
  if (at.has_tensors()) {
    const IndexPutAttrs attrs{at.dims(), accumulate};
    detail::apply_inplace(index_put_op, at.inputs({target, values}), &attrs);
  } else if (accumulate) {
    add_(target, values);
  } else {
    copy_(target, values);
  }
  return x;
}

const Tensor& index_put_(const Tensor& x, TensorIndices indices, Scalar value) {
  return index_put_(x, indices, full({}, value, {.dtype = x.dtype(), .device = x.device()}));
}

// ---- what Tensor declares --------------------------------------------------------------------

Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return tensora::index(*this, {indices.begin(), indices.size()});
}

Tensor Tensor::index(const std::vector<TensorIndex>& indices) const {
  return tensora::index(*this, indices);
}

Tensor Tensor::operator[](const TensorIndex& index) const {
  return tensora::index(*this, {&index, 1});
}

const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices,
                                 const Tensor& value) const {
  return tensora::index_put_(*this, {indices.begin(), indices.size()}, value);
}

const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, Scalar value) const {
  return tensora::index_put_(*this, {indices.begin(), indices.size()}, value);
}

const Tensor& Tensor::index_put_(const std::vector<TensorIndex>& indices,
                                 const Tensor& value) const {
  return tensora::index_put_(*this, indices, value);
}

const Tensor& Tensor::index_put_(const std::vector<TensorIndex>& indices, Scalar value) const {
  return tensora::index_put_(*this, indices, value);
}

const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value,
                                 bool accumulate) const {
  return tensora::index_put_(*this, {indices.begin(), indices.size()}, value, accumulate);
}

const Tensor& Tensor::index_put_(const std::vector<TensorIndex>& indices, const Tensor& value,
                                 bool accumulate) const {
  return tensora::index_put_(*this, indices, value, accumulate);
}

namespace {
void require_not_selected(const Tensor& target) {
  check(target.defined(), "operator=: the temporary tensor that is written to is undefined");
  check(!target.impl().selected_copy,
        "operator=: indices with tensors select a copy, so that assigning to it would change "
        "nothing else; use x.index_put_({...}, value)");
}
}  // namespace

const Tensor& Tensor::write(const Tensor& value) const {
  require_not_selected(*this);
  return tensora::copy_(*this, value);
}

const Tensor& Tensor::write(Scalar value) const {
  require_not_selected(*this);
  return tensora::fill_(*this, value);
}

}  // namespace tensora
