#include "tensora/ops/quant/route_experts.h"

#include "tensora/ops.h"
#include "tensora/ops/quant/quant_weights.h"
#include "tensora/ops/quant/route_experts_op.h"
#include "tensora/ops/sort/chosen.h"

namespace tensora {

constexpr auto describe(std::type_identity<RouteExpertsAttrs>) {
  return fields(field("used", &RouteExpertsAttrs::used),
                field("normalize", &RouteExpertsAttrs::normalize),
                field("scale", &RouteExpertsAttrs::scale));
}

constinit OpDef<RouteExpertsAttrs> route_experts_op = define(Op<RouteExpertsAttrs>{
    .name = "route_experts",
    .inputs = {"x", "router", "router_scale?"},
    .infer =
        [](Infer& infer, const RouteExpertsAttrs& attrs) {
          check_activations(infer);
          infer.check(infer[0].dim() == 2, "x must be a matrix, got shape ", infer[0].sizes());
          check_factor(infer, 1, 2, "router");
          infer.check(attrs.used >= 1 && attrs.used <= infer[1].size(0), "used must be in [1, ",
                      infer[1].size(0), "], the number of experts, got ", attrs.used);
          const Shape sizes{infer[0].size(0), attrs.used};
          infer.output(sizes, kFloat32);
          infer.output(sizes, kInt64);
        },
    .reference =
        [](Args in, const RouteExpertsAttrs& attrs) {
          const Tensor router[] = {*in[1]};
          const Tensor logits =
              quant_linear(*in[0], router, {.scales = {optional_tensor(in, 2)}, .dtype = kFloat32});
          auto [weights, chosen] = topk(softmax(logits, -1), attrs.used);
          if (attrs.normalize) weights = weights / sum(weights, {-1}, true);
          if (attrs.scale != 1) weights = weights * attrs.scale;
          return Tensors{weights, chosen};
        },
    .gradient = Gradient::not_differentiable,
    .accepts = kWeightDTypes | set_of(kInt64),
});

void register_route_experts(OpRegistry& registry) { registry.add(route_experts_op); }

std::tuple<Tensor, Tensor> route_experts(const Tensor& x, const Tensor& router, int64_t used,
                                         const RouteExpertsOptions& options) {
  return pair_of(
      apply_all(route_experts_op,
                {contiguous(x), contiguous(router), contiguous_or_none(options.router_scale)},
                {used, options.normalize, options.scale}));
}

}  // namespace tensora
