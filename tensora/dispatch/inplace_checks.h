#pragma once

// Internal header: what a call in place has to look out for, a part of apply.cpp.

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/op_node.h"

namespace tensora {

// In-place: the result must fit into the first input as it is.
inline void check_result_fits(const OpBase& op, const Tensor& target, const OutputSpec& spec) {
  check(spec.sizes == target.sizes(), op.name, "_: the result of shape ", spec.sizes,
        " does not fit in place into shape ", target.sizes());
  const bool fits = dtype_info(spec.dtype).category <= dtype_info(target.dtype()).category;
  check(fits, op.name, "_: a result of dtype ", spec.dtype, " cannot be stored in place as ",
        target.dtype());
  check(!may_overlap_itself(target.sizes(), target.strides()), op.name,
        "_: several elements of the tensor share one memory location (it was expanded); clone it");
}

// Where a tensor's first element lies. A storage without memory begins at 0.
inline uintptr_t address_of(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.impl().storage->data()) +
         static_cast<uintptr_t>(bytes_of(tensor.dtype(), tensor.storage_offset()));
}

// The memory that a tensor's elements lie in, from the first byte to one past the last.
inline std::pair<uintptr_t, uintptr_t> span_of(const Tensor& tensor) {
  const View& view = tensor.view_of_data();
  int64_t reach = 0;
  for (int i = 0; i < view.dim(); ++i) reach += view.strides[i] * (view.sizes[i] - 1);
  const uintptr_t first = address_of(tensor);
  return {first, first + static_cast<uintptr_t>(bytes_of(view.dtype, reach + 1))};
}

// Whether the op might read elements of input `i` that it has already overwritten. Input `i` is
// allowed to be its own target, and a pointwise op may read a tensor that has exactly the address,
// sizes and strides of a target.
inline bool is_overwritten_early(const OpBase& op, std::span<const Tensor> targets, Args inputs,
                                 size_t i) {
  const Tensor& input = *inputs[i];
  if (!input.defined() || input.numel() == 0) return false;
  const View& b = input.view_of_data();
  for (size_t k = 0; k < targets.size(); ++k) {
    if (k == i || !shares_memory(input, targets[k]) || targets[k].numel() == 0) continue;
    const View& a = targets[k].view_of_data();
    const auto [a_first, a_last] = span_of(targets[k]);
    const auto [b_first, b_last] = span_of(input);
    if (op.pointwise && a_first == b_first && a.sizes == b.sizes && a.strides == b.strides)
      continue;
    if (a_first < b_last && b_first < a_last) return true;
  }
  return false;
}

}  // namespace tensora
