#include "tensora/ops/matrix/matmul.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/linear_gradients.h"
#include "tensora/ops/operators.h"

namespace tensora {
namespace {

Shape batch_of(const Tensor& x) {
  Shape batch = x.sizes();
  batch.resize(x.dim() - 2);
  return batch;
}

void check_dim(const Tensor& x, int expected, std::string_view op, std::string_view argument) {
  check(x.defined(), op, ": ", argument, " is undefined");
  check(x.dim() == expected, op, ": ", argument, " must have ", expected, " dimensions, got shape ",
        x.sizes());
}

// What the op would find too, but in the shapes it is given and under its own name.
void check_product(const Tensor& a, const Tensor& b, std::string_view op) {
  check(is_autocast_enabled() || a.dtype() == b.dtype(), op,
        ": expected both operands to have one dtype, got ", a.dtype(), " and ", b.dtype());
  check(a.dtype() != kBool, op, ": bool tensors are not supported");
  const int64_t columns = a.size(-1), rows = b.size(b.dim() == 1 ? 0 : -2);
  check(columns == rows, op, ": shapes ", a.sizes(), " and ", b.sizes(), " cannot be multiplied (",
        columns, " columns against ", rows, " rows)");
}

}  // namespace

constinit OpDef<NoAttrs> matmul_op = define(Op<NoAttrs>{
    .name = "matmul",
    .inputs = {"self", "other"},
    .primitive = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor &a = infer[0], &b = infer[1];
          infer.check(a.dim() >= 2 && b.dim() >= 2, "expected matrices, got shapes ", a.sizes(),
                      " and ", b.sizes());
          infer.check(a.dtype() == b.dtype(), "expected both operands to have one dtype, got ",
                      a.dtype(), " and ", b.dtype());
          check_product(a, b, infer.op);
          Shape sizes = broadcast_shapes(batch_of(a), batch_of(b), infer.op);
          sizes.push_back(a.size(-2));
          sizes.push_back(b.size(-1));
          infer.output(sizes, a.dtype());
        },
    .vjp =
        [](Vjp& vjp, const NoAttrs&) {
          const Tensor& g = vjp.grad();
          if (vjp.needs(0)) vjp.set(0, apply(matmul_op, {g, transpose(vjp.input(1), -2, -1)}));
          if (vjp.needs(1))
            vjp.set(
                1, second_factor_gradient(vjp.input(0), vjp.needs(0) ? vjp.input(1) : Tensor(), g));
        },
    .saves = {in(1), in(0)},
    .autocast = Autocast::lower,
});

Tensor second_factor_gradient(const Tensor& a, const Tensor& b, const Tensor& grad) {
  const bool turned = b.defined() && b.dim() == 2 && a.dim() == 2 && b.stride(0) == 1 &&
                      b.stride(1) >= b.size(0) && b.size(1) > 1;
  if (turned) return transpose(apply(matmul_op, {transpose(grad, 0, 1), a}), 0, 1);
  return apply(matmul_op, {transpose(a, -2, -1), grad});
}

void register_matmul(OpRegistry& registry) {
  registry.add(matmul_op);
  shard_by(matmul_op, "*ij,*jk->*ik");
}

namespace {

Tensor product(const Tensor& a, const Tensor& b) {
  if (!a.is_complex() || !b.is_complex() || a.dtype() != b.dtype()) return apply(matmul_op, {a, b});
  const Tensor x = contiguous(real(a)), y = contiguous(imag(a));
  const Tensor u = contiguous(real(b)), v = contiguous(imag(b));
  return complex(product(x, u) - product(y, v), product(x, v) + product(y, u));
}

}  // namespace

Tensor matmul(const Tensor& self, const Tensor& other) {
  check(self.defined() && other.defined(), "matmul: ", self.defined() ? "other" : "self",
        " is undefined");
  check(self.dim() >= 1 && other.dim() >= 1,
        "matmul: both operands need at least one dimension, got shapes ", self.sizes(), " and ",
        other.sizes());
  check_product(self, other, "matmul");
  if (self.dim() == 1) {
    const Tensor result =
        matmul(unsqueeze(self, 0), other.dim() == 1 ? unsqueeze(other, 1) : other);
    return other.dim() == 1 ? squeeze(squeeze(result, -1), -1) : squeeze(result, -2);
  }
  if (other.dim() == 1) return squeeze(matmul(self, unsqueeze(other, 1)), -1);
  if (self.dim() > 2 && other.dim() == 2 && self.is_contiguous()) {
    // One tall matrix instead of a batch: one product, and no sum over the batch in the gradient.
    Shape sizes = self.sizes();
    sizes[sizes.size() - 1] = other.size(1);
    const int64_t columns = self.size(-1);
    const int64_t rows =
        columns == 0 ? sizes.numel() / std::max<int64_t>(other.size(1), 1) : self.numel() / columns;
    return reshape(product(reshape(self, {rows, columns}), other), sizes);
  }
  return product(self, other);
}

Tensor mm(const Tensor& self, const Tensor& mat2) {
  check_dim(self, 2, "mm", "self");
  check_dim(mat2, 2, "mm", "mat2");
  check_product(self, mat2, "mm");
  return product(self, mat2);
}

Tensor bmm(const Tensor& self, const Tensor& mat2) {
  check_dim(self, 3, "bmm", "self");
  check_dim(mat2, 3, "bmm", "mat2");
  check(self.size(0) == mat2.size(0), "bmm: the batches differ: ", self.sizes(), " and ",
        mat2.sizes());
  check_product(self, mat2, "bmm");
  return product(self, mat2);
}

Tensor mv(const Tensor& self, const Tensor& vec) {
  if (is_autocast_enabled())
    return autocast_call("mv", {Autocast::as_is, Autocast::lower}, mv, self, vec);
  check_dim(self, 2, "mv", "self");
  check_dim(vec, 1, "mv", "vec");
  check_product(self, vec, "mv");
  return matmul(self, vec);
}

Tensor dot(const Tensor& self, const Tensor& other) {
  if (is_autocast_enabled())
    return autocast_call("dot", {Autocast::as_is, Autocast::widest}, dot, self, other);
  check_dim(self, 1, "dot", "self");
  check_dim(other, 1, "dot", "other");
  check(self.sizes() == other.sizes(), "dot: expected vectors of one length, got shapes ",
        self.sizes(), " and ", other.sizes());
  check_product(self, other, "dot");
  return matmul(self, other);
}

Tensor outer(const Tensor& self, const Tensor& vec2) {
  check_dim(self, 1, "outer", "self");
  check_dim(vec2, 1, "outer", "vec2");
  return unsqueeze(self, 1) * unsqueeze(vec2, 0);
}

}  // namespace tensora
