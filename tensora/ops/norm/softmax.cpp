#include "tensora/ops/norm/softmax.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora {

constexpr auto describe(std::type_identity<SoftmaxAttrs>) {
  return fields(field("dim", &SoftmaxAttrs::dim), field("dtype", &SoftmaxAttrs::dtype));
}

namespace {

// Whether values of one dtype are exactly values of the other.
bool widens(DType from, DType to) { return from == to || promote_types(from, to) == to; }

void infer_softmax(Infer& infer, const SoftmaxAttrs& attrs) {
  const Tensor& x = infer[0];
  wrap_dim(attrs.dim, x.dim(), infer.op);
  infer.check(x.is_floating_point(), "expected a floating-point dtype, got ", x.dtype());
  const DType dtype = attrs.dtype.value_or(x.dtype());
  infer.check(is_floating_point(dtype) && widens(x.dtype(), dtype), "a ", x.dtype(),
              " tensor must be cast to ", dtype, " first");
  infer.output(x.sizes(), dtype);
}

void infer_backward(Infer& infer, const SoftmaxAttrs& attrs) {
  infer.output(infer[1].sizes(), attrs.dtype.value_or(infer[1].dtype()));
}

// x relative to its largest element, in the dtype of the computation.
Tensor lowered(const Tensor& x, const SoftmaxAttrs& attrs) {
  const Tensor wide = to(x, promote_types(attrs.dtype.value_or(x.dtype()), kFloat32));
  return wide.numel() == 0 ? wide : wide - amax(wide, {attrs.dim}, true);
}

DType result_dtype(Args in, const SoftmaxAttrs& attrs) {
  return attrs.dtype.value_or(in.back()->dtype());
}

Tensors softmax_reference(Args in, const SoftmaxAttrs& attrs) {
  const Tensor exponentials = exp(lowered(*in[0], attrs));
  return {to(exponentials / sum(exponentials, {attrs.dim}, true), result_dtype(in, attrs))};
}

Tensors log_softmax_reference(Args in, const SoftmaxAttrs& attrs) {
  const Tensor x = lowered(*in[0], attrs);
  return {to(x - log(sum(exp(x), {attrs.dim}, true)), result_dtype(in, attrs))};
}

Tensors softmax_backward_reference(Args in, const SoftmaxAttrs& attrs) {
  const DType wide = promote_types(in[1]->dtype(), kFloat32);
  const Tensor grad = to(*in[0], wide), y = to(*in[1], wide);
  return {to(y * (grad - sum(grad * y, {attrs.dim}, true)), result_dtype(in, attrs))};
}

Tensors log_softmax_backward_reference(Args in, const SoftmaxAttrs& attrs) {
  const DType wide = promote_types(in[1]->dtype(), kFloat32);
  const Tensor grad = to(*in[0], wide), y = to(*in[1], wide);
  return {to(grad - exp(y) * sum(grad, {attrs.dim}, true), result_dtype(in, attrs))};
}

template <const OpDef<SoftmaxAttrs>& backward>
void softmax_vjp(Vjp& vjp, const SoftmaxAttrs& attrs) {
  vjp.set(0, apply(backward, {vjp.grad(), vjp.output()}, {attrs.dim, vjp.input_dtype(0)}));
}

consteval OpDef<SoftmaxAttrs> define_backward(std::string_view name,
                                              Tensors (*reference)(Args, const SoftmaxAttrs&)) {
  return define(Op<SoftmaxAttrs>{
      .name = name,
      .inputs = {"grad", "output"},
      .internal = true,
      .infer = infer_backward,
      .reference = reference,
      .gradient = Gradient::by_reference,
  });
}

// Results are row-major. An input whose innermost dim is another one is copied first: that is
// faster than reading it against its order.
Tensor in_order(const Tensor& x) {
  for (int d = x.dim() - 1; d >= 0; --d)
    if (x.sizes()[d] > 1) return x.strides()[d] == 1 ? x : contiguous(x);
  return x;
}

Tensor apply_softmax(const OpDef<SoftmaxAttrs>& op, const Tensor& self, int64_t dim,
                     std::optional<DType> chosen) {
  const auto dtype = autocast_result(self, chosen, {Autocast::as_is, Autocast::full});
  const bool converts = dtype && is_floating_point(self.dtype()) && widens(self.dtype(), *dtype);
  const Tensor source = dtype && !converts ? to(self, *dtype) : self;
  return apply(op, {in_order(source)}, {dim, dtype});
}

}  // namespace

constinit OpDef<SoftmaxAttrs> softmax_backward_op =
    define_backward("softmax_backward", softmax_backward_reference);
constinit OpDef<SoftmaxAttrs> log_softmax_backward_op =
    define_backward("log_softmax_backward", log_softmax_backward_reference);

constinit OpDef<SoftmaxAttrs> softmax_op = define(Op<SoftmaxAttrs>{
    .name = "softmax",
    .inputs = {"self"},
    .infer = infer_softmax,
    .reference = softmax_reference,
    .vjp = softmax_vjp<softmax_backward_op>,
    .saves = {out(0)},
});

constinit OpDef<SoftmaxAttrs> log_softmax_op = define(Op<SoftmaxAttrs>{
    .name = "log_softmax",
    .inputs = {"self"},
    .infer = infer_softmax,
    .reference = log_softmax_reference,
    .vjp = softmax_vjp<log_softmax_backward_op>,
    .saves = {out(0)},
});

void register_softmax(OpRegistry& registry) {
  registry.add(softmax_op);
  registry.add(log_softmax_op);
  registry.add(softmax_backward_op);
  registry.add(log_softmax_backward_op);
  shard_by(softmax_op, "along dim");
  shard_by(log_softmax_op, "along dim");
  shard_by(softmax_backward_op, "along dim");
  shard_by(log_softmax_backward_op, "along dim");
}

Tensor softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return apply_softmax(softmax_op, self, dim, dtype);
}

Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return apply_softmax(log_softmax_op, self, dim, dtype);
}

Tensor softmin(const Tensor& input, int64_t dim, std::optional<DType> dtype) {
  return softmax(neg(input), dim, dtype);
}

Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, int64_t dim) {
  check(logits.is_floating_point(), "gumbel_softmax: expected floating-point logits, got ",
        logits.dtype());
  wrap_dim(dim, logits.dim(), "gumbel_softmax");
  Tensor noise = empty(logits.sizes(), {.dtype = logits.dtype(), .device = logits.device()});
  exponential_(noise);
  const Tensor soft = softmax((logits - log(noise)) / tau, dim);
  if (!hard) return soft;
  const Tensor value = soft.detach();
  const Tensor index = argmax(value, dim, true);
  const Tensor corner = scatter(zeros_like(value), dim, index, 1);
  return corner - value + soft;
}

}  // namespace tensora
