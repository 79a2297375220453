#include "tensora/ops/fft/transforms.h"

#include <numbers>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/resample/pad.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<FftAttrs>) {
  return fields(field("dim", &FftAttrs::dim), field("scale", &FftAttrs::scale),
                field("forward", &FftAttrs::forward));
}
constexpr auto describe(std::type_identity<RealFftAttrs>) {
  return fields(field("dim", &RealFftAttrs::dim), field("scale", &RealFftAttrs::scale));
}
constexpr auto describe(std::type_identity<InverseRealFftAttrs>) {
  return fields(field("dim", &InverseRealFftAttrs::dim),
                field("scale", &InverseRealFftAttrs::scale),
                field("last_dim_size", &InverseRealFftAttrs::last_dim_size));
}

namespace {

constexpr DTypeSet kTransformed = kComplexDTypes | set_of(kFloat32) | set_of(kFloat64);

/// Checks dims and dtype; returns the dims counted from 0.
Dims check_transform(const Infer& infer, const Dims& dim, bool complex) {
  const Tensor& x = infer[0];
  infer.check(x.is_complex() == complex, "expected a ", complex ? "complex" : "real",
              " tensor, got ", x.dtype());
  infer.check(!dim.empty() && x.dim() > 0, "expected at least one dim to transform, of a tensor ",
              "that has dims; got dim ", dim, " and shape ", x.sizes());
  const Dims dims = wrap_dims(dim, x.dim(), infer.op);
  for (const int64_t d : dims)
    infer.check(x.size(d) > 0, "cannot transform dim ", d, " of size 0, shape ", x.sizes());
  return dims;
}

/// Multiplies what stands for two elements of a spectrum whose size is n: all but the first one
/// and, if n is even, the last one.
Tensor weigh_pairs(const Tensor& x, int64_t dim, int64_t n, double factor) {
  const int64_t pairs = (n - 1) / 2;
  if (pairs == 0) return x;
  const TensorOptions options{.dtype = real_dtype(x.dtype()), .device = x.device()};
  const Tensor one = ones({1}, options), inner = full({pairs}, factor, options);
  const Tensor weights = n % 2 ? cat({one, inner}) : cat({one, inner, one});
  Shape sizes = Shape::filled(x.dim(), 1);
  sizes[wrap_dim(dim, x.dim(), "fft")] = weights.numel();
  return x * reshape(weights, sizes);
}

/// Along one dim, by the matrix of the definition.
Tensor multiply_out(const Tensor& x, int64_t dim, bool forward) {
  const int64_t n = x.size(dim);
  const Tensor k = arange(n, {.dtype = kFloat64, .device = x.device()});
  const Tensor turns = remainder(unsqueeze(k, 1) * k, static_cast<double>(n));
  const double turn = (forward ? -2 : 2) * std::numbers::pi / static_cast<double>(n);
  const Tensor matrix = polar(ones_like(turns), turns * turn);
  return transpose(matmul(transpose(x, dim, -1), to(matrix, x.dtype())), dim, -1);
}

Tensors c2c_reference(Args in, const FftAttrs& attrs) {
  Tensor result = *in[0];
  for (const int64_t dim : attrs.dim) result = multiply_out(result, dim, attrs.forward);
  return Tensors{contiguous(result * attrs.scale)};
}

Tensors r2c_reference(Args in, const RealFftAttrs& attrs) {
  const Tensor& x = *in[0];
  const Tensor all = apply(fft_c2c_op, {to(x, complex_dtype(x.dtype()))}, {attrs.dim, 1, true});
  const int64_t last = attrs.dim.back();
  return Tensors{contiguous(narrow(all, last, 0, x.size(last) / 2 + 1) * attrs.scale)};
}

/// The other half are the conjugates.
Tensors real_reference(Args in, const FftAttrs& attrs) {
  const int64_t dim = attrs.dim[0], n = in[0]->size(dim), pairs = (n - 1) / 2;
  Tensor all = apply(fft_r2c_op, {*in[0]}, {attrs.dim, attrs.scale});
  if (pairs > 0) all = cat({all, conj(flip(narrow(all, dim, 1, pairs), {dim}))}, dim);
  return Tensors{contiguous(attrs.forward ? all : conj(all))};
}

Tensors c2r_reference(Args in, const InverseRealFftAttrs& attrs) {
  const Tensor& x = *in[0];
  const int last = wrap_dim(attrs.dim.back(), x.dim(), "fft_c2r");
  ConstantPadAttrs padding{Shape::filled(x.dim(), 0), Shape::filled(x.dim(), 0)};
  padding.after[last] = attrs.last_dim_size - x.size(last);
  const Tensor all =
      apply(constant_pad_op, {weigh_pairs(x, last, attrs.last_dim_size, 2)}, padding);
  return Tensors{contiguous(real(apply(fft_c2c_op, {all}, {attrs.dim, attrs.scale, false})))};
}

}  // namespace

constinit OpDef<FftAttrs> fft_c2c_op = define(Op<FftAttrs>{
    .name = "fft_c2c",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const FftAttrs& attrs) {
          check_transform(infer, attrs.dim, true);
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .reference = c2c_reference,
    .vjp =
        [](Vjp& vjp, const FftAttrs& attrs) {
          vjp.set(0, apply(fft_c2c_op, {vjp.grad()}, {attrs.dim, attrs.scale, !attrs.forward}));
        },
    .accepts = kTransformed,
});

// The gradients follow from what the ops compute of each element of a half spectrum: forward, only
// itself; in reverse, the sum of the element and its conjugate.
constinit OpDef<RealFftAttrs> fft_r2c_op = define(Op<RealFftAttrs>{
    .name = "fft_r2c",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const RealFftAttrs& attrs) {
          const int last = static_cast<int>(check_transform(infer, attrs.dim, false).back());
          Shape sizes = infer[0].sizes();
          sizes[last] = sizes[last] / 2 + 1;
          infer.output(sizes, complex_dtype(infer[0].dtype()));
        },
    .reference = r2c_reference,
    .vjp =
        [](Vjp& vjp, const RealFftAttrs& attrs) {
          const Shape& sizes = vjp.input_sizes(0);
          const int64_t n = sizes[wrap_dim(attrs.dim.back(), sizes.size(), "fft_r2c")];
          vjp.set(0, apply(fft_c2r_op, {weigh_pairs(vjp.grad(), attrs.dim.back(), n, 0.5)},
                           {attrs.dim, attrs.scale, n}));
        },
    .accepts = kTransformed,
});

constinit OpDef<FftAttrs> fft_real_op = define(Op<FftAttrs>{
    .name = "fft_real",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const FftAttrs& attrs) {
          check_transform(infer, attrs.dim, false);
          infer.check(attrs.dim.size() == 1, "expected one dim to transform, got dim ", attrs.dim);
          infer.output(infer[0].sizes(), complex_dtype(infer[0].dtype()));
        },
    .reference = real_reference,
    .vjp =
        [](Vjp& vjp, const FftAttrs& attrs) {
          vjp.set(0,
                  real(apply(fft_c2c_op, {vjp.grad()}, {attrs.dim, attrs.scale, !attrs.forward})));
        },
    .accepts = kTransformed,
});

constinit OpDef<InverseRealFftAttrs> fft_c2r_op = define(Op<InverseRealFftAttrs>{
    .name = "fft_c2r",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const InverseRealFftAttrs& attrs) {
          const int last = static_cast<int>(check_transform(infer, attrs.dim, true).back());
          Shape sizes = infer[0].sizes();
          infer.check(attrs.last_dim_size >= 1 && sizes[last] == attrs.last_dim_size / 2 + 1,
                      "last_dim_size must be ", 2 * sizes[last] - 2, " or ", 2 * sizes[last] - 1,
                      " for size ", sizes[last], " of dim ", last, ", got ", attrs.last_dim_size);
          sizes[last] = attrs.last_dim_size;
          infer.output(sizes, real_dtype(infer[0].dtype()));
        },
    .reference = c2r_reference,
    .vjp =
        [](Vjp& vjp, const InverseRealFftAttrs& attrs) {
          vjp.set(0, weigh_pairs(apply(fft_r2c_op, {vjp.grad()}, {attrs.dim, attrs.scale}),
                                 attrs.dim.back(), attrs.last_dim_size, 2));
        },
    .accepts = kTransformed,
});

void register_transforms(OpRegistry& registry) {
  registry.add(fft_c2c_op);
  registry.add(fft_r2c_op);
  registry.add(fft_real_op);
  registry.add(fft_c2r_op);
  shard_by(fft_c2c_op, "along dim");
  shard_by(fft_r2c_op, "along dim");
  shard_by(fft_real_op, "along dim");
  shard_by(fft_c2r_op, "along dim");
}

}  // namespace tensora
