#include "tensora/ops/conv/im2col.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/conv/im2col_geometry.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/sliding.h"

namespace tensora {

constexpr auto describe(std::type_identity<Col2imAttrs>) {
  using A = Col2imAttrs;
  return fields(field("output_size", &A::output_size), field("kernel_size", &A::kernel_size),
                field("dilation", &A::dilation), field("padding", &A::padding),
                field("stride", &A::stride));
}
constexpr auto describe(std::type_identity<Im2colAttrs>) {
  using A = Im2colAttrs;
  return fields(field("kernel_size", &A::kernel_size), field("dilation", &A::dilation),
                field("padding", &A::padding), field("stride", &A::stride));
}

namespace {

Im2colAttrs blocks_of(const Col2imAttrs& attrs) {
  return {attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride};
}
Col2imAttrs with_size(const Shape& output_size, const Im2colAttrs& attrs) {
  return {output_size, attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride};
}

void check_pair(std::string_view op, std::string_view name, const Shape& values, int64_t least) {
  check(values.size() == 1 || values.size() == 2, op, ": ", name,
        " must be a number or a pair, got ", values);
  for (int64_t value : values) {
    check(value >= least, op, ": ", name, " must be ", least == 0 ? "non-negative" : "positive",
          ", got ", values);
    check(value < int64_t{1} << 31, op, ": ", name, " must be below 2^31, got ", values);
  }
}

BlockAxes checked_axes(std::string_view op, const Shape& image, const Im2colAttrs& attrs) {
  check_pair(op, "kernel_size", attrs.kernel_size, 1);
  check_pair(op, "dilation", attrs.dilation, 1);
  check_pair(op, "padding", attrs.padding, 0);
  check_pair(op, "stride", attrs.stride, 1);
  const BlockAxes axes = block_axes(image, attrs);
  check(axes[0].blocks >= 1 && axes[1].blocks >= 1, op, ": an image of size ", image,
        " with padding ", attrs.padding, " holds no block of kernel_size ", attrs.kernel_size,
        " and dilation ", attrs.dilation);
  return axes;
}

void infer_im2col(Infer& infer, const Im2colAttrs& attrs) {
  const Shape& sizes = infer[0].sizes();
  infer.check(sizes.size() == 4 && sizes[1] > 0 && sizes[2] > 0 && sizes[3] > 0,
              "expected a batch of images (N, C, H, W) with C, H and W above 0, got shape ", sizes);
  const BlockAxes axes = checked_axes(infer.op, {sizes[2], sizes[3]}, attrs);
  infer.output(
      {sizes[0], sizes[1] * axes[0].kernel * axes[1].kernel, axes[0].blocks * axes[1].blocks},
      infer[0].dtype());
}

void infer_col2im(Infer& infer, const Col2imAttrs& attrs) {
  const Shape& sizes = infer[0].sizes();
  check_pair(infer.op, "output_size", attrs.output_size, 1);
  infer.check(is_differentiable(infer[0].dtype()),
              "expected a floating-point or complex dtype, got ", infer[0].dtype());
  infer.check(sizes.size() == 3 && sizes[1] > 0 && sizes[2] > 0,
              "expected a batch of columns (N, C * kernel, blocks), got shape ", sizes);
  const Shape image = per_dim(attrs.output_size, 2);
  const BlockAxes axes = checked_axes(infer.op, image, blocks_of(attrs));
  const int64_t kernel = axes[0].kernel * axes[1].kernel;
  infer.check(sizes[1] % kernel == 0, "dimension 1 of input must be divisible by the ", kernel,
              " elements of kernel_size ", attrs.kernel_size, ", got shape ", sizes);
  infer.check(sizes[2] == axes[0].blocks * axes[1].blocks, "an image of size ", image, " has ",
              axes[0].blocks, " by ", axes[1].blocks, " blocks, but input of shape ", sizes,
              " has ", sizes[2]);
  infer.output({sizes[0], sizes[1] / kernel, image[0], image[1]}, infer[0].dtype());
}

Tensors list_of(Tensor tensor) {
  Tensors result;
  result.push_back(std::move(tensor));
  return result;
}

// Windows of the padded image, as a view.
Tensors im2col_reference(Args in, const Im2colAttrs& attrs) {
  Tensor windows = *in[0];
  const Shape sizes = windows.sizes();
  const BlockAxes axes = block_axes({sizes[2], sizes[3]}, attrs);
  for (int d = 0; d < 2; ++d) {
    const BlockAxis& a = axes[static_cast<size_t>(d)];
    Shape padded = windows.sizes();
    padded[d + 2] += 2 * a.padding;
    if (a.padding > 0) windows = apply(slice_backward_op, {windows}, {padded, d + 2, a.padding, 1});
    windows = unfold(windows, int64_t{d + 2}, (a.kernel - 1) * a.dilation + 1, a.stride);
    windows = slice(windows, -1, {}, {}, a.dilation);
  }  // N C blocks blocks kernel kernel
  return list_of(reshape(
      permute(windows, {0, 1, 4, 5, 2, 3}),
      {sizes[0], sizes[1] * axes[0].kernel * axes[1].kernel, axes[0].blocks * axes[1].blocks}));
}

// The same steps backwards, each by its gradient.
Tensors col2im_reference(Args in, const Col2imAttrs& attrs) {
  const DType dtype = in[0]->dtype();
  const auto again = [&](const Tensor& columns) { return apply(col2im_op, {columns}, attrs); };
  if (is_complex(dtype)) return list_of(complex(again(real(*in[0])), again(imag(*in[0]))));
  // Several steps add up: half types are rounded once.
  if (element_size(dtype) < 4) return list_of(to(again(to(*in[0], kFloat32)), dtype));
  const Shape image = per_dim(attrs.output_size, 2);
  const BlockAxes axes = block_axes(image, blocks_of(attrs));
  const Shape sizes = in[0]->sizes();
  const int64_t channels = sizes[1] / (axes[0].kernel * axes[1].kernel);
  Tensor x = permute(reshape(*in[0], {sizes[0], channels, axes[0].kernel, axes[1].kernel,
                                      axes[0].blocks, axes[1].blocks}),
                     {0, 1, 4, 5, 2, 3});
  for (int d = 1; d >= 0; --d) {
    const BlockAxis& a = axes[static_cast<size_t>(d)];
    const int64_t reach = (a.kernel - 1) * a.dilation + 1;
    Shape spread = x.sizes();
    spread[x.dim() - 1] = reach;
    if (a.dilation > 1) x = apply(slice_backward_op, {x}, {spread, x.dim() - 1, 0, a.dilation});
    Shape padded = x.sizes();
    padded.erase(x.dim() - 1);
    padded[d + 2] = a.image + 2 * a.padding;
    x = apply(sliding_backward_op, {x}, {padded, d + 2, reach, a.stride});
    x = narrow(x, d + 2, a.padding, a.image);
  }
  return list_of(x);
}

}  // namespace

constinit OpDef<Im2colAttrs> im2col_op = define(Op<Im2colAttrs>{
    .name = "im2col",
    .inputs = {"input"},
    .infer = infer_im2col,
    .reference = im2col_reference,
    .vjp =
        [](Vjp& vjp, const Im2colAttrs& attrs) {
          const Shape& sizes = vjp.input_sizes(0);
          vjp.set(0, apply(col2im_op, {vjp.grad()}, with_size({sizes[2], sizes[3]}, attrs)));
        },
    .accepts = kComputingDTypes,
});

constinit OpDef<Col2imAttrs> col2im_op = define(Op<Col2imAttrs>{
    .name = "col2im",
    .inputs = {"input"},
    .infer = infer_col2im,
    .reference = col2im_reference,
    .vjp =
        [](Vjp& vjp, const Col2imAttrs& attrs) {
          vjp.set(0, apply(im2col_op, {vjp.grad()}, blocks_of(attrs)));
        },
    .accepts = kComputingDTypes,
});

void register_im2col(OpRegistry& registry) {
  registry.add(im2col_op);
  registry.add(col2im_op);
}

Tensor im2col(const Tensor& input, const Shape& kernel_size, const Shape& dilation,
              const Shape& padding, const Shape& stride) {
  const Im2colAttrs attrs{kernel_size, dilation, padding, stride};
  if (input.dim() != 3) return apply(im2col_op, {input}, attrs);
  return squeeze(apply(im2col_op, {unsqueeze(input, 0)}, attrs), 0);
}

Tensor col2im(const Tensor& input, const Shape& output_size, const Shape& kernel_size,
              const Shape& dilation, const Shape& padding, const Shape& stride) {
  const Col2imAttrs attrs{output_size, kernel_size, dilation, padding, stride};
  if (input.dim() != 2) return apply(col2im_op, {input}, attrs);
  return squeeze(apply(col2im_op, {unsqueeze(input, 0)}, attrs), 0);
}

Tensor unfold(const Tensor& input, const Shape& kernel_size) {
  return unfold(input, kernel_size, 1, 0, 1);
}
Tensor unfold(const Tensor& input, const Shape& kernel_size, const Shape& dilation,
              const Shape& padding, const Shape& stride) {
  return called_as("unfold",
                   [&]() { return im2col(input, kernel_size, dilation, padding, stride); });
}

Tensor fold(const Tensor& input, const Shape& output_size, const Shape& kernel_size,
            const Shape& dilation, const Shape& padding, const Shape& stride) {
  return called_as(
      "fold", [&]() { return col2im(input, output_size, kernel_size, dilation, padding, stride); });
}

}  // namespace tensora
