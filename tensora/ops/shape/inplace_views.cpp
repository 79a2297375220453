// Registers nothing: functions of other ops.
#include "tensora/ops/shape/inplace_views.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/core/deferred.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/as_strided.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

void check_not_traced(std::string_view op) {
  check(!thread_state.interceptor, op,
        "_: a change of sizes in place cannot be traced; use the form that returns a view");
}

// Gives `self`, which is a view itself, the place of `view` among the views of their base.
void move_to(const Tensor& self, const Tensor& view) {
  AutogradMeta& to = autograd_meta(self);
  const AutogradMeta& from = autograd_meta(view);
  to.view = from.view;
  to.view.seen_version = self.version();
  if (!from.grad_fn) return;
  if (to.retains_grad) to.grad_fn->remove_hook(to.retain_hook);
  set_history(self, from.grad_fn, from.output);
  if (to.retains_grad) keep_gradient(to);
}

// Gives `self` the geometry and the history of a view of it.
const Tensor& become(const Tensor& self, const Tensor& view) {
  if (view.is_same(self)) return self;
  TensorImpl& impl = self.impl();
  impl.view = view.impl().view;
  impl.offset = view.impl().offset;
  // Nothing was written, but what a gradient saved of this tensor has other sizes now.
  impl.storage->bump_version();
  if (self.is_view())
    move_to(self, view);
  else if (view.requires_grad())
    rebase_history(self, autograd_meta(view).grad_fn);
  return self;
}

template <class ViewOf>
const Tensor& in_place(const Tensor& self, std::string_view op, const ViewOf& view_of) {
  check_not_traced(op);
  check(!(self.requires_grad() && self.is_leaf()), op,
        "_: a leaf tensor that requires grad cannot change its sizes in place; use the form that "
        "returns a view");
  check_inplace(self, op, is_grad_enabled() && self.requires_grad());
  return become(self, view_of());
}

// A storage that holds `count` elements, the first of which are those of `self`'s.
IntrusivePtr<Storage> grown_storage(const Tensor& self, int64_t count) {
  const IntrusivePtr<Storage>& old = self.impl().storage;
  check(owner_count(*old) == 1, "resize_: the storage of ", old->bytes(),
        " bytes is too small and is shared with another tensor, so that it cannot grow; clone the "
        "tensor first");
  const no_grad silent;
  const Tensor larger = make_tensor({count}, self.dtype(), self.device());
  const auto kept = static_cast<int64_t>(old->bytes() / self.element_size());
  const Tensor before = make_view(old, {kept}, {1}, 0, self.dtype());
  if (kept > 0 && !self.is_meta()) copy_(narrow(larger, 0, 0, kept), before);
  return larger.impl().storage;
}

}  // namespace

const Tensor& squeeze_(const Tensor& self) {
  return in_place(self, "squeeze", [&] { return squeeze(self); });
}
const Tensor& squeeze_(const Tensor& self, const Dims& dim) {
  return in_place(self, "squeeze", [&] { return squeeze(self, dim); });
}
const Tensor& unsqueeze_(const Tensor& self, int64_t dim) {
  return in_place(self, "unsqueeze", [&] { return unsqueeze(self, dim); });
}
const Tensor& transpose_(const Tensor& self, int64_t dim0, int64_t dim1) {
  return in_place(self, "transpose", [&] { return transpose(self, dim0, dim1); });
}
const Tensor& swapaxes_(const Tensor& self, int64_t axis0, int64_t axis1) {
  return transpose_(self, axis0, axis1);
}
const Tensor& swapdims_(const Tensor& self, int64_t dim0, int64_t dim1) {
  return transpose_(self, dim0, dim1);
}
const Tensor& t_(const Tensor& self) {
  return in_place(self, "t", [&] { return t(self); });
}
const Tensor& as_strided_(const Tensor& self, const Shape& size, const Strides& stride,
                          std::optional<int64_t> storage_offset) {
  return in_place(self, "as_strided",
                  [&] { return as_strided(self, size, stride, storage_offset); });
}

const Tensor& resize_(const Tensor& self, const Shape& size) {
  check_not_traced("resize");
  check(!self.requires_grad(),
        "resize_: a tensor that requires grad cannot be resized; resize "
        "its detached alias, or use a slice");
  check_inplace(self, "resize", false);
  for (int64_t length : size) check(length >= 0, "resize_: sizes must not be negative, got ", size);
  if (size == self.sizes()) return self;
  TensorImpl& impl = self.impl();
  const Strides strides = contiguous_strides(size);
  const int64_t count = size.numel() == 0 ? 0 : impl.offset + size.numel();
  const bool fits = static_cast<size_t>(count) * self.element_size() <= impl.storage->bytes();
  const IntrusivePtr<Storage> storage = fits ? impl.storage : grown_storage(self, count);
  const Tensor resized = make_view(storage, size, strides, impl.offset, self.dtype());
  delete std::exchange(impl.autograd, nullptr);  // it is no longer the view that it may have been
  impl.storage = storage;
  impl.view = resized.impl().view;
  impl.storage->bump_version();
  return self;
}

const Tensor& resize_as_(const Tensor& self, const Tensor& the_template) {
  return resize_(self, the_template.sizes());
}

}  // namespace tensora
