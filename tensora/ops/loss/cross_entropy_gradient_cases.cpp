#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/loss/cross_entropy_gradient_op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double kFactor = 0.25;
constexpr int64_t kIgnored = 3;

// In place, as it is meant to be.
Out gradient_and_losses(In x) {
  const no_grad silent;
  const TensorOptions wide{.dtype = promote_types(x[0].dtype(), kFloat32), .device = x[0].device()};
  const Tensor scores = x[0].detach().clone(), losses = empty({scores.size(0)}, wide);
  apply_inplace(cross_entropy_gradient_op, {scores, losses, x[1], full({}, kFactor, wide)},
                {kIgnored});
  return {scores, losses};
}

ArrayList expected(Arrays x) {
  const int64_t rows = x[0].sizes[0], classes = x[0].sizes[1];
  Array grad(x[0].sizes), losses(Shape{rows});
  for (int64_t i = 0; i < rows; ++i) {
    const auto y = static_cast<int64_t>(x[1][i]);
    if (y == kIgnored) continue;
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[0][i * classes + c]);
    losses[i] = std::log(sum) - x[0][i * classes + y];
    for (int64_t c = 0; c < classes; ++c)
      grad[i * classes + c] = kFactor * (std::exp(x[0][i * classes + c]) / sum - (c == y));
  }
  return {grad, losses};
}

}  // namespace

void cross_entropy_gradient_cases(Cases& cases) {
  // Rows of one warp, of a block, and split between blocks; some without alignment.
  for (const Shape& sizes :
       {Shape{5, 4}, Shape{0, 6}, Shape{3, 2501}, Shape{5, 2048}, Shape{2, 130048}}) {
    std::vector<double> targets;
    for (int64_t i = 0; i < sizes[0]; ++i)
      targets.push_back(static_cast<double>(i == 1 ? kIgnored : i * 1021 % sizes[1]));
    for (const bool wide : {false, true})
      cases.add(
          {.op = "cross_entropy_gradient",
           .name = concat(sizes, wide ? " in double precision" : ""),
           .inputs = {{sizes}, {.sizes = {sizes[0]}, .dtype = kInt64, .values = targets}},
           .run = gradient_and_losses,
           .reference = expected,
           .dtypes = wide ? std::vector{kFloat64} : std::vector{kFloat16, kBFloat16, kFloat32},
           .tolerance = 8,
           .opt_out = {{Mode::grad, "it is a gradient, of which there is none"}},
           .output_dtypes = {{}, wide ? kFloat64 : kFloat32}});
  }
  const auto call = [](const Tensor& x, const Tensor& target, const Tensor& factor) {
    apply_all(cross_entropy_gradient_op, {x, zeros({2}), target, factor}, {});
  };
  cases.error("cross_entropy_gradient", "target out of range", "out of bounds", [=] {
    call(zeros({2, 3}), tensor(std::vector<int64_t>{0, 3}), ones({}));
  });
  cases.error("cross_entropy_gradient", "shape of target", "class numbers of shape [2]", [=] {
    call(zeros({2, 3}), tensor(std::vector<int64_t>{0}), ones({}));
  });
  cases.error("cross_entropy_gradient", "factors", "expected one factor of dtype float32", [=] {
    call(zeros({2, 3}), tensor(std::vector<int64_t>{0, 1}), ones({2}));
  });
}

}  // namespace tensora::suite
