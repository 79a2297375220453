#include "tensora/ops/conv/convolution.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/conv/convolution_geometry.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/memory_format.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/sliding.h"

namespace tensora {

constexpr auto describe(std::type_identity<ConvolutionGradAttrs>) {
  using A = ConvolutionGradAttrs;
  return fields(field("stride", &A::stride), field("padding", &A::padding),
                field("dilation", &A::dilation), field("transposed", &A::transposed),
                field("output_padding", &A::output_padding), field("groups", &A::groups),
                field("sizes", &A::sizes));
}
constexpr auto describe(std::type_identity<ConvolutionAttrs>) {
  using A = ConvolutionAttrs;
  return fields(field("stride", &A::stride), field("padding", &A::padding),
                field("dilation", &A::dilation), field("transposed", &A::transposed),
                field("output_padding", &A::output_padding), field("groups", &A::groups));
}

namespace {

// ---- rules -------------------------------------------------------------------------------------

void check_attrs(const Infer& infer, const ConvolutionAttrs& attrs, int spatial) {
  infer.check(spatial >= 1 && spatial <= 3, "expected 1 to 3 spatial dimensions, got ", spatial);
  const auto check_list = [&](std::string_view name, const Shape& values, int64_t least) {
    infer.check(values.size() == 1 || values.size() == spatial, name,
                " must be a number or a list of ", spatial, ", got ", values);
    for (int64_t value : values) {
      infer.check(value >= least, name, " must be ", least == 0 ? "non-negative" : "positive",
                  ", got ", values);
      infer.check(value < int64_t{1} << 31, name, " must be below 2^31, got ", values);
    }
  };
  check_list("stride", attrs.stride, 1);
  check_list("padding", attrs.padding, 0);
  check_list("dilation", attrs.dilation, 1);
  check_list("output_padding", attrs.output_padding, 0);
  infer.check(attrs.groups >= 1, "groups must be positive, got ", attrs.groups);
  const Shape stride = per_dim(attrs.stride, spatial);
  const Shape extra = per_dim(attrs.output_padding, spatial);
  for (int d = 0; d < spatial; ++d)
    infer.check(extra[d] == 0 || (attrs.transposed && extra[d] < stride[d]),
                attrs.transposed ? "output_padding must be smaller than stride, got "
                                 : "output_padding needs a transposed convolution, got ",
                attrs.output_padding);
}

void check_types(const Infer& infer) {
  const DType dtype = infer[0].dtype();
  for (size_t i = 0; i < infer.inputs.size(); ++i) {
    if (!infer.has(i)) continue;
    infer.check(is_floating_point(infer[i].dtype()), "expected a floating-point dtype, got ",
                infer[i].dtype());
    infer.check(infer[i].dtype() == dtype, "expected one dtype, got ", dtype, " and ",
                infer[i].dtype());
  }
}

// Extent of a dilated kernel.
int64_t reach(const Infer& infer, int64_t kernel, int64_t dilation) {
  return add_sizes(multiply_sizes(kernel - 1, dilation, infer.op), 1, infer.op);
}

void check_weight(const Infer& infer, const Shape& input, const Shape& weight,
                  const ConvolutionAttrs& attrs) {
  infer.check(weight.size() == input.size(), "expected a weight of ", input.size(),
              " dimensions for input of shape ", input, ", got shape ", weight);
  infer.check(weight[0] >= attrs.groups && weight[0] % attrs.groups == 0,
              "expected a weight whose dimension 0 is divisible by groups=", attrs.groups,
              ", got shape ", weight);
  const int64_t channels = attrs.transposed ? weight[0] : weight[1] * attrs.groups;
  infer.check(input[1] == channels, "given groups=", attrs.groups, ", weight of shape ", weight,
              ", expected input", input, " to have ", channels, " channels, but got ", input[1],
              " channels instead");
  for (int d = 2; d < weight.size(); ++d)
    infer.check(weight[d] >= 1, "expected a weight with a kernel of at least 1 along every dim, ",
                "got shape ", weight);
}

// The result's shape for a batch.
Shape output_sizes(const Infer& infer, const Shape& input, const Shape& weight,
                   const ConvolutionAttrs& given) {
  const int spatial = input.size() - 2;
  check_attrs(infer, given, spatial);
  check_weight(infer, input, weight, given);
  const ConvolutionAttrs attrs = expanded(given, spatial);
  Shape sizes{input[0], attrs.transposed ? weight[1] * attrs.groups : weight[0]};
  for (int d = 0; d < spatial; ++d) {
    const int64_t extent = reach(infer, weight[d + 2], attrs.dilation[d]);
    const int64_t length = input[d + 2], padded = 2 * attrs.padding[d];
    if (attrs.transposed) {
      const int64_t last = multiply_sizes(length - 1, attrs.stride[d], infer.op);
      sizes.push_back(add_sizes(last - padded, extent + attrs.output_padding[d], infer.op));
      infer.check(length >= 1 && sizes[d + 2] >= 1, "given input of shape ", input,
                  " and weight of shape ", weight, ", the output would have size ", sizes[d + 2],
                  " along spatial dim ", d);
    } else {
      const int64_t room = add_sizes(length, padded, infer.op) - extent;
      infer.check(room >= 0, "kernel size can't be greater than the padded input: input of shape ",
                  input, " with padding ", attrs.padding, ", weight of shape ", weight,
                  " with dilation ", attrs.dilation);
      sizes.push_back(room / attrs.stride[d] + 1);
    }
  }
  return sizes;
}

void put_output(Infer& infer, const Shape& sizes) {
  for (size_t i : {0u, 1u})
    if (is_channels_last(infer[i].sizes(), infer[i].strides()))
      return infer.output(sizes, channels_last_strides(sizes), infer[0].dtype());
  infer.output(sizes, infer[0].dtype());
}

void infer_convolution(Infer& infer, const ConvolutionAttrs& attrs) {
  const Tensor &input = infer[0], &weight = infer[1];
  check_types(infer);
  infer.check(input.dim() >= 3 && input.dim() <= 5,
              "expected input of 3 to 5 dimensions (N, C, spatial dims), got shape ",
              input.sizes());
  const Shape sizes = output_sizes(infer, input.sizes(), weight.sizes(), attrs);
  if (infer.has(2))
    infer.check(infer[2].dim() == 1 && infer[2].size(0) == sizes[1], "given weight of shape ",
                weight.sizes(), ", expected bias to be 1-dimensional with ", sizes[1],
                " elements, but got shape ", infer[2].sizes());
  put_output(infer, sizes);
}

// `input` and `weight` are shapes: one of them belongs to the result.
void infer_gradient(Infer& infer, const ConvolutionGradAttrs& attrs, const Shape& input,
                    const Shape& weight) {
  check_types(infer);
  infer.check(
      attrs.sizes.size() >= 3 && attrs.sizes.size() <= 5 && input.size() >= 3 && input.size() <= 5,
      "expected sizes of 3 to 5 dimensions, got ", attrs.sizes);
  for (int64_t size : attrs.sizes)
    infer.check(size >= 0, "sizes must not be negative, got ", attrs.sizes);
  const Shape expected = output_sizes(infer, input, weight, attrs);
  infer.check(infer[0].sizes() == expected, "for input of shape ", input, " and weight of shape ",
              weight, " expected grad of shape ", expected, ", got ", infer[0].sizes());
  put_output(infer, attrs.sizes);
}

// ---- definitions in other ops ------------------------------------------------------------------

Tensor with_zeros(const Tensor& x, int dim, int64_t before, int64_t size, int64_t step = 1) {
  Shape sizes = x.sizes();
  if (sizes[dim] == size && before == 0 && step == 1) return x;
  sizes[dim] = size;
  return apply(slice_backward_op, {x}, {sizes, dim, before, step});
}

// Windows of the padded input, as a view, times the weight.
Tensor by_windows(const Tensor& input, const Tensor& weight, const ConvolutionAttrs& attrs) {
  const int spatial = input.dim() - 2;
  const int64_t groups = attrs.groups, batch = input.size(0);
  // 3-D would need 8 dims and one for the groups, so channels are split last.
  Tensor windows = input;
  for (int d = 0; d < spatial; ++d) {
    const int64_t extent = (weight.size(d + 2) - 1) * attrs.dilation[d] + 1;
    windows =
        with_zeros(windows, d + 2, attrs.padding[d], input.size(d + 2) + 2 * attrs.padding[d]);
    windows = unfold(windows, d + 2, extent, attrs.stride[d]);
    windows = slice(windows, -1, {}, {}, attrs.dilation[d]);
  }  // N C O… K…
  Shape out{batch, weight.size(0)};
  Dims order{0};
  for (int d = 0; d < spatial; ++d) order.push_back(2 + d);
  order.push_back(1);
  for (int d = 0; d < spatial; ++d) {
    order.push_back(2 + spatial + d);
    out.push_back(windows.size(2 + d));
  }
  int64_t positions = 1, kernel = 1;
  for (int d = 0; d < spatial; ++d) {
    positions *= windows.size(2 + d);
    kernel *= weight.size(2 + d);
  }
  const int64_t inner = input.size(1) / groups * kernel, outer = weight.size(0) / groups;
  const Tensor columns =
      permute(reshape(permute(windows, order), {batch, positions, groups, inner}), {0, 2, 3, 1});
  const Tensor matrices = reshape(weight, {1, groups, outer, inner});
  return reshape(matmul(matrices, columns), out);
}

// Weight M C/g K… as C M/g K…, with the kernel flipped: a transposed convolution is a plain one
// with it.
Tensor turned_weight(const Tensor& weight, int64_t groups) {
  Shape split = weight.sizes();
  split[0] /= groups;
  split.insert(0, groups);
  Shape joined = weight.sizes();
  joined[0] = weight.size(1) * groups;
  joined[1] = weight.size(0) / groups;
  Dims spatial;
  for (int d = 2; d < weight.dim(); ++d) spatial.push_back(d);
  return flip(reshape(transpose(reshape(weight, split), 1, 2), joined), spatial);
}

ConvolutionAttrs plain(ConvolutionAttrs attrs) {
  attrs.transposed = false;
  attrs.output_padding = 0;
  return attrs;
}

// `large` of shape `sizes` from `small`: zeros between its elements and around them, then a plain
// convolution with stride 1.
Tensor by_spreading(const Tensor& small, const Tensor& weight, const Shape& sizes,
                    const ConvolutionAttrs& attrs) {
  Tensor spread = small;
  ConvolutionAttrs unit = plain(attrs);
  unit.stride = 1;
  unit.padding = 0;
  for (int d = 2; d < small.dim(); ++d) {
    const int64_t extent = (weight.size(d) - 1) * attrs.dilation[d - 2] + 1;
    const int64_t length = (small.size(d) - 1) * attrs.stride[d - 2] + 1;
    const int64_t before = extent - 1 - attrs.padding[d - 2];
    const int64_t total = sizes[d] + extent - 1;
    spread = with_zeros(spread, d, 0, length, attrs.stride[d - 2]);
    if (before < 0) spread = slice(spread, d, -before);
    const int64_t start = std::max<int64_t>(before, 0);
    if (start + spread.size(d) > total) spread = slice(spread, d, 0, total - start);
    spread = with_zeros(spread, d, start, total);
  }
  return apply(convolution_op, {spread, turned_weight(weight, attrs.groups), Tensor()}, unit);
}

// Batch and channels change places: the weight's gradient is a convolution of the input with the
// gradient as weight, where stride and dilation change places too.
Tensor weight_by_swapping(const Tensor& large, const Tensor& small, const Shape& sizes,
                          const ConvolutionAttrs& attrs) {
  const int64_t groups = attrs.groups, batch = large.size(0);
  Shape split = large.sizes();  // N G C/g L…  ->  C/g G N L…
  split[1] /= groups;
  split.insert(1, groups);
  Shape joined = large.sizes();
  joined[0] = large.size(1) / groups;
  joined[1] = groups * batch;
  const Tensor input = reshape(transpose(reshape(large, split), 0, 2), joined);
  ConvolutionAttrs swapped = plain(attrs);
  std::swap(swapped.stride, swapped.dilation);
  Tensor result = apply(convolution_op, {input, transpose(small, 0, 1), Tensor()}, swapped);
  for (int d = 2; d < sizes.size(); ++d) result = narrow(result, d, 0, sizes[d]);
  return transpose(result, 0, 1);
}

// The layout that the rule promises.
Tensors laid_out(Tensor tensor, Args in) {
  Tensors result;
  result.push_back(std::move(tensor));
  const Tensor& x = result[0];
  const bool last = is_channels_last(in[0]->sizes(), in[0]->strides()) ||
                    is_channels_last(in[1]->sizes(), in[1]->strides());
  if (last) result[0] = movedim(contiguous(movedim(x, 1, -1)), -1, 1);
  return result;
}

Tensor plus_bias(const Tensor& x, const Tensor& bias) {
  if (!bias.defined()) return x;
  Shape sizes = Shape::filled(x.dim(), 1);
  sizes[1] = bias.size(0);
  return x + reshape(bias, sizes);
}

Tensors convolution_reference(Args in, const ConvolutionAttrs& given) {
  const Tensor &input = *in[0], &weight = *in[1];
  const ConvolutionAttrs attrs = expanded(given, input.dim() - 2);
  Tensor result;
  if (attrs.transposed) {
    Shape sizes{input.size(0), weight.size(1) * attrs.groups};
    for (int d = 0; d < input.dim() - 2; ++d)
      sizes.push_back((input.size(d + 2) - 1) * attrs.stride[d] - 2 * attrs.padding[d] +
                      (weight.size(d + 2) - 1) * attrs.dilation[d] + 1 + attrs.output_padding[d]);
    result = by_spreading(input, weight, sizes, attrs);
  } else {
    result = by_windows(input, weight, attrs);
  }
  return laid_out(in.size() > 2 ? plus_bias(result, *in[2]) : result, in);
}

Tensors input_grad_reference(Args in, const ConvolutionGradAttrs& given) {
  const ConvolutionAttrs attrs = expanded(given, in[0]->dim() - 2);
  if (!attrs.transposed) return laid_out(by_spreading(*in[0], *in[1], given.sizes, attrs), in);
  return laid_out(apply(convolution_op, {*in[0], *in[1], Tensor()}, plain(attrs)), in);
}

Tensors weight_grad_reference(Args in, const ConvolutionGradAttrs& given) {
  const ConvolutionAttrs attrs = expanded(given, in[0]->dim() - 2);
  const Tensor &large = attrs.transposed ? *in[0] : *in[1],
               &small = attrs.transposed ? *in[1] : *in[0];
  return laid_out(weight_by_swapping(large, small, given.sizes, attrs), in);
}

// ---- gradients ---------------------------------------------------------------------------------
// Every one of the three products is linear in both operands, so each is the gradient of the two
// others.

Tensor input_grad(const Tensor& grad, const Tensor& weight, const Shape& sizes,
                  const ConvolutionAttrs& attrs) {
  return apply(convolution_input_grad_op, {grad, weight}, {attrs, sizes});
}
Tensor weight_grad(const Tensor& grad, const Tensor& input, const Shape& sizes,
                   const ConvolutionAttrs& attrs) {
  return apply(convolution_weight_grad_op, {grad, input}, {attrs, sizes});
}

// The result's gradient with the channels last if the images' are: two kernels read it, and each
// would have to copy it.
Tensor grad_of_images(const Vjp& vjp) {
  const Tensor& grad = vjp.grad();
  if (grad.dim() < 4 || !vjp.needs(0) || !vjp.needs(1)) return grad;
  const Tensor& images = vjp.input(0);
  if (!is_channels_last(images.sizes(), images.strides())) return grad;
  return contiguous(grad,
                    grad.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d);
}

void convolution_vjp(Vjp& vjp, const ConvolutionAttrs& attrs) {
  const Tensor grad = grad_of_images(vjp);
  if (vjp.needs(0)) vjp.set(0, input_grad(grad, vjp.input(1), vjp.input_sizes(0), attrs));
  if (vjp.needs(1)) vjp.set(1, weight_grad(grad, vjp.input(0), vjp.input_sizes(1), attrs));
  if (vjp.input_count() <= 2 || !vjp.needs(2)) return;
  Dims dims{0};
  for (int d = 2; d < grad.dim(); ++d) dims.push_back(d);
  vjp.set(2, sum(grad, dims));
}

void input_grad_vjp(Vjp& vjp, const ConvolutionGradAttrs& attrs) {
  const Tensor& grad = vjp.grad();
  if (vjp.needs(0)) vjp.set(0, apply(convolution_op, {grad, vjp.input(1), Tensor()}, attrs));
  if (vjp.needs(1)) vjp.set(1, weight_grad(vjp.input(0), grad, vjp.input_sizes(1), attrs));
}

void weight_grad_vjp(Vjp& vjp, const ConvolutionGradAttrs& attrs) {
  const Tensor& grad = vjp.grad();
  if (vjp.needs(0)) vjp.set(0, apply(convolution_op, {vjp.input(1), grad, Tensor()}, attrs));
  if (vjp.needs(1)) vjp.set(1, input_grad(vjp.input(0), grad, vjp.input_sizes(1), attrs));
}

}  // namespace

constinit OpDef<ConvolutionAttrs> convolution_op = define(Op<ConvolutionAttrs>{
    .name = "convolution",
    .inputs = {"input", "weight", "bias?"},
    .infer = infer_convolution,
    .reference = convolution_reference,
    .vjp = convolution_vjp,
    .saves = {in(1), in(0)},
    .autocast = Autocast::lower,
});

constinit OpDef<ConvolutionGradAttrs> convolution_input_grad_op = define(Op<ConvolutionGradAttrs>{
    .name = "convolution_input_grad",
    .inputs = {"grad", "weight"},
    .infer =
        [](Infer& infer, const ConvolutionGradAttrs& attrs) {
          infer_gradient(infer, attrs, attrs.sizes, infer[1].sizes());
        },
    .reference = input_grad_reference,
    .vjp = input_grad_vjp,
    .saves = {in(1), in(0)},
});

constinit OpDef<ConvolutionGradAttrs> convolution_weight_grad_op = define(Op<ConvolutionGradAttrs>{
    .name = "convolution_weight_grad",
    .inputs = {"grad", "input"},
    .infer =
        [](Infer& infer, const ConvolutionGradAttrs& attrs) {
          infer_gradient(infer, attrs, infer[1].sizes(), attrs.sizes);
        },
    .reference = weight_grad_reference,
    .vjp = weight_grad_vjp,
    .saves = {in(1), in(0)},
});

void register_convolution(OpRegistry& registry) {
  registry.add(convolution_op);
  registry.add(convolution_input_grad_op);
  registry.add(convolution_weight_grad_op);
  shard_by(convolution_op, [](Args, const ConvolutionAttrs& attrs) -> std::string_view {
    const bool plain = attrs.groups == 1 && !attrs.transposed;
    return plain ? "nonempty nc~,oc~,+o->no~" : "nonempty n~,~->n~";
  });
}

}  // namespace tensora
