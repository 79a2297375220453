#include "tensora/ops/matrix/addmm.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/complex/complex_forms.h"
#include "tensora/ops/matrix/linear_gradients.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/define_pointwise.h"

namespace tensora {

constexpr auto describe(std::type_identity<AddmmAttrs>) {
  return fields(field("beta", &AddmmAttrs::beta), field("alpha", &AddmmAttrs::alpha));
}

namespace {

void check_dims(std::string_view op, const Tensor& a, const Tensor& b, int a_dim, int b_dim) {
  check(a.dim() == a_dim && b.dim() == b_dim, op, ": expected factors of ", a_dim, " and ", b_dim,
        " dimensions, got shapes ", a.sizes(), " and ", b.sizes());
}

// A factor of 0 leaves the input out, even if it holds NaN.
Tensor added_product(const Tensor& input, const Tensor& product, Scalar beta, Scalar alpha) {
  const Tensor result = scaled(product, alpha);
  return beta == 0 ? result : result + scaled(input, beta);
}

// The op has no complex kernels: its composition, with the op's checks.
Tensor complex_form(std::string_view op, const Tensor& input, const Tensor& product, Scalar beta,
                    Scalar alpha) {
  check(input.dtype() == product.dtype(), op, ": expected all operands to have one dtype, got ",
        input.dtype(), " and ", product.dtype());
  check(can_broadcast_to(input.sizes(), product.sizes()), op, ": the input of shape ",
        input.sizes(), " does not broadcast to the product's shape ", product.sizes());
  return added_product(input, product, beta, alpha);
}

// Whether the gradients of a weight and of a bias, added to every row, come together more cheaply.
bool is_linear_layer(const Vjp& vjp, const AddmmAttrs& attrs) {
  const Tensor& g = vjp.grad();
  return vjp.needs(0) && vjp.needs(2) && g.dim() == 2 && is_floating_point(g.dtype()) &&
         vjp.input_sizes(0) == Shape{g.size(1)} && attrs.alpha == 1 && attrs.beta == 1 &&
         linear_gradients_op.has_kernel(g.device().type);
}

// Factors of integers are truncated, as in PyTorch.
AddmmAttrs factors(const Tensor& product, Scalar beta, Scalar alpha) {
  const auto fitted = [&](Scalar factor) {
    const bool cut = factor.is_floating() && !is_differentiable(product.dtype());
    return cut ? Scalar(factor.to<int64_t>()) : factor;
  };
  return {fitted(beta), fitted(alpha)};
}

}  // namespace

constinit OpDef<AddmmAttrs> addmm_op = define(Op<AddmmAttrs>{
    .name = "addmm",
    .inputs = {"self", "mat1", "mat2"},
    .infer =
        [](Infer& infer, const AddmmAttrs& attrs) {
          const Tensor &input = infer[0], &a = infer[1], &b = infer[2];
          infer.check(a.dtype() == b.dtype() && a.dtype() == input.dtype(),
                      "expected all operands to have one dtype, got ", input.dtype(), ", ",
                      a.dtype(), " and ", b.dtype());
          infer.check(a.dtype() != kBool, "bool tensors are not supported");
          infer.check(is_floating_point(a.dtype()) ||
                          (!attrs.alpha.is_floating() && !attrs.beta.is_floating()),
                      "beta and alpha must be integers for integer tensors");
          infer.check(a.size(-1) == b.size(-2), "shapes ", a.sizes(), " and ", b.sizes(),
                      " cannot be multiplied (", a.size(-1), " columns against ", b.size(-2),
                      " rows)");
          Shape sizes = a.sizes();
          infer.check(a.dim() == b.dim() && (a.dim() == 2 || a.size(0) == b.size(0)),
                      "the batches of ", a.sizes(), " and ", b.sizes(), " differ");
          sizes[sizes.size() - 1] = b.size(-1);
          infer.check(can_broadcast_to(input.sizes(), sizes), "the input of shape ", input.sizes(),
                      " does not broadcast to the product's shape ", sizes);
          infer.output(sizes, a.dtype());
        },
    .reference =
        [](Args in, const AddmmAttrs& attrs) {
          Tensors result;
          result.push_back(added_product(*in[0], matmul(*in[1], *in[2]), attrs.beta, attrs.alpha));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const AddmmAttrs& attrs) {
          const Tensor& g = vjp.grad();
          if (vjp.needs(1))
            vjp.set(1, scaled(matmul(g, transpose(vjp.input(2), -2, -1)), attrs.alpha));
          if (is_linear_layer(vjp, attrs)) {
            const Tensors both = apply_all(linear_gradients_op, {g, vjp.input(1)}, {});
            vjp.set(0, both[1]);
            vjp.set(2, transpose(both[0], 0, 1));
            return;
          }
          if (vjp.needs(0)) vjp.set(0, scaled(g, attrs.beta));
          if (vjp.needs(2))
            vjp.set(2, scaled(second_factor_gradient(vjp.input(1),
                                                     vjp.needs(1) ? vjp.input(2) : Tensor(), g),
                              attrs.alpha));
        },
    .saves = {{}, in(2), in(1)},
    .autocast = Autocast::lower,
});

void register_addmm(OpRegistry& registry) {
  registry.add(addmm_op);
  shard_by(addmm_op, "+*ik,*ij,*jk->*ik");
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Scalar beta,
             Scalar alpha) {
  check_dims("addmm", mat1, mat2, 2, 2);
  if (mat1.is_complex()) return complex_form("addmm", self, matmul(mat1, mat2), beta, alpha);
  return apply(addmm_op, {self, mat1, mat2}, factors(mat1, beta, alpha));
}

const Tensor& addmm_(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Scalar beta,
                     Scalar alpha) {
  check_dims("addmm_", mat1, mat2, 2, 2);
  if (mat1.is_complex())
    return copy_(self, addmm(ComplexForms::kept({self, mat1, mat2}), mat1, mat2, beta, alpha));
  return apply_inplace(addmm_op, {self, mat1, mat2}, factors(mat1, beta, alpha));
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta,
               Scalar alpha) {
  return called_as("baddbmm", [&]() {
    check_dims("baddbmm", batch1, batch2, 3, 3);
    if (batch1.is_complex()) return complex_form("baddbmm", self, bmm(batch1, batch2), beta, alpha);
    return apply(addmm_op, {self, batch1, batch2}, factors(batch1, beta, alpha));
  });
}

const Tensor& baddbmm_(const Tensor& self, const Tensor& batch1, const Tensor& batch2, Scalar beta,
                       Scalar alpha) {
  return called_as("baddbmm_", [&]() -> const Tensor& {
    check_dims("baddbmm_", batch1, batch2, 3, 3);
    if (batch1.is_complex())
      return copy_(
          self, baddbmm(ComplexForms::kept({self, batch1, batch2}), batch1, batch2, beta, alpha));
    return apply_inplace(addmm_op, {self, batch1, batch2}, factors(batch1, beta, alpha));
  });
}

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta, Scalar alpha) {
  if (is_autocast_enabled())
    return autocast_call(
        "addmv", {Autocast::as_is, Autocast::lower},
        [&](const Tensor& x, const Tensor& a, const Tensor& b) {
          return addmv(x, a, b, beta, alpha);
        },
        self, mat, vec);
  return called_as("addmv", [&]() {
    check_dims("addmv", mat, vec, 2, 1);
    const Tensor column = self.dim() == 0 ? self : unsqueeze(self, 1);
    return squeeze(addmm(column, mat, unsqueeze(vec, 1), beta, alpha), 1);
  });
}

Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta, Scalar alpha) {
  if (is_autocast_enabled())
    return autocast_call(
        "addr", {Autocast::as_is, Autocast::lower},
        [&](const Tensor& x, const Tensor& a, const Tensor& b) {
          return addr(x, a, b, beta, alpha);
        },
        self, vec1, vec2);
  return called_as("addr", [&]() {
    check_dims("addr", vec1, vec2, 1, 1);
    const DType dtype = result_type(args_of(std::array{self, vec1, vec2}));
    check(is_floating_point(dtype) || (!alpha.is_floating() && !beta.is_floating()),
          "addr: beta and alpha must be integers for ", dtype, " tensors");
    const auto product = [&](DType in) {
      return addmm(to(self, in), unsqueeze(to(vec1, in), 1), unsqueeze(to(vec2, in), 0), beta,
                   alpha);
    };
    if (dtype != kBool) return product(dtype);
    // A bool product is an "or" of "and"s: counted as integers, then compared with 0.
    return ne(product(kInt64), 0);
  });
}

Tensor linear(const Tensor& input, const Tensor& weight) { return linear(input, weight, {}); }

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  // Here and not in the product, which sees a view of the weight: only casts of parameters are
  // kept.
  if (is_autocast_enabled())
    return autocast_call(
        "linear", Autocast::lower,
        [](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); }, input,
        weight, bias);
  if (weight.dim() == 1 && (input.dim() != 2 || !bias.defined())) {  // one output, without a dim
    const Tensor product = matmul(input, weight);
    if (!bias.defined()) return product;
    check(can_broadcast_to(bias.sizes(), product.sizes()), "linear: a bias of shape ", bias.sizes(),
          " does not fit a weight of shape ", weight.sizes());
    return product + bias;
  }
  check(weight.dim() == 2, "linear: weight must have 2 dimensions (out, in), got shape ",
        weight.sizes());
  check(input.dim() >= 1 && input.size(-1) == weight.size(1), "linear: input of shape ",
        input.sizes(), " does not fit weight of shape ", weight.sizes(), " (out, in)");
  const Tensor transposed = transpose(weight, 0, 1);
  if (!bias.defined()) return matmul(input, transposed);
  const bool is_row =
      bias.dim() > 0 && bias.numel() == weight.size(0) && bias.size(-1) == weight.size(0);
  check((is_row || bias.numel() == 1) && bias.dim() <= 2, "linear: bias must have shape [",
        weight.size(0), "], got ", bias.sizes());
  if (bias.dim() > 1) return linear(input, weight, reshape(bias, {-1}));
  if (input.dim() == 2) return addmm(bias, input, transposed);
  if (input.dim() == 1) return squeeze(addmm(bias, unsqueeze(input, 0), transposed), 0);
  Shape sizes = input.sizes();
  sizes[sizes.size() - 1] = weight.size(0);
  Shape batch = input.sizes();
  batch.resize(batch.size() - 1);
  const int64_t rows = batch.numel();
  return reshape(addmm(bias, reshape(input, {rows, input.size(-1)}), transposed), sizes);
}

}  // namespace tensora
