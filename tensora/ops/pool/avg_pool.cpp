#include "tensora/ops/pool/avg_pool.h"

#include <cmath>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pool/max_pool.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<AvgPoolBackwardAttrs>) {
  using A = AvgPoolBackwardAttrs;
  return fields(field("kernel_size", &A::kernel_size), field("stride", &A::stride),
                field("padding", &A::padding), field("dilation", &A::dilation),
                field("ceil_mode", &A::ceil_mode), field("output_size", &A::output_size),
                field("count_include_pad", &A::count_include_pad),
                field("divisor_override", &A::divisor_override), field("sizes", &A::sizes),
                field("channels_last", &A::channels_last));
}
constexpr auto describe(std::type_identity<AvgPoolAttrs>) {
  using A = AvgPoolAttrs;
  return fields(field("kernel_size", &A::kernel_size), field("stride", &A::stride),
                field("padding", &A::padding), field("dilation", &A::dilation),
                field("ceil_mode", &A::ceil_mode), field("output_size", &A::output_size),
                field("count_include_pad", &A::count_include_pad),
                field("divisor_override", &A::divisor_override));
}

namespace {

using pool::in_layout, pool::keeps_channels_last, pool::layout_strides;

constexpr DTypeSet kAveraged = dtypes_where([](const DTypeInfo& info) {
  return info.computes && (info.category == Category::floating || info.dtype == kInt64);
});

// What each window's sum is divided by, in the shape of the pooled dims.
Tensor divisors(const Shape& sizes, const AvgPoolAttrs& attrs, const Tensor& like) {
  const pool::Windows windows = pool::windows_of(sizes, attrs);
  const auto& dims = windows.dims;
  std::vector<int64_t> values;
  for (int64_t d = 0; d < dims[0].out; ++d)
    for (int64_t h = 0; h < dims[1].out; ++h)
      for (int64_t w = 0; w < dims[2].out; ++w)
        values.push_back(attrs.divisor().of(windows, d, h, w));
  Shape shape;
  for (int k = 3 - attrs.dims(); k < 3; ++k) shape.push_back(dims[k].out);
  return reshape(tensor(values, {.dtype = kInt64, .device = like.device()}), shape);
}

Tensor divided(const Tensor& sums, const Tensor& by) {
  return sums.is_floating_point() ? sums / to(by, sums.dtype()) : div(sums, by, "trunc");
}

Tensors avg_pool_reference(Args in, const AvgPoolAttrs& attrs) {
  const Tensor& x = *in[0];
  const auto [windows, inside, positions] = pool::unfold_windows(x, attrs);
  const Tensor sums = sum(where(inside, windows, 0), {-1});
  const bool last = keeps_channels_last(x.sizes(), x.strides());
  return Tensors{in_layout(divided(sums, divisors(x.sizes(), attrs, x)), last)};
}

Tensors avg_pool_backward_reference(Args in, const AvgPoolBackwardAttrs& attrs) {
  const Tensor& grad = *in[0];
  const Tensor zero = zeros(attrs.sizes, {.dtype = grad.dtype(), .device = grad.device()});
  const auto [windows, inside, positions] = pool::unfold_windows(zero, attrs);
  const int dims = attrs.dims();
  const Tensor shares = unsqueeze(divided(grad, divisors(attrs.sizes, attrs, grad)), -1);
  const Tensor parts = flatten(where(inside, shares, 0), -dims - 1, -1);
  const Tensor places = flatten(positions, 0, -1);
  const Tensor put =
      scatter_add(flatten(zero, -dims, -1), -1, expand(places, parts.sizes()), parts);
  return Tensors{in_layout(reshape(put, attrs.sizes), attrs.channels_last)};
}

Tensor averaged(std::string_view op, const Tensor& input, const PoolAttrs& attrs,
                bool count_include_pad = true, std::optional<int64_t> divisor_override = {}) {
  AvgPoolAttrs all;
  static_cast<PoolAttrs&>(all) = attrs;
  all.count_include_pad = count_include_pad;
  all.divisor_override = divisor_override;
  return called_as(op, [&] { return apply(avg_pool_op, {input}, all); });
}

Tensor adaptive(std::string_view op, int dims, const Tensor& input, const Shape& output_size) {
  check(input.is_floating_point(), op, ": expected a floating-point dtype, got ", input.dtype());
  const Shape sizes = pool::per_dim(output_size, dims, op, "output_size");
  // One window is a reduction. In 2-D and 3-D, PyTorch then takes inputs of any other dims too.
  const bool to_one = sizes == Shape::filled(dims, 1);
  const bool usual = input.dim() == dims + 1 || input.dim() == dims + 2;
  if (to_one && (usual || (dims > 1 && input.dim() >= dims))) {
    Dims pooled;
    for (int d = -dims; d < 0; ++d) pooled.push_back(d);
    return mean(input, pooled, true);
  }
  return averaged(op, input, pool::adaptive_attrs(op, dims, input, output_size));
}

Tensor lp_pooled(std::string_view op, int dims, const Tensor& input, double norm_type,
                 const Shape& kernel_size, const Shape& stride, bool ceil_mode) {
  check_as<ValueError>(norm_type != 0, op, ": norm_type must not be 0");
  if (std::isinf(norm_type) && norm_type > 0) {
    const Tensor sizes = abs(input);
    return dims == 1   ? max_pool1d(sizes, kernel_size, stride, 0, 1, ceil_mode)
           : dims == 2 ? max_pool2d(sizes, kernel_size, stride, 0, 1, ceil_mode)
                       : max_pool3d(sizes, kernel_size, stride, 0, 1, ceil_mode);
  }
  const PoolAttrs attrs = pool::pool_attrs(op, dims, kernel_size, stride, 0, 1, ceil_mode);
  const Tensor mean = averaged(op, pow(input, norm_type), attrs);
  const double count = static_cast<double>(attrs.kernel_size.numel());
  return pow(sign(mean) * relu(abs(mean)) * count, 1 / norm_type);
}

}  // namespace

constinit OpDef<AvgPoolAttrs> avg_pool_op = define(Op<AvgPoolAttrs>{
    .name = "avg_pool",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const AvgPoolAttrs& attrs) {
          const Shape sizes = pool::check_pool(infer, attrs);
          for (int64_t step : attrs.dilation)
            infer.check(step == 1, "windows cannot be dilated, got dilation ", attrs.dilation);
          // PyTorch does not count the padding here in 3-D.
          for (int d = 0; d < 3 && attrs.kernel_size.size() == 3; ++d)
            infer.check(infer[0].size(d - 3) >= attrs.kernel_size[d], "kernel_size ",
                        attrs.kernel_size, " is larger than the input, of shape ",
                        infer[0].sizes());
          infer.check(attrs.divisor_override != 0, "divisor_override must not be 0");
          const bool last = keeps_channels_last(infer[0].sizes(), infer[0].strides());
          infer.output(sizes, layout_strides(sizes, last), infer[0].dtype());
        },
    .reference = avg_pool_reference,
    .vjp =
        [](Vjp& vjp, const AvgPoolAttrs& attrs) {
          if (const Tensor none = pool::gradient_of_none(vjp.grad(), vjp.input_sizes(0));
              none.defined())
            return vjp.set(0, none);
          AvgPoolBackwardAttrs backward;
          static_cast<AvgPoolAttrs&>(backward) = attrs;
          backward.sizes = vjp.input_sizes(0);
          backward.channels_last = keeps_channels_last(vjp.grad().sizes(), vjp.grad().strides());
          vjp.set(0, apply(avg_pool_backward_op, {vjp.grad()}, backward));
        },
    .accepts = kAveraged,
});

constinit OpDef<AvgPoolBackwardAttrs> avg_pool_backward_op = define(Op<AvgPoolBackwardAttrs>{
    .name = "avg_pool_backward",
    .inputs = {"grad"},
    .internal = true,
    .infer =
        [](Infer& infer, const AvgPoolBackwardAttrs& attrs) {
          infer.output(attrs.sizes, layout_strides(attrs.sizes, attrs.channels_last),
                       infer[0].dtype());
        },
    .reference = avg_pool_backward_reference,
    .vjp =
        [](Vjp& vjp, const AvgPoolBackwardAttrs& attrs) {
          vjp.set(0, apply(avg_pool_op, {vjp.grad()}, attrs));
        },
    .accepts = kAveraged,
});

void register_avg_pool(OpRegistry& registry) {
  registry.add(avg_pool_op);
  registry.add(avg_pool_backward_op);
  shard_by(avg_pool_op, "nonempty *...->*...");
}

Tensor avg_pool1d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad) {
  constexpr auto op = "avg_pool1d";
  return averaged(op, input, pool::pool_attrs(op, 1, kernel_size, stride, padding, 1, ceil_mode),
                  count_include_pad);
}
Tensor avg_pool2d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  constexpr auto op = "avg_pool2d";
  return averaged(op, input, pool::pool_attrs(op, 2, kernel_size, stride, padding, 1, ceil_mode),
                  count_include_pad, divisor_override);
}
Tensor avg_pool3d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  constexpr auto op = "avg_pool3d";
  if (is_autocast_enabled())
    return autocast_call(
        op, {Autocast::full, Autocast::as_is},
        [&](const Tensor& x) {
          return avg_pool3d(x, kernel_size, stride, padding, ceil_mode, count_include_pad,
                            divisor_override);
        },
        input);
  return averaged(op, input, pool::pool_attrs(op, 3, kernel_size, stride, padding, 1, ceil_mode),
                  count_include_pad, divisor_override);
}

Tensor adaptive_avg_pool1d(const Tensor& input, const Shape& output_size) {
  return adaptive("adaptive_avg_pool1d", 1, input, output_size);
}
Tensor adaptive_avg_pool2d(const Tensor& input, const Shape& output_size) {
  return adaptive("adaptive_avg_pool2d", 2, input, output_size);
}
Tensor adaptive_avg_pool3d(const Tensor& input, const Shape& output_size) {
  constexpr auto op = "adaptive_avg_pool3d";
  const auto pooled = [&](const Tensor& x) { return adaptive(op, 3, x, output_size); };
  return autocast_call(op, {Autocast::full, Autocast::as_is}, pooled, input);
}

Tensor lp_pool1d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride, bool ceil_mode) {
  return lp_pooled("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode);
}
Tensor lp_pool2d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride, bool ceil_mode) {
  return lp_pooled("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode);
}
Tensor lp_pool3d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride, bool ceil_mode) {
  return lp_pooled("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode);
}

}  // namespace tensora
