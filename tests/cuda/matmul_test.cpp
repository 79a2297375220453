// The product's epilogues, called as a fused op would, against the same computed op by op on the
// CPU; and the shapes that must not cost a copy.
#include "tensora/backend/cuda/matmul/matmul.h"

#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using cuda::Epilogue;
using cuda::Matmul;
using cuda::MatrixBatch;
using Function = Epilogue::Function;

MatrixBatch matrix(const Tensor& x) { return {x.data_ptr(), 0, x.stride(0), x.stride(1)}; }

/// a (m k) @ b (k n) with an epilogue into `out`.
bool multiply(const Tensor& a, const Tensor& b, const Tensor& out, const Epilogue& epilogue) {
  return cuda::blas_matmul({.op = "test",
                            .dtype = a.dtype(),
                            .m = a.size(0),
                            .n = b.size(1),
                            .k = a.size(1),
                            .a = matrix(a),
                            .b = matrix(b),
                            .out = matrix(out),
                            .epilogue = epilogue});
}

class MatmulOnGpu : public Gpu {
 protected:
  // m and n as the library wants them for relu's bits: multiples of 128.
  static constexpr int64_t m = 256, n = 384, k = 64;
  static double tolerance(DType dtype) { return dtype == kFloat32 ? 1e-4 : 3e-2; }
  static Tensor like_product(DType dtype) {
    return full({m, n}, NAN, {.dtype = dtype, .device = kCuda});
  }
};

const DType kDtypes[] = {kFloat32, kFloat16, kBFloat16};

TEST_F(MatmulOnGpu, EpiloguesOfTheForward) {
  for (DType dtype : kDtypes) {
    SCOPED_TRACE(name(dtype));
    const Tensor a = sample({m, k}, dtype, -1, 1), b = sample({k, n}, dtype, -0.5, 0.5);
    const Tensor bias = sample({n}, dtype);
    const Tensor ca = a.cuda(), cb = b.cuda(), cbias = bias.cuda();
    const Tensor sum = matmul(a.to(kFloat32), b.to(kFloat32)) + bias.to(kFloat32);
    const auto expect = [&](const Epilogue& epilogue, const Tensor& expected) {
      const Tensor out = like_product(dtype);
      ASSERT_TRUE(multiply(ca, cb, out, epilogue));
      expect_close(out.to(kFloat32), expected, tolerance(dtype));
    };
    expect({.bias = cbias.data_ptr()}, sum);
    expect({.function = Function::relu, .bias = cbias.data_ptr()}, relu(sum));
    expect({.function = Function::gelu, .bias = cbias.data_ptr()}, gelu(sum, "tanh"));
    expect({.function = Function::relu}, relu(sum - bias.to(kFloat32)));
    expect({.function = Function::gelu}, gelu(sum - bias.to(kFloat32), "tanh"));
  }
}

// y = f(a b + bias) leaves what f's gradient needs; then the gradient of a product that follows,
// times f', and its sums over the rows, come out of one call.
TEST_F(MatmulOnGpu, EpiloguesOfTheGradient) {
  for (DType dtype : kDtypes)
    for (const Function forward : {Function::relu, Function::gelu}) {
      const bool is_relu = forward == Function::relu;
      SCOPED_TRACE(concat(name(dtype), is_relu ? " relu" : " gelu"));
      const Tensor a = sample({m, k}, dtype, -1, 1), b = sample({k, n}, dtype, -0.5, 0.5);
      const Tensor bias = sample({n}, dtype), g = sample({m, k}, dtype, -2, 1);
      const Tensor aux = zeros({m, n}, {.dtype = dtype, .device = kCuda}),
                   out = like_product(dtype);
      const Tensor cbias = bias.cuda();
      ASSERT_TRUE(multiply(
          a.cuda(), b.cuda(), out,
          {.function = forward, .bias = cbias.data_ptr(), .aux = aux.data_ptr(), .aux_stride = n}));
      Tensor z = (matmul(a.to(kFloat32), b.to(kFloat32)) + bias.to(kFloat32));
      z = z.to(dtype).to(kFloat32).detach().requires_grad_();
      const Tensor upstream = matmul(g.to(kFloat32), b.to(kFloat32));
      (is_relu ? relu(z) : gelu(z, "tanh")).backward(upstream);

      const Tensor sums = zeros({n}, {.dtype = dtype, .device = kCuda});
      ASSERT_TRUE(multiply(g.cuda(), b.cuda(), out,
                           {.function = is_relu ? Function::relu_gradient : Function::gelu_gradient,
                            .aux = aux.data_ptr(),
                            .aux_stride = n,
                            .sums_of_out = sums.data_ptr()}));
      expect_close(out.to(kFloat32), z.grad(), tolerance(dtype));
      expect_close(sums.to(kFloat32), z.grad().sum({0}), tolerance(dtype) * 4);
    }
}

// The gradient of a linear layer's weight, g^T x, brings the bias' gradient along.
TEST_F(MatmulOnGpu, SumsOfAnOperand) {
  for (DType dtype : {kFloat16, kBFloat16}) {
    SCOPED_TRACE(name(dtype));
    const Tensor g = sample({k, m}, dtype), x = sample({k, n}, dtype);
    const Tensor out = like_product(dtype), sums = zeros({m}, {.dtype = dtype, .device = kCuda});
    ASSERT_TRUE(multiply(g.cuda().transpose(0, 1), x.cuda(), out, {.sums_of_a = sums.data_ptr()}));
    const Tensor wide = g.to(kFloat32);
    expect_close(out.to(kFloat32), matmul(wide.transpose(0, 1), x.to(kFloat32)), tolerance(dtype));
    expect_close(sums.to(kFloat32), wide.sum({0}), tolerance(dtype));
  }
}

TEST_F(MatmulOnGpu, BiasOfAddmm) {
  for (DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64})
    for (int64_t rows : {1, 3, 64})
      for (int64_t cols : {1, 10, 512}) {
        SCOPED_TRACE(concat(dtype, " ", rows, " ", cols));
        const Tensor x = sample({rows, 20}, dtype), w = sample({cols, 20}, dtype);
        const Tensor bias = sample({cols + 1}, dtype);
        const double allowed = dtype == kFloat64 ? 1e-12 : tolerance(dtype);
        // The second bias begins at an odd address.
        for (const int64_t start : {0, 1}) {
          const Tensor part = bias.narrow(0, start, cols), on_gpu = bias.cuda();
          expect_close(linear(x.cuda(), w.cuda(), on_gpu.narrow(0, start, cols)),
                       linear(x, w, part), allowed);
          expect_close(
              addmm(on_gpu.narrow(0, start, cols), x.cuda(), w.cuda().transpose(0, 1), 2, 3),
              addmm(part, x, w.transpose(0, 1), 2, 3), allowed);
        }
      }
}

TEST_F(MatmulOnGpu, BroadcastAndStridedBatches) {
  for (DType dtype : {kFloat32, kBFloat16, kInt32}) {
    SCOPED_TRACE(name(dtype));
    const Tensor a = sample({4, 3, 17, 24}, dtype, -4, 4), b = sample({3, 24, 19}, dtype, -4, 4);
    const Tensor ca = a.cuda(), cb = b.cuda();
    expect_close(matmul(ca, cb), matmul(a, b), tolerance(dtype));
    expect_close(matmul(ca.transpose(0, 1), cb.narrow(0, 0, 1)),
                 matmul(a.transpose(0, 1), b.narrow(0, 0, 1)), tolerance(dtype));
    expect_close(matmul(cb.transpose(1, 2), ca.transpose(2, 3)),
                 matmul(b.transpose(1, 2), a.transpose(2, 3)), tolerance(dtype));
    expect_close(matmul(ca.narrow(2, 1, 8), cb), matmul(a.narrow(2, 1, 8), b), tolerance(dtype));
  }
}

}  // namespace
}  // namespace tensora::test
