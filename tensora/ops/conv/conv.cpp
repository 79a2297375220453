// Registers nothing: these are functions of convolution_op.
#include "tensora/ops/conv/conv.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/conv/convolution.h"
#include "tensora/ops/conv/convolution_geometry.h"
#include "tensora/ops/conv/integer_convolution.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// `after` zeros behind a spatial dim; a channels-last tensor remains one.
Tensor zeros_behind(const Tensor& x, int dim, int64_t after) {
  if (after == 0) return x;
  if (is_channels_last(x.sizes(), x.strides())) {
    const Tensor pixels = movedim(x, 1, -1);
    Shape sizes = pixels.sizes();
    sizes[dim - 1] += after;
    return movedim(apply(slice_backward_op, {pixels}, {sizes, dim - 1, 0, 1}), -1, 1);
  }
  Shape sizes = x.sizes();
  sizes[dim] += after;
  return apply(slice_backward_op, {x}, {sizes, dim, 0, 1});
}

void check_list(std::string_view name, const Shape& values, int spatial) {
  check(values.size() == 1 || values.size() == spatial, "convolution: ", name,
        " must be a number or a list of ", spatial, ", got ", values);
}

// The input of a convolution that keeps its size, as far as zeros on both sides cannot say it.
Tensor pad_same(const Tensor& input, const Tensor& weight, ConvolutionAttrs& attrs, int spatial) {
  for (int64_t stride : attrs.stride)
    check(stride == 1, "convolution: padding='same' is not supported for strided convolutions");
  check_list("dilation", attrs.dilation, spatial);
  const Shape dilation = per_dim(attrs.dilation, spatial);
  attrs.padding = Shape::filled(spatial, 0);
  Tensor padded = input;
  for (int d = 0; d < spatial; ++d) {
    const int64_t total = multiply_sizes(weight.size(d + 2) - 1, dilation[d], "convolution");
    attrs.padding[d] = std::max<int64_t>(total, 0) / 2;
    if (total > 0) padded = zeros_behind(padded, d + 2, total % 2);
  }
  return padded;
}

// The zeros that a transposed convolution's output_padding asks for beyond its stride come from
// zeros at the end of its input.
Tensor extend_output(const Tensor& input, ConvolutionAttrs& attrs, int spatial) {
  for (const auto& [name, values] :
       {std::pair{"stride", &attrs.stride}, std::pair{"dilation", &attrs.dilation},
        std::pair{"output_padding", &attrs.output_padding}})
    check_list(name, *values, spatial);
  const ConvolutionAttrs all = expanded(attrs, spatial);
  Tensor extended = input;
  attrs.output_padding = all.output_padding;
  for (int d = 0; d < spatial; ++d) {
    const int64_t extra = all.output_padding[d], stride = all.stride[d];
    check(
        extra < stride || extra < all.dilation[d],
        "convolution: output_padding must be smaller than stride or dilation, got output_padding ",
        all.output_padding, ", stride ", all.stride, ", dilation ", all.dilation);
    if (stride < 1 || extra < stride) continue;  // the rule refuses such a stride
    extended = zeros_behind(extended, d + 2, extra / stride);
    attrs.output_padding[d] = extra % stride;
  }
  return extended;
}

Tensor run(std::string_view function, int spatial, const Tensor& input, const Tensor& weight,
           const Tensor& bias, ConvolutionAttrs attrs, const ConvPadding& padding);

void check_one_dtype(std::string_view function, const Tensor& input, const Tensor& weight,
                     const Tensor& bias) {
  for (const Tensor& other : {weight, bias})
    check(!other.defined() || other.dtype() == input.dtype(), function,
          ": expected one dtype, got ", input.dtype(), " and ",
          other.defined() ? other.dtype() : input.dtype());
}

// The four products of the parts.
Tensor run_complex(std::string_view function, int spatial, const Tensor& input,
                   const Tensor& weight, const Tensor& bias, const ConvolutionAttrs& attrs,
                   const ConvPadding& padding) {
  check_one_dtype(function, input, weight, bias);
  const Tensor inputs[] = {real(input), imag(input)}, weights[] = {real(weight), imag(weight)};
  const auto product = [&](int i, int w, const Tensor& added) {
    return run(function, spatial, inputs[i], weights[w], added, attrs, padding);
  };
  const bool has_bias = bias.defined();
  const Tensor re = product(0, 0, has_bias ? real(bias) : Tensor()) - product(1, 1, Tensor());
  const Tensor im = product(0, 1, has_bias ? imag(bias) : Tensor()) + product(1, 0, Tensor());
  return complex(re, im);
}

Tensor run(std::string_view function, int spatial, const Tensor& input, const Tensor& weight,
           const Tensor& bias, ConvolutionAttrs attrs, const ConvPadding& padding) {
  if (input.is_complex())
    return run_complex(function, spatial, input, weight, bias, attrs, padding);
  return called_as(function, [&]() {
    const bool batched = input.dim() == spatial + 2;
    check(batched || input.dim() == spatial + 1, "convolution: expected ", spatial + 1,
          "-dimensional (unbatched) or ", spatial + 2, "-dimensional (batched) input, got shape ",
          input.sizes());
    check(weight.dim() == spatial + 2, "convolution: expected a weight of ", spatial + 2,
          " dimensions, got shape ", weight.sizes());
    Tensor batch = batched ? input : unsqueeze(input, 0);
    if (padding.is_rule()) {
      check(padding.rule() == "same" || padding.rule() == "valid",
            "convolution: padding must be numbers, 'same' or 'valid', got '", padding.rule(), "'");
      attrs.padding = 0;
      if (padding.rule() == "same") batch = pad_same(batch, weight, attrs, spatial);
    } else {
      attrs.padding = padding.zeros();
    }
    if (attrs.transposed) batch = extend_output(batch, attrs, spatial);
    const bool whole = is_integral(batch.dtype());
    if (whole) check_one_dtype(function, batch, weight, bias);
    const Tensor result = whole ? integer_convolution(batch, weight, bias, attrs)
                                : apply(convolution_op, {batch, weight, bias}, attrs);
    return batched ? result : squeeze(result, 0);
  });
}

Tensor plain(std::string_view function, int spatial, const Tensor& input, const Tensor& weight,
             const Tensor& bias, const Shape& stride, const ConvPadding& padding,
             const Shape& dilation, int64_t groups) {
  return run(function, spatial, input, weight, bias,
             {.stride = stride, .dilation = dilation, .groups = groups}, padding);
}

Tensor turned(std::string_view function, int spatial, const Tensor& input, const Tensor& weight,
              const Tensor& bias, const Shape& stride, const Shape& padding,
              const Shape& output_padding, int64_t groups, const Shape& dilation) {
  return run(function, spatial, input, weight, bias,
             {.stride = stride,
              .dilation = dilation,
              .transposed = true,
              .output_padding = output_padding,
              .groups = groups},
             padding);
}

}  // namespace

Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Shape& stride, const Shape& padding, const Shape& dilation,
                   bool transposed, const Shape& output_padding, int64_t groups) {
  const int spatial = weight.dim() - 2;
  const ConvolutionAttrs attrs{.stride = stride,
                               .padding = padding,
                               .dilation = dilation,
                               .transposed = transposed,
                               .output_padding = output_padding,
                               .groups = groups};
  // Without `transposed` output_padding has no meaning, and PyTorch ignores it.
  if (!transposed)
    return plain("convolution", spatial, input, weight, bias, stride, padding, dilation, groups);
  return run("convolution", spatial, input, weight, bias, attrs, padding);
}

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Shape& stride,
              const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  return plain("conv1d", 1, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv1d(const Tensor& input, const Tensor& weight) { return conv1d(input, weight, {}); }

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Shape& stride,
              const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  return plain("conv2d", 2, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d(const Tensor& input, const Tensor& weight) { return conv2d(input, weight, {}); }

Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Shape& stride,
              const ConvPadding& padding, const Shape& dilation, int64_t groups) {
  return plain("conv3d", 3, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d(const Tensor& input, const Tensor& weight) { return conv3d(input, weight, {}); }

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride, const Shape& padding, const Shape& output_padding,
                        int64_t groups, const Shape& dilation) {
  return turned("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups,
                dilation);
}
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight) {
  return conv_transpose1d(input, weight, {});
}

Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride, const Shape& padding, const Shape& output_padding,
                        int64_t groups, const Shape& dilation) {
  return turned("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups,
                dilation);
}
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight) {
  return conv_transpose2d(input, weight, {});
}

Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride, const Shape& padding, const Shape& output_padding,
                        int64_t groups, const Shape& dilation) {
  return turned("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups,
                dilation);
}
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight) {
  return conv_transpose3d(input, weight, {});
}

}  // namespace tensora
