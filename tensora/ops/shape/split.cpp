#include "tensora/ops/shape/split.h"

#include <algorithm>
#include <iterator>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/shape/as_strided.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<UnbindAttrs>) {
  return fields(field("dim", &UnbindAttrs::dim));
}
constexpr auto describe(std::type_identity<SplitAttrs>) {
  using A = SplitAttrs;
  return fields(field("dim", &A::dim), field("size", &A::size), field("sizes", &A::sizes));
}

namespace {

// Calls body(start, length) for every part of a dim of `total` elements.
template <class Body>
void for_each_part(const SplitAttrs& attrs, int64_t total, Body&& body) {
  int64_t start = 0;
  for (int64_t size : attrs.sizes) {
    body(start, size);
    start += size;
  }
  if (!attrs.sizes.empty()) return;
  do {
    const int64_t size = std::min(attrs.size, total - start);
    body(start, size);
    start += size;
  } while (start < total);
}

void check_split(const Infer& infer, const SplitAttrs& attrs) {
  infer.check(infer[0].dim() > 0, "expected a tensor with at least one dimension");
  const int64_t total = infer[0].size(attrs.dim);
  if (attrs.sizes.empty()) {
    infer.check(attrs.size >= 0, "split_size must not be negative, got ", attrs.size);
    infer.check(attrs.size > 0 || total == 0,
                "split_size can be 0 only if the dimension's size is 0, but that is ", total);
    return;
  }
  int64_t sum = 0;
  for (int64_t size : attrs.sizes) {
    infer.check(size >= 0, "split sizes must not be negative, got ", attrs.sizes);
    sum = add_sizes(sum, size, infer.op);
  }
  infer.check(sum == total, "the split sizes ", attrs.sizes, " must add up to ", total,
              ", the size of dimension ", attrs.dim, ", but give ", sum);
}

// The gradient of a part that nothing depended on: zeros that take no memory.
Tensor zeros_like_part(const Vjp& vjp, size_t parts, const Shape& sizes) {
  Device device;
  for (size_t i = 0; i < parts; ++i)
    if (vjp.grad(i).defined()) device = vjp.grad(i).device();
  return expand(zeros({}, {.dtype = vjp.input_dtype(0), .device = device}), sizes);
}

// The tensor of which `parts` are the slices along `dim`, where they lie in memory as in a
// contiguous one; otherwise undefined. A gradient that was computed in one piece is then not put
// together again.
Tensor already_stacked(const std::vector<Tensor>& parts, const Shape& sizes, int dim) {
  if (is_grad_enabled() || sizes.numel() == 0) return {};
  const Strides whole = contiguous_strides(sizes);
  Strides strides = whole;
  strides.erase(dim);
  const Tensor& first = parts[0];
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].strides() != strides || parts[i].dtype() != first.dtype() ||
        parts[i].impl().storage != first.impl().storage ||
        parts[i].storage_offset() != first.storage_offset() + static_cast<int64_t>(i) * whole[dim])
      return {};
  return as_strided(first, sizes, whole, first.storage_offset());
}

std::vector<Tensor> to_vector(Tensors tensors) {
  return {std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())};
}

}  // namespace

constinit OpDef<SplitAttrs> split_op = define(Op<SplitAttrs>{
    .name = "split",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const SplitAttrs& attrs) {
          const Tensor& x = infer[0];
          const int dim = wrap_dim(attrs.dim, x.dim(), infer.op);
          check_split(infer, attrs);
          for_each_part(attrs, x.sizes()[dim], [&](int64_t start, int64_t length) {
            Shape sizes = x.sizes();
            sizes[dim] = length;
            const int64_t skipped = length == 0 ? 0 : start * x.strides()[dim];
            infer.view(sizes, x.strides(), x.storage_offset() + skipped);
          });
        },
    .vjp =
        [](Vjp& vjp, const SplitAttrs& attrs) {
          Shape sizes = vjp.input_sizes(0);
          const int dim = wrap_dim(attrs.dim, sizes.size(), "split");
          std::vector<int64_t> lengths;
          for_each_part(attrs, sizes[dim],
                        [&](int64_t, int64_t length) { lengths.push_back(length); });
          std::vector<Tensor> parts;
          for (size_t i = 0; i < lengths.size(); ++i) {
            sizes[dim] = lengths[i];
            parts.push_back(vjp.grad(i).defined() ? vjp.grad(i)
                                                  : zeros_like_part(vjp, lengths.size(), sizes));
          }
          vjp.set(0, cat(parts, dim));
        },
    .view = true,
});

constinit OpDef<UnbindAttrs> unbind_op = define(Op<UnbindAttrs>{
    .name = "unbind",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const UnbindAttrs& attrs) {
          const Tensor& x = infer[0];
          infer.check(x.dim() > 0, "expected a tensor with at least one dimension");
          const int dim = wrap_dim(attrs.dim, x.dim(), infer.op);
          Shape sizes = x.sizes();
          Strides strides = x.strides();
          sizes.erase(dim);
          strides.erase(dim);
          for (int64_t i = 0; i < x.sizes()[dim]; ++i)
            infer.view(sizes, strides, x.storage_offset() + i * x.strides()[dim]);
        },
    .vjp =
        [](Vjp& vjp, const UnbindAttrs& attrs) {
          Shape sizes = vjp.input_sizes(0);
          const int dim = wrap_dim(attrs.dim, sizes.size(), "unbind");
          const auto count = static_cast<size_t>(sizes[dim]);
          sizes.erase(dim);
          std::vector<Tensor> parts;
          for (size_t i = 0; i < count; ++i)
            parts.push_back(vjp.grad(i).defined() ? vjp.grad(i)
                                                  : zeros_like_part(vjp, count, sizes));
          const Tensor whole = already_stacked(parts, vjp.input_sizes(0), dim);
          vjp.set(0, whole.defined() ? whole : stack(parts, dim));
        },
    .view = true,
});

void register_split(OpRegistry& registry) {
  registry.add(split_op);
  registry.add(unbind_op);
}

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) {
  return to_vector(apply_all(split_op, {self}, {dim, split_size}));
}

std::vector<Tensor> split_with_sizes(const Tensor& self, const std::vector<int64_t>& split_sizes,
                                     int64_t dim) {
  check(!split_sizes.empty(), "split: the list of sizes must not be empty");
  if (split_sizes.size() <= kMaxDims)
    return to_vector(apply_all(split_op, {self}, {dim, 0, Shape(split_sizes)}));
  // More sizes than an op's attributes hold: part by part.
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t size : split_sizes) {
    parts.push_back(narrow(self, dim, start, size));
    start += size;
  }
  check(start == self.size(dim), "split: the split sizes must add up to ", self.size(dim),
        ", the size of dimension ", dim, ", but give ", start);
  return parts;
}

std::vector<Tensor> split(const Tensor& self, const std::vector<int64_t>& split_sizes,
                          int64_t dim) {
  return split_with_sizes(self, split_sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  check(self.dim() > 0, "chunk: expected a tensor with at least one dimension");
  check(chunks > 0, "chunk: chunks must be positive, got ", chunks);
  const int64_t total = self.size(dim);
  if (total == 0)
    return split_with_sizes(self, std::vector<int64_t>(static_cast<size_t>(chunks), 0), dim);
  return split(self, total / chunks + (total % chunks != 0), dim);
}

std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim) {
  check(self.dim() > 0, "tensor_split: expected a tensor with at least one dimension");
  check(sections > 0, "tensor_split: sections must be positive, got ", sections);
  const int64_t total = self.size(dim);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(total / sections + (i < total % sections ? 1 : 0));
  return split_with_sizes(self, sizes, dim);
}

std::vector<Tensor> tensor_split(const Tensor& self, const std::vector<int64_t>& indices,
                                 int64_t dim) {
  check(self.dim() > 0, "tensor_split: expected a tensor with at least one dimension");
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t end : indices) {
    parts.push_back(slice(self, dim, start, end));
    start = end;
  }
  parts.push_back(slice(self, dim, start));
  return parts;
}

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  return to_vector(apply_all(unbind_op, {self}, {dim}));
}

}  // namespace tensora
