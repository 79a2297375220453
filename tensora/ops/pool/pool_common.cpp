// Registers nothing: the rule and the definitions that max_pool and avg_pool share.
#include "tensora/ops/pool/pool_common.h"

#include <algorithm>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/memory_format.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora::pool {
namespace {

// PyTorch's rule: with ceil_mode the last window may begin inside the padding's end, but not in it.
int64_t pooled_size(const Infer& infer, int64_t in, const PoolAttrs& attrs, int d) {
  const int64_t stride = attrs.stride[d], padding = attrs.padding[d];
  const int64_t reach =
      add_sizes(multiply_sizes(attrs.dilation[d], attrs.kernel_size[d] - 1, infer.op), 1, infer.op);
  const int64_t padded = add_sizes(in, 2 * padding, infer.op);
  const int64_t room = add_sizes(padded - reach, attrs.ceil_mode ? stride - 1 : 0, infer.op);
  int64_t out = room < 0 ? 0 : room / stride + 1;
  if (attrs.ceil_mode && (out - 1) * stride >= in + padding) --out;
  infer.check(out > 0, "a window of ", reach, " does not fit into size ", in, " with padding ",
              padding, " of pooled dim ", d);
  return out;
}

void check_window(const Infer& infer, const PoolAttrs& attrs) {
  const int dims = attrs.dims();
  for (const auto& [list, name] : {std::pair{&attrs.stride, "stride"},
                                   {&attrs.padding, "padding"},
                                   {&attrs.dilation, "dilation"}})
    infer.check(list->size() == dims, name, " must have ", dims, " entries, got ", *list);
  // Below this no sum of positions overflows, in the 32 bits of a GPU's kernels neither.
  constexpr int64_t kMost = int64_t{1} << 30;
  for (const auto& [list, name] : {std::pair{&attrs.kernel_size, "kernel_size"},
                                   {&attrs.stride, "stride"},
                                   {&attrs.dilation, "dilation"}})
    for (int64_t value : *list)
      infer.check(value < kMost, name, " must be below 2^30, got ", *list);
  for (int d = 0; d < dims; ++d) {
    infer.check(attrs.kernel_size[d] > 0, "kernel_size must be positive, got ", attrs.kernel_size);
    infer.check(attrs.stride[d] > 0, "stride must be positive, got ", attrs.stride);
    infer.check(attrs.dilation[d] > 0, "dilation must be positive, got ", attrs.dilation);
    infer.check(attrs.padding[d] >= 0 && attrs.padding[d] <= attrs.kernel_size[d] / 2,
                "padding must be from 0 to half of kernel_size, got padding ", attrs.padding,
                " and kernel_size ", attrs.kernel_size);
  }
}

// Row o holds the positions of window o, padded by repeating one of them.
struct Table {
  std::vector<int64_t> positions = {};
  std::vector<int64_t> inside = {};
  int64_t width = 0;
};
Table window_table(const WindowDim& dim) {
  Table table{.width = 1};
  const auto count = [&](int64_t o) {
    return (dim.end(o) - dim.first(o) + dim.dilation - 1) / dim.dilation;
  };
  for (int64_t o = 0; o < dim.out; ++o) table.width = std::max(table.width, count(o));
  for (int64_t o = 0; o < dim.out; ++o)
    for (int64_t k = 0; k < table.width; ++k) {
      const int64_t at = dim.first(o) + std::min(k, count(o) - 1) * dim.dilation;
      table.positions.push_back(std::clamp<int64_t>(at, 0, dim.in - 1));
      table.inside.push_back(k < count(o));
    }
  return table;
}

}  // namespace

Windows windows_of(const Shape& sizes, const PoolAttrs& attrs) {
  Windows windows;
  const int dims = attrs.dims(), first = sizes.size() - dims;
  for (int d = 0; d < dims; ++d) {
    WindowDim& dim = windows.dims[3 - dims + d];
    dim.in = sizes[first + d];
    if (!attrs.output_size.empty()) {
      dim.out = attrs.output_size[d];
      dim.adaptive = true;
      // Parts of equal length are plain windows.
      if (dim.out > 0 && dim.in % dim.out == 0) {
        dim.kernel = dim.stride = dim.in / dim.out;
        dim.adaptive = false;
      }
      continue;
    }
    dim.kernel = attrs.kernel_size[d];
    dim.stride = attrs.stride[d];
    dim.padding = attrs.padding[d];
    dim.dilation = attrs.dilation[d];
    const int64_t padded = dim.in + 2 * dim.padding;
    const int64_t room =
        padded - (dim.kernel - 1) * dim.dilation - 1 + (attrs.ceil_mode ? dim.stride - 1 : 0);
    dim.out = room / dim.stride + 1;
    if (attrs.ceil_mode && (dim.out - 1) * dim.stride >= dim.in + dim.padding) --dim.out;
    // With ceil_mode a window may be far larger than the input; what lies beyond is not visited.
    dim.kernel = std::min(dim.kernel, (padded - 1) / dim.dilation + 1);
    if (dim.out == 1) dim.stride = 1;
  }
  return windows;
}

View as_five_dims(const View& view, int pooled) {
  View result = view;
  result.sizes = Shape::filled(5, 1);
  result.strides = Shape::filled(5, 0);
  const int lead = view.dim() - pooled;
  for (int d = 0; d < view.dim(); ++d) {
    const int to = d < lead ? d + 2 - lead : d - lead + 5 - pooled;
    result.sizes[to] = view.sizes[d];
    result.strides[to] = view.strides[d];
  }
  return result;
}

Tensor in_layout(const Tensor& x, bool channels_last) {
  if (!channels_last) return contiguous(x);
  return contiguous(x, x.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d);
}

Tensor gradient_of_none(const Tensor& grad, const Shape& input_sizes) {
  if (grad.numel() > 0) return {};
  return zeros(input_sizes, {.dtype = grad.dtype(), .device = grad.device()});
}

Shape check_pool(const Infer& infer, const PoolAttrs& attrs) {
  const Shape& sizes = infer[0].sizes();
  const int dims = attrs.dims();
  infer.check(dims >= 1 && dims <= 3, "expected one to three pooled dims, got ", dims);
  infer.check(sizes.size() == dims + 1 || sizes.size() == dims + 2, "input must have ", dims + 1,
              " or ", dims + 2, " dims, got shape ", sizes);
  const int lead = sizes.size() - dims;
  for (int d = lead - 1; d < sizes.size(); ++d)
    infer.check(sizes[d] > 0 || (d < lead && !attrs.output_size.empty()),
                "only the batch of input may be empty, got shape ", sizes);
  Shape result = sizes;
  if (attrs.output_size.empty()) check_window(infer, attrs);
  for (int d = 0; d < dims; ++d) {
    int64_t& size = result[lead + d];
    if (attrs.output_size.empty()) {
      size = pooled_size(infer, size, attrs, d);
      continue;
    }
    size = attrs.output_size[d];
    infer.check(size >= 0, "output_size must not be negative, got ", attrs.output_size);
  }
  return result;
}

Shape per_dim(const Shape& values, int dims, std::string_view op, std::string_view argument) {
  check(values.size() == 1 || values.size() == dims, op, ": ", argument,
        " must be a single int or have ", dims, " entries, got ", values);
  return values.size() == dims ? values : Shape::filled(dims, values[0]);
}

PoolAttrs pool_attrs(std::string_view op, int dims, const Shape& kernel_size, const Shape& stride,
                     const Shape& padding, const Shape& dilation, bool ceil_mode) {
  PoolAttrs attrs;
  attrs.kernel_size = per_dim(kernel_size, dims, op, "kernel_size");
  attrs.stride = stride.empty() ? attrs.kernel_size : per_dim(stride, dims, op, "stride");
  attrs.padding = per_dim(padding, dims, op, "padding");
  attrs.dilation = per_dim(dilation, dims, op, "dilation");
  attrs.ceil_mode = ceil_mode;
  return attrs;
}

PoolAttrs adaptive_attrs(std::string_view op, int dims, const Tensor& input,
                         const Shape& output_size) {
  PoolAttrs attrs;
  attrs.output_size = per_dim(output_size, dims, op, "output_size");
  check(input.dim() >= dims, op, ": input must have ", dims + 1, " or ", dims + 2,
        " dims, got shape ", input.sizes());
  for (int d = 0; d < dims; ++d)
    if (attrs.output_size[d] == -1) attrs.output_size[d] = input.sizes()[input.dim() - dims + d];
  return attrs;
}

std::array<Tensor, 3> unfold_windows(const Tensor& input, const PoolAttrs& attrs) {
  const Windows windows = windows_of(input.sizes(), attrs);
  const int dims = attrs.dims(), lead = input.dim() - dims;
  Tensor values = input, all_inside, positions;
  Dims order;
  for (int d = 0; d < lead; ++d) order.push_back(d);
  for (int d = 0; d < dims; ++d) order.push_back(lead + 2 * d);
  for (int d = 0; d < dims; ++d) order.push_back(lead + 2 * d + 1);
  for (int d = 0; d < dims; ++d) {
    const WindowDim& dim = windows.dims[3 - dims + d];
    const Table table = window_table(dim);
    const TensorOptions options{.dtype = kInt64, .device = input.device()};
    const Tensor at = tensor(table.positions, options);
    const Tensor inside = to(tensor(table.inside, options), kBool);
    values =
        unflatten(index_select(values, lead + 2 * d, at), lead + 2 * d, {dim.out, table.width});
    Shape along = Shape::filled(2 * dims, 1);
    along[d] = dim.out;
    along[dims + d] = table.width;
    const Tensor place = reshape(at, along), there = reshape(inside, along);
    positions = d == 0 ? place : positions * dim.in + place;
    all_inside = d == 0 ? there : logical_and(all_inside, there);
  }
  values = flatten(permute(values, order), lead + dims, -1);
  positions = flatten(positions, dims, -1);
  all_inside = flatten(all_inside, dims, -1);
  return {values, all_inside, positions};
}

}  // namespace tensora::pool
