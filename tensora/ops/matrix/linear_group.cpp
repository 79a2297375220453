#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/linear_group_op.h"

namespace tensora {
namespace {

void group_vjp(Vjp& vjp, const NoAttrs&) {
  const Tensor x = vjp.input(0);
  Tensor of_x;
  for (size_t i = 1; i < vjp.input_count(); ++i) {
    const Tensor& grad = vjp.grad(i - 1);
    if (!grad.defined()) continue;
    if (vjp.needs(i)) vjp.set(i, matmul(transpose(grad, 0, 1), x));
    if (!vjp.needs(0)) continue;
    if (!of_x.defined())
      of_x = matmul(grad, vjp.input(i));
    else if (is_grad_enabled())
      of_x = addmm(of_x, grad, vjp.input(i));
    else
      addmm_(of_x, grad, vjp.input(i));
  }
  if (of_x.defined()) vjp.set(0, of_x);
}

}  // namespace

constinit OpDef<NoAttrs> linear_group_op = define(Op<NoAttrs>{
    .name = "linear_group",
    .inputs = {"input", "weights..."},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor& x = infer[0];
          infer.check(x.is_floating_point() && x.dim() == 2,
                      "expected a floating-point matrix, got ", x.dtype(), " of shape ", x.sizes());
          for (size_t i = 1; i < infer.inputs.size(); ++i) {
            const Tensor& weight = infer[i];
            infer.check(
                weight.dtype() == x.dtype() && weight.dim() == 2 && weight.size(1) == x.size(1),
                "input of ", x.dtype(), " and shape ", x.sizes(), " does not fit weight of ",
                weight.dtype(), " and shape ", weight.sizes(), " (out, in)");
            infer.output({x.size(0), weight.size(0)}, x.dtype());
          }
        },
    .reference =
        [](Args in, const NoAttrs&) {
          Tensors results;
          for (const Arg& weight : in.subspan(1)) results.push_back(linear(*in[0], *weight));
          return results;
        },
    .vjp = group_vjp,
    .saves = Saves{}.rest(in_from(0)),
    .autocast = Autocast::lower,
});

void register_linear_group(OpRegistry& registry) {
  registry.add(linear_group_op);
  shard_by(linear_group_op, "i.,..->i.");
}

std::vector<Tensor> linear_group(const Tensor& input, std::span<const Tensor> weights) {
  check(input.dim() >= 1, "linear_group: input must have at least 1 dimension");
  Shape sizes = input.sizes();
  const int64_t width = sizes[sizes.size() - 1];
  sizes.resize(sizes.size() - 1);
  const Tensor matrix = input.dim() == 2 ? input : reshape(input, {sizes.numel(), width});
  SmallVector<Arg, 8> inputs;
  inputs.emplace_back(matrix);
  for (const Tensor& weight : weights) inputs.emplace_back(weight);
  std::vector<Tensor> results;
  const NoAttrs none;
  for (const Tensor& result : detail::apply_all(linear_group_op, inputs, &none)) {
    Shape shape = sizes;
    shape.push_back(result.size(1));
    results.push_back(reshape(result, shape));
  }
  return results;
}

}  // namespace tensora
