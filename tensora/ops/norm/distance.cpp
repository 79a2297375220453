// Registers nothing: functions of other ops.
#include "tensora/ops/norm/distance.h"

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/variants.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/sliding.h"

namespace tensora {

Tensor normalize(const Tensor& input, double p, int64_t dim, double eps) {
  check(is_differentiable(input.dtype()), "normalize: expected a floating-point input, got ",
        input.dtype());
  wrap_dim(dim, input.dim(), "normalize");
  return input / clamp_min(norm(input, p, {dim}, true), eps);
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  if (is_autocast_enabled())
    return autocast_call(
        "cosine_similarity", {Autocast::as_is, Autocast::full},
        [&](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b, dim, eps); }, x1,
        x2);
  const DType dtype = promote_types(x1.dtype(), x2.dtype());
  check(is_floating_point(dtype), "cosine_similarity: expected a floating-point dtype, got ",
        x1.dtype(), " and ", x2.dtype());
  const Shape sizes = broadcast_shapes(x1.sizes(), x2.sizes(), "cosine_similarity");
  wrap_dim(dim, sizes.size(), "cosine_similarity");
  // The norms are divided by first: products of large elements would overflow.
  const auto direction = [&](const Tensor& x) {
    const Tensor vectors = expand(to(x, dtype), sizes);
    return vectors / clamp_min(norm(vectors, 2, {dim}, true), eps);
  };
  return sum(direction(x1) * direction(x2), {dim});
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  return norm(x1 - x2 + eps, p, {-1}, keepdim);
}

Tensor local_response_norm(const Tensor& input, int64_t size, double alpha, double beta, double k) {
  check_as<ValueError>(input.dim() >= 3,
                       "local_response_norm: expected an input of at least three dims, got shape ",
                       input.sizes());
  check(input.is_floating_point(), "local_response_norm: expected a floating-point input, got ",
        input.dtype());
  check(size > 0, "local_response_norm: expected size > 0, got ", size);
  if (input.numel() == 0) return input;
  const auto nothing = [&](int64_t channels) {
    Shape sizes = input.sizes();
    sizes[1] = channels;
    return zeros(sizes, {.dtype = input.dtype(), .device = input.device()});
  };
  const Tensor padded = cat({nothing(size / 2), input * input, nothing((size - 1) / 2)}, 1);
  const Tensor average = mean(unfold(padded, 1, size, 1), {-1});
  return input / pow(average * alpha + k, beta);
}

}  // namespace tensora
