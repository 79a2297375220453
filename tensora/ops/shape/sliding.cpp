#include "tensora/ops/shape/sliding.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<SlidingBackwardAttrs>) {
  using A = SlidingBackwardAttrs;
  return fields(field("sizes", &A::sizes), field("dimension", &A::dimension),
                field("size", &A::size), field("step", &A::step));
}
constexpr auto describe(std::type_identity<SlidingAttrs>) {
  using A = SlidingAttrs;
  return fields(field("dimension", &A::dimension), field("size", &A::size),
                field("step", &A::step));
}

namespace {

// The shape of the windows over a tensor of shape `sizes`.
Shape window_sizes(const Shape& sizes, const SlidingAttrs& attrs, std::string_view op) {
  const int dim = wrap_dim(attrs.dimension, sizes.size(), op);
  const int64_t total = sizes.empty() ? 1 : sizes[dim];
  check(attrs.size >= 0 && attrs.size <= total, op, ": window size must be between 0 and ", total,
        ", the size of dimension ", dim, ", got ", attrs.size);
  check(attrs.step > 0, op, ": step must be positive, got ", attrs.step);
  Shape result = sizes;
  if (!sizes.empty()) result[dim] = (total - attrs.size) / attrs.step + 1;
  result.push_back(attrs.size);
  return result;
}

}  // namespace

constinit OpDef<SlidingAttrs> sliding_op = define(Op<SlidingAttrs>{
    .name = "unfold",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const SlidingAttrs& attrs) {
          const Tensor& x = infer[0];
          const Shape sizes = window_sizes(x.sizes(), attrs, infer.op);
          const int dim = wrap_dim(attrs.dimension, x.dim(), infer.op);
          Strides strides = x.strides();
          strides.push_back(x.dim() == 0 ? 1 : strides[dim]);
          // A step so large that this overflows leaves one window, whose stride has no effect.
          if (x.dim() > 0 && __builtin_mul_overflow(strides[dim], attrs.step, &strides[dim]))
            strides[dim] = x.strides()[dim];
          infer.view(sizes, strides, x.storage_offset());
        },
    .vjp =
        [](Vjp& vjp, const SlidingAttrs& attrs) {
          const SlidingBackwardAttrs back{vjp.input_sizes(0), attrs.dimension, attrs.size,
                                          attrs.step};
          const Tensor& g = vjp.grad();
          vjp.set(0, g.is_complex() ? complex(apply(sliding_backward_op, {real(g)}, back),
                                              apply(sliding_backward_op, {imag(g)}, back))
                                    : apply(sliding_backward_op, {g}, back));
        },
    .view = true,
});

constinit OpDef<SlidingBackwardAttrs> sliding_backward_op = define(Op<SlidingBackwardAttrs>{
    .name = "unfold_backward",
    .inputs = {"grad"},
    .internal = true,
    .infer =
        [](Infer& infer, const SlidingBackwardAttrs& attrs) {
          const Shape expected =
              window_sizes(attrs.sizes, {attrs.dimension, attrs.size, attrs.step}, infer.op);
          infer.check(infer[0].sizes() == expected, "expected windows of shape ", expected,
                      ", got ", infer[0].sizes());
          infer.check(is_floating_point(infer[0].dtype()), "expected a floating-point dtype, got ",
                      infer[0].dtype());
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const SlidingBackwardAttrs& attrs) {
          const Tensor& windows = *in[0];
          Tensors result;
          result.push_back(
              zeros(attrs.sizes, {.dtype = windows.dtype(), .device = windows.device()}));
          const Tensor line = attrs.sizes.empty() ? view(result[0], {1}) : result[0];
          const int64_t dim = wrap_dim(attrs.dimension, line.dim(), "unfold_backward");
          const int64_t count = attrs.sizes.empty() ? 1 : windows.size(dim);
          // Element i of all windows at once: those never overlap.
          for (int64_t i = 0; i < attrs.size; ++i)
            add_(slice(line, dim, i, i + (count - 1) * attrs.step + 1, attrs.step),
                 select(windows, -1, i));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const SlidingBackwardAttrs& attrs) {
          vjp.set(0, unfold(vjp.grad(), attrs.dimension, attrs.size, attrs.step));
        },
});

void register_sliding(OpRegistry& registry) {
  registry.add(sliding_op);
  registry.add(sliding_backward_op);
}

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return apply(sliding_op, {self}, {dimension, size, step});
}

}  // namespace tensora
