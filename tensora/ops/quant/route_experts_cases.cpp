#include "tensora/ops/quant/route_experts.h"

#include <algorithm>
#include <numeric>

#include "tests/suite/sample_weights.h"

namespace tensora::suite {
namespace {

struct Router {
  std::shared_ptr<const SampleWeight> weight;
  int64_t used;
  bool normalize = true;
  double scale = 1;
};

ArrayList expected(const Array& x, const Router& router) {
  const Array logits = times_transposed(x, router.weight->numbers);
  const int64_t tokens = x.sizes[0], experts = logits.sizes[1], used = router.used;
  Array weights({tokens, used}), chosen({tokens, used});
  for (int64_t t = 0; t < tokens; ++t) {
    const double* const row = logits.values.data() + t * experts;
    std::vector<int64_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    double all = 0, taken = 0;
    for (int64_t e = 0; e < experts; ++e) all += std::exp(row[e] - row[order[0]]);
    for (int64_t i = 0; i < used; ++i) {
      const int64_t expert = order[static_cast<size_t>(i)];
      chosen[t * used + i] = static_cast<double>(expert);
      weights[t * used + i] = std::exp(row[expert] - row[order[0]]) / all * router.scale;
      taken += weights[t * used + i] / router.scale;
    }
    if (router.normalize)
      for (int64_t i = 0; i < used; ++i) weights[t * used + i] /= taken;
  }
  return {weights, chosen};
}

void add(Cases& cases, DType dtype, int64_t experts, int64_t columns, int64_t tokens,
         Router router) {
  router.weight = std::make_shared<const SampleWeight>(dtype, experts, columns, 5);
  Input x = exact_activations({tokens, columns});
  // Every token has numbers of its own.
  for (int64_t i = 0; i < x.sizes.numel(); ++i)
    if (i % 32 != 5)
      x.values[static_cast<size_t>(i)] =
          static_cast<double>((i * 97 + i / columns * 31) % 251 - 125) / 32;
  for (double& value : x.values) value /= 16;
  cases.add({.op = "route_experts",
             .name = concat(router.used, " of ", experts, " experts, ", dtype, " of ", columns,
                            ", ", tokens, " tokens", router.normalize ? "" : ", not normalized"),
             .inputs = {x},
             .run = [router](In in) -> Out {
               auto [weights, chosen] =
                   route_experts(in[0], router.weight->placed(), router.used,
                                 {.router_scale = router.weight->placed_scale(),
                                  .normalize = router.normalize,
                                  .scale = router.scale});
               return {weights, chosen};
             },
             .reference = [router](Arrays in) { return expected(in[0], router); },
             .dtypes = activation_dtypes(),
             .tolerance = 40,
             .opt_out = kNoGradient,
             .output_dtypes = {kFloat32, kInt64}});
}

}  // namespace

void route_experts_cases(Cases& cases) {
  for (int64_t tokens : {1, 3, 70}) {
    add(cases, kFloat32, 8, 512, tokens, {.weight = {}, .used = 2});
    add(cases, kFloat32, 128, 64, tokens, {.weight = {}, .used = 8, .normalize = false});
  }
  add(cases, kFloat32, 5, 77, 2, {.weight = {}, .used = 5, .scale = 2.5});
  add(cases, kFloat32, 300, 32, 2, {.weight = {}, .used = 3});
  add(cases, kFloat32, 1, 16, 2, {.weight = {}, .used = 1});
  for (DType dtype : {kFloat16, kBFloat16, kQ8_0, kInt8})
    for (int64_t tokens : {1, 9}) add(cases, dtype, 8, 256, tokens, {.weight = {}, .used = 2});
  add(cases, kFloat32, 8, 64, 0, {.weight = {}, .used = 2});
  const auto make = [](const Shape& sizes) { return zeros(sizes, {.device = device()}); };
  cases.error("route_experts", "used", "used must be in [1, 3], the number of experts, got 4", [=] {
    route_experts(make({2, 4}), make({3, 4}), 4);
  });
  cases.error("route_experts", "width",
              "router of shape [3, 5] does not fit activations of shape [2, 4]", [=] {
                route_experts(make({2, 4}), make({3, 5}), 1);
              });
}

}  // namespace tensora::suite
