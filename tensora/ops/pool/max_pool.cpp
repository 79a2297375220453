#include "tensora/ops/pool/max_pool.h"

#include <cstdlib>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<MaxPoolBackwardAttrs>) {
  using A = MaxPoolBackwardAttrs;
  return fields(field("kernel_size", &A::kernel_size), field("stride", &A::stride),
                field("padding", &A::padding), field("dilation", &A::dilation),
                field("ceil_mode", &A::ceil_mode), field("output_size", &A::output_size),
                field("sizes", &A::sizes), field("channels_last", &A::channels_last));
}
constexpr auto describe(std::type_identity<MaxPoolAttrs>) {
  using A = MaxPoolAttrs;
  return fields(field("kernel_size", &A::kernel_size), field("stride", &A::stride),
                field("padding", &A::padding), field("dilation", &A::dilation),
                field("ceil_mode", &A::ceil_mode), field("output_size", &A::output_size),
                field("return_indices", &A::return_indices));
}

namespace {

using pool::check_pool, pool::in_layout, pool::keeps_channels_last, pool::layout_strides;

Tensors max_pool_reference(Args in, const MaxPoolAttrs& attrs) {
  const auto [windows, inside, positions] = pool::unfold_windows(*in[0], attrs);
  // A maximum does not mind the positions that are repeated.
  const auto [values, chosen] = max(windows, -1);
  const bool last = keeps_channels_last(in[0]->sizes(), in[0]->strides());
  if (!attrs.return_indices) return Tensors{in_layout(values, last)};
  Shape sizes = chosen.sizes();
  sizes.push_back(positions.sizes().back());
  const Tensor places = expand(positions, sizes);
  const Tensor indices = squeeze(gather(places, -1, unsqueeze(chosen, -1)), -1);
  return Tensors{in_layout(values, last), in_layout(indices, last)};
}

void max_pool_vjp(Vjp& vjp, const MaxPoolAttrs& attrs) {
  check(attrs.return_indices, "max_pool: the gradient needs return_indices");
  if (const Tensor none = pool::gradient_of_none(vjp.grad(0), vjp.input_sizes(0)); none.defined())
    return vjp.set(0, none);
  const Tensor indices = vjp.output(1);
  MaxPoolBackwardAttrs backward;
  static_cast<PoolAttrs&>(backward) = attrs;
  backward.sizes = vjp.input_sizes(0);
  backward.channels_last = keeps_channels_last(indices.sizes(), indices.strides());
  vjp.set(0, apply(max_pool_backward_op, {vjp.grad(0), indices}, backward));
}

// The pooled dims as one.
Tensor flat(const Tensor& x, int pooled) { return flatten(x, -pooled, -1); }

Tensors pooled(std::string_view op, const Tensor& input, const PoolAttrs& attrs, bool indices) {
  MaxPoolAttrs all;
  static_cast<PoolAttrs&>(all) = attrs;
  all.return_indices = indices || (is_grad_enabled() && input.requires_grad());
  return called_as(op, [&] { return apply_all(max_pool_op, {input}, all); });
}
std::tuple<Tensor, Tensor> both(Tensors outputs) {
  return {std::move(outputs[0]), std::move(outputs[1])};
}

Shape unpooled_sizes(std::string_view op, const Tensor& input, const PoolAttrs& attrs,
                     const Shape& output_size) {
  const int dims = attrs.dims(), lead = input.dim() - dims;
  Shape sizes = input.sizes();
  check(output_size.empty() || output_size.size() == dims || output_size.size() == dims + 2, op,
        ": output_size must have ", dims, " or ", dims + 2, " entries, got ", output_size);
  for (int d = 0; d < dims; ++d) {
    int64_t& size = sizes[lead + d];
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t stride = attrs.stride[d], kernel = attrs.kernel_size[d],
                  padding = attrs.padding[d];
    check(stride < kMost && std::abs(kernel) < kMost && std::abs(padding) < kMost, op,
          ": kernel_size, stride and padding must be below 2^30, got ", attrs.kernel_size, ", ",
          attrs.stride, " and ", attrs.padding);
    const int64_t expected =
        add_sizes(multiply_sizes(size - 1, stride, op), kernel - 2 * padding, op);
    size = output_size.empty() ? expected : output_size[output_size.size() - dims + d];
    check_as<ValueError>(
        output_size.empty() || (size > expected - stride && size < expected + stride), op,
        ": output_size of dim ", d, " must lie between ", expected - stride, " and ",
        expected + stride, ", got ", size);
    check(size > 0, op, ": the result would have size ", size, " in dim ", d);
  }
  return sizes;
}

Tensor unpooled(std::string_view op, int dims, const Tensor& input, const Tensor& indices,
                const Shape& kernel_size, const Shape& stride, const Shape& padding,
                const Shape& output_size) {
  const PoolAttrs attrs = pool::pool_attrs(op, dims, kernel_size, stride, padding, 1, false);
  check(input.dim() == dims + 1 || input.dim() == dims + 2, op, ": input must have ", dims + 1,
        " or ", dims + 2, " dims, got shape ", input.sizes());
  check(indices.dtype() == kInt64, op, ": indices must be int64, got ", indices.dtype());
  check(indices.sizes() == input.sizes(), op, ": indices must have the shape of input, ",
        input.sizes(), ", got ", indices.sizes());
  for (int64_t step : attrs.stride) check(step > 0, op, ": stride must be positive, got ", stride);
  for (int d = input.dim() - dims; d < input.dim(); ++d)
    check(input.sizes()[d] > 0, op, ": only the batch of input may be empty, got shape ",
          input.sizes());
  const Shape sizes = unpooled_sizes(op, input, attrs, output_size);
  return called_as(op, [&] {
    const Tensor zero = zeros(sizes, {.dtype = input.dtype(), .device = input.device()});
    const Tensor put = scatter(flat(zero, dims), -1, flat(indices, dims), flat(input, dims));
    return reshape(put, sizes);
  });
}

}  // namespace

constinit OpDef<MaxPoolAttrs> max_pool_op = define(Op<MaxPoolAttrs>{
    .name = "max_pool",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const MaxPoolAttrs& attrs) {
          infer.check(infer[0].dtype() != kBool, "expected numbers, got ", infer[0].dtype());
          const Shape sizes = check_pool(infer, attrs);
          const Strides strides =
              layout_strides(sizes, keeps_channels_last(infer[0].sizes(), infer[0].strides()));
          infer.output(sizes, strides, infer[0].dtype());
          if (attrs.return_indices) infer.output(sizes, strides, kInt64);
        },
    .reference = max_pool_reference,
    .vjp = max_pool_vjp,
    .saves = {out(1)},
});

// The indices come from max_pool, so they are in range.
constinit OpDef<MaxPoolBackwardAttrs> max_pool_backward_op = define(Op<MaxPoolBackwardAttrs>{
    .name = "max_pool_backward",
    .inputs = {"grad", "indices"},
    .internal = true,
    .infer =
        [](Infer& infer, const MaxPoolBackwardAttrs& attrs) {
          infer.check(infer[0].sizes() == infer[1].sizes(), "expected a gradient of shape ",
                      infer[1].sizes(), ", got ", infer[0].sizes());
          infer.output(attrs.sizes, layout_strides(attrs.sizes, attrs.channels_last),
                       infer[0].dtype());
        },
    .reference =
        [](Args in, const MaxPoolBackwardAttrs& attrs) {
          const int dims = attrs.dims();
          const Tensor zero =
              zeros(attrs.sizes, {.dtype = in[0]->dtype(), .device = in[0]->device()});
          const Tensor put =
              scatter_add(flat(zero, dims), -1, flat(*in[1], dims), flat(*in[0], dims));
          return Tensors{in_layout(reshape(put, attrs.sizes), attrs.channels_last)};
        },
    .vjp =
        [](Vjp& vjp, const MaxPoolBackwardAttrs& attrs) {
          const Tensor indices = vjp.input(1);
          const int dims = attrs.dims();
          const Tensor taken = gather(flat(vjp.grad(), dims), -1, flat(indices, dims));
          vjp.set(0, reshape(taken, indices.sizes()));
        },
    .saves = {in(1)},
});

void register_max_pool(OpRegistry& registry) {
  registry.add(max_pool_op);
  registry.add(max_pool_backward_op);
  shard_by(max_pool_op, "nonempty *...->*...");
}

Tensor max_pool1d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return pooled(
      "max_pool1d", input,
      pool::pool_attrs("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode),
      false)[0];
}
Tensor max_pool2d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  return pooled(
      "max_pool2d", input,
      pool::pool_attrs("max_pool2d", 2, kernel_size, stride, padding, dilation, ceil_mode),
      false)[0];
}
Tensor max_pool3d(const Tensor& input, const Shape& kernel_size, const Shape& stride,
                  const Shape& padding, const Shape& dilation, bool ceil_mode) {
  if (is_autocast_enabled())
    return autocast_call(
        "max_pool3d", {Autocast::full, Autocast::as_is},
        [&](const Tensor& x) {
          return max_pool3d(x, kernel_size, stride, padding, dilation, ceil_mode);
        },
        input);
  return pooled(
      "max_pool3d", input,
      pool::pool_attrs("max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode),
      false)[0];
}
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride, const Shape& padding,
                                                   const Shape& dilation, bool ceil_mode) {
  return both(pooled(
      "max_pool1d", input,
      pool::pool_attrs("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode), true));
}
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride, const Shape& padding,
                                                   const Shape& dilation, bool ceil_mode) {
  return both(pooled(
      "max_pool2d", input,
      pool::pool_attrs("max_pool2d", 2, kernel_size, stride, padding, dilation, ceil_mode), true));
}
std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride, const Shape& padding,
                                                   const Shape& dilation, bool ceil_mode) {
  return both(pooled(
      "max_pool3d", input,
      pool::pool_attrs("max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode), true));
}

Tensor adaptive_max_pool1d(const Tensor& input, const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool1d";
  return pooled(op, input, pool::adaptive_attrs(op, 1, input, output_size), false)[0];
}
Tensor adaptive_max_pool2d(const Tensor& input, const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool2d";
  return pooled(op, input, pool::adaptive_attrs(op, 2, input, output_size), false)[0];
}
Tensor adaptive_max_pool3d(const Tensor& input, const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool3d";
  const auto largest = [&](const Tensor& x) {
    return pooled(op, x, pool::adaptive_attrs(op, 3, x, output_size), false)[0];
  };
  return autocast_call(op, {Autocast::full, Autocast::as_is}, largest, input);
}
std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input,
                                                            const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool1d";
  return both(pooled(op, input, pool::adaptive_attrs(op, 1, input, output_size), true));
}
std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input,
                                                            const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool2d";
  return both(pooled(op, input, pool::adaptive_attrs(op, 2, input, output_size), true));
}
std::tuple<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& input,
                                                            const Shape& output_size) {
  constexpr auto op = "adaptive_max_pool3d";
  return both(pooled(op, input, pool::adaptive_attrs(op, 3, input, output_size), true));
}

Tensor max_unpool1d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return unpooled("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size);
}
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return unpooled("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size);
}
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride, const Shape& padding, const Shape& output_size) {
  return unpooled("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size);
}

}  // namespace tensora
