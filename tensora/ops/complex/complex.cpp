#include "tensora/ops/complex/complex.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/describe.h"

namespace tensora {
namespace {

constexpr double kPi = 3.14159265358979324;

void check_parts(std::string_view op, const Tensor& first, const Tensor& second) {
  check(first.dtype() == second.dtype() && (first.dtype() == kFloat32 || first.dtype() == kFloat64),
        op, ": expected two float32 or two float64 tensors, got ", first.dtype(), " and ",
        second.dtype());
}

}  // namespace

constinit OpDef<NoAttrs> view_as_real_op = define(Op<NoAttrs>{
    .name = "view_as_real",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor& x = infer[0];
          infer.check(x.is_complex(), "expected a complex tensor, got ", x.dtype());
          Shape sizes = x.sizes();
          Strides strides = x.strides();
          for (int64_t& stride : strides) stride *= 2;
          sizes.push_back(2);
          strides.push_back(1);
          infer.outputs.emplace_back(sizes, strides, 2 * x.storage_offset(), real_dtype(x.dtype()));
        },
    .vjp = [](Vjp& vjp, const NoAttrs&) { vjp.set(0, view_as_complex(contiguous(vjp.grad()))); },
    .view = true,
});

constinit OpDef<NoAttrs> view_as_complex_op = define(Op<NoAttrs>{
    .name = "view_as_complex",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor& x = infer[0];
          infer.check(x.dtype() == kFloat32 || x.dtype() == kFloat64,
                      "expected a float32 or float64 tensor, got ", x.dtype());
          const int last = x.dim() - 1;
          infer.check(last >= 0 && x.sizes()[last] == 2,
                      "the last dim must have size 2, got shape ", x.sizes());
          infer.check(x.strides()[last] == 1 || x.numel() == 0,
                      "the last dim must have stride 1, got strides ", x.strides());
          bool even = x.storage_offset() % 2 == 0;
          Shape sizes = x.sizes();
          Strides strides = x.strides();
          sizes.resize(last);
          strides.resize(last);
          for (int d = 0; d < last; ++d) {
            even &= strides[d] % 2 == 0 || sizes[d] <= 1 || x.numel() == 0;
            strides[d] /= 2;
          }
          infer.check(even, "pairs must begin at even offsets, got strides ", x.strides(),
                      " and offset ", x.storage_offset());
          infer.outputs.emplace_back(sizes, strides, x.storage_offset() / 2,
                                     complex_dtype(x.dtype()));
        },
    .vjp = [](Vjp& vjp, const NoAttrs&) { vjp.set(0, view_as_real(vjp.grad())); },
    .view = true,
});

void register_complex(OpRegistry& registry) {
  registry.add(view_as_real_op);
  registry.add(view_as_complex_op);
  shard_by(view_as_real_op, "*->*.");
  shard_by(view_as_complex_op, "*.->*");
}

Tensor view_as_real(const Tensor& self) { return apply(view_as_real_op, {self}); }
Tensor view_as_complex(const Tensor& self) { return apply(view_as_complex_op, {self}); }

Tensor real(const Tensor& self) {
  return self.is_complex() ? select(view_as_real(self), -1, 0) : self;
}

Tensor imag(const Tensor& self) {
  check(self.is_complex(), "imag: expected a complex tensor, got ", self.dtype());
  return select(view_as_real(self), -1, 1);
}

Tensor conj(const Tensor& self) {
  return self.is_complex() ? apply(pointwise_op<functors::Conj>(), {self}) : self;
}

Tensor angle(const Tensor& self) {
  if (self.is_complex()) return atan2(imag(self), real(self));
  const Tensor x = self.is_floating_point() ? self : to(self, default_dtype());
  // NaN by a product with 0: its gradient is 0, as everywhere.
  return where(isnan(x), x * 0, to(lt(x, 0), x.dtype()) * kPi);
}

Tensor sgn(const Tensor& self) {
  if (!self.is_complex()) return sign(self);
  const Tensor length = abs(self), is_zero = eq(length, 0);
  return where(is_zero, 0, self / where(is_zero, 1, length));
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  check_parts("complex", real, imag);
  const Shape sizes = broadcast_shapes(real.sizes(), imag.sizes(), "complex");
  return view_as_complex(stack({expand(real, sizes), expand(imag, sizes)}, -1));
}

Tensor polar(const Tensor& abs, const Tensor& angle) {
  check_parts("polar", abs, angle);
  return complex(abs * cos(angle), abs * sin(angle));
}

Tensor nonnegative(const Tensor& x) { return ge(real(x), 0); }

}  // namespace tensora
