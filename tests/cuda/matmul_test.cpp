// The product's epilogues, called as a fused op would, against the same computed op by op on the
// CPU; and the shapes that must not cost a copy.
#include "tensora/backend/cuda/matmul/matmul.h"

#include "tensora/backend/cuda/runtime/stream.h"
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

// A linear layer's decode step and its mirror image take our own kernel; sizes and strides beside
// those that it reads take the library.
TEST_F(MatmulOnGpu, Vectors) {
  for (DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64})
    for (const int64_t inner : {256, 1000, 1008, 4096, 4104})
      for (const int64_t rows : {1, 5, 700, 2049}) {
        SCOPED_TRACE(concat(dtype, " ", rows, " ", inner));
        const double allowed = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-4 : 3e-2;
        const Tensor x = sample({1, inner}, dtype, -1, 1), w = sample({rows, inner}, dtype, -1, 1);
        const Tensor bias = sample({rows}, dtype), cx = x.cuda(), cw = w.cuda();
        const Tensor exact = matmul(x.to(kFloat64), w.to(kFloat64).transpose(0, 1));
        const auto expect = [&](const Tensor& got, const Tensor& expected) {
          expect_close(got.to(kFloat64), expected, allowed);
        };
        expect(matmul(cx, cw.transpose(0, 1)), exact);
        expect(matmul(cw, cx.transpose(0, 1)), exact.transpose(0, 1));
        expect(linear(cx, cw, bias.cuda()), exact + bias.to(kFloat64));
        expect(addmm(bias.cuda(), cx, cw.transpose(0, 1), 2, 0.5),
               exact * 0.5 + bias.to(kFloat64) * 2);
        // Rows with a gap, and a vector that begins at an odd place.
        expect(matmul(cx.narrow(1, 1, inner - 8), cw.narrow(1, 1, inner - 8).transpose(0, 1)),
               matmul(x.narrow(1, 1, inner - 8).to(kFloat64),
                      w.narrow(1, 1, inner - 8).to(kFloat64).transpose(0, 1)));
        const Tensor batch = sample({3, rows, inner}, dtype, -1, 1);
        expect(matmul(batch.cuda(), cx.transpose(0, 1)),
               matmul(batch.to(kFloat64), x.to(kFloat64).transpose(0, 1)));
      }
}

TEST_F(MatmulOnGpu, InPlaceOnAnyLayoutOfARowOrColumn) {
  for (const bool column : {false, true}) {
    const Tensor a = sample({5, 3}), b = sample({3, 1});
    const Tensor host = sample({1, 5}), device = host.cuda();
    if (column) {
      host.transpose(0, 1).addmm_(a, b);
      device.transpose(0, 1).addmm_(a.cuda(), b.cuda());
    } else {
      host.addmm_(b.transpose(0, 1), a.transpose(0, 1));
      device.addmm_(b.cuda().transpose(0, 1), a.cuda().transpose(0, 1));
    }
    expect_close(device, host);
  }
}

TEST_F(MatmulOnGpu, TuningTimesEachShapeOnce) {
  cuda::set_matmul_tuning(true);
  const Tensor x = sample({72, 136}), w = sample({88, 136}), bias = sample({88});
  const Tensor cx = x.cuda(), cw = w.cuda(), cbias = bias.cuda();
  const uint64_t before = cuda::wait_count();
  const Tensor first = linear(cx, cw, cbias);
  EXPECT_GT(cuda::wait_count(), before);
  const uint64_t tuned = cuda::wait_count();
  for (int i = 0; i < 3; ++i) linear(cx, cw, cbias);
  EXPECT_EQ(cuda::wait_count(), tuned);
  expect_close(first, linear(x, w, bias), 1e-4);
  // A beta other than 0: the result's memory is an input, which timing must not touch.
  const Tensor sum = sample({72, 88}), csum = sum.cuda();
  csum.addmm_(cx, cw.transpose(0, 1));
  expect_close(csum, addmm(sum, x, w.transpose(0, 1)), 1e-4);
  {
    const DeterministicScope scope(true);
    const Tensor y = sample({40, 136}).cuda();
    synchronize(kCuda);
    const uint64_t waits = cuda::wait_count();
    matmul(y, cw.transpose(0, 1));
    EXPECT_EQ(cuda::wait_count(), waits);
  }
  cuda::set_matmul_tuning(false);
}

}  // namespace
}  // namespace tensora::test
