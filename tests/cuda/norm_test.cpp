// The gradients of row norms: a block takes many rows and has the next ones on their way.
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class NormOnGpu : public Gpu {};

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The gradients of all inputs.
std::vector<Tensor> gradients(const Function& function, std::vector<Tensor> inputs,
                              const Tensor& grad) {
  for (Tensor& x : inputs) x = x.detach().requires_grad_();
  return tensora::grad({function(inputs)}, inputs, {grad});
}

void expect_same_gradients(const Function& function, const std::vector<Tensor>& inputs,
                           double tolerance) {
  const Tensor result = function(inputs);
  const Tensor grad = sample(result.sizes(), result.dtype(), -1, 1);
  std::vector<Tensor> on_gpu;
  for (const Tensor& x : inputs) on_gpu.push_back(x.cuda());
  const std::vector<Tensor> expected = gradients(function, inputs, grad),
                            actual = gradients(function, on_gpu, grad.cuda()),
                            again = gradients(function, on_gpu, grad.cuda());
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(concat("input ", i));
    expect_close(actual[i], expected[i], tolerance);
    expect_close(again[i], actual[i], 0);
  }
}

/// So many rows of length n that a block takes several, or a warp where rows are short.
int64_t rows_of(int64_t n) { return n <= 256 ? 7000 : 1700; }

TEST_F(NormOnGpu, GradientsOfManyRows) {
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16})
    for (const int64_t n : {8, 200, 256, 1000, 1001, 1600, 2048, 3208, 4096, 6000}) {
      SCOPED_TRACE(concat(name(dtype), " rows of ", n));
      const double tolerance = dtype == kFloat32 ? 1e-4 : 3e-2;
      const Tensor x = sample({rows_of(n), n}, dtype, -1, 3), weight = sample({n}, dtype, 0.5, 2),
                   bias = sample({n}, dtype);
      expect_same_gradients([&](auto& in) { return layer_norm(in[0], {n}, in[1], in[2]); },
                            {x, weight, bias}, tolerance);
      expect_same_gradients([&](auto& in) { return rms_norm(in[0], {n}, in[1]); }, {x, weight},
                            tolerance);
      expect_same_gradients([&](auto& in) { return layer_norm(in[0], {n}); }, {x}, tolerance);
    }
}

TEST_F(NormOnGpu, GradientsOfManyRowsAndAResidual) {
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const int64_t n : {200, 1000, 1600, 4096, 6000})
      for (const bool wide : {false, true}) {
        SCOPED_TRACE(concat(name(dtype), " rows of ", n, wide ? ", wide" : ""));
        const Tensor x = sample({rows_of(n), n}, dtype, -1, 3),
                     residual = sample({rows_of(n), n}, wide ? kFloat32 : dtype, -2, 1),
                     weight = sample({n}, dtype, 0.5, 2), bias = sample({n}, dtype);
        expect_same_gradients(
            [&](auto& in) {
              const auto [y, sum] = add_layer_norm(in[0], in[1], {n}, in[2], in[3]);
              return y + 0.5 * sum;
            },
            {x, residual, weight, bias}, dtype == kFloat32 ? 1e-4 : 3e-2);
      }
}

// What threads without a part of the row compute must not reach its sums.
TEST_F(NormOnGpu, GradientsFarFromZero) {
  const Tensor x = full({600, 32}, 0x1p122), weight = sample({32}, kFloat32, 0.5, 2);
  expect_same_gradients([](auto& in) { return layer_norm(in[0], {32}, in[1]); }, {x, weight}, 1e-4);
}

}  // namespace
}  // namespace tensora::test
