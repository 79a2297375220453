#include <optional>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/quant/route_experts_call.h"
#include "tensora/ops/quant/route_experts_op.h"

namespace tensora::cuda {
namespace {

void route_experts_kernel(const KernelContext& context, const RouteExpertsAttrs& attrs) {
  const View &x = context.input(0), &router = context.input(1);
  if (x.sizes[0] == 0) return;
  constexpr int64_t kMost = int64_t{1} << 19, kMostExperts = 8 << 10;
  check(x.sizes[0] <= kMost, context.op, ": at most 2^19 tokens fit on cuda, got ", x.sizes[0]);
  check(router.sizes[0] <= kMostExperts, context.op, ": at most ", kMostExperts,
        " experts fit on cuda, got ", router.sizes[0]);
  const View* const scale = optional_input(context, 2);
  RouteCall call{.x = x.as<const char>(),
                 .router = router.as<const char>(),
                 .router_scale = scale ? scale->as<const float>() : nullptr,
                 .weights = context.output(0).as<float>(),
                 .chosen = context.output(1).as<long long>(),
                 .row_bytes = bytes_of(router.dtype, router.sizes[1]),
                 .tokens = static_cast<int>(x.sizes[0]),
                 .k = static_cast<int>(x.sizes[1]),
                 .experts = static_cast<int>(router.sizes[0]),
                 .used = static_cast<int>(attrs.used),
                 .factor = static_cast<float>(attrs.scale),
                 .normalize = attrs.normalize,
                 .x_dtype = x.dtype};
  std::optional<Scratch> logits;
  if (!routes_at_once(router.dtype, call)) {
    logits.emplace(context.device.index, static_cast<size_t>(x.sizes[0] * router.sizes[0]) * 4);
    call.logits = reinterpret_cast<float*>(logits->data());
  }
  route_tokens(context.op, context.device.index, router.dtype, call);
}

}  // namespace

void register_route_experts_cuda() {
  route_experts_op.set_kernel(DeviceType::cuda, route_experts_kernel);
}

}  // namespace tensora::cuda
