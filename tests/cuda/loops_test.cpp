// The loops' fast paths and the edges between them: what CUDA computes is what the CPU computes.
#include <algorithm>

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class LoopsOnGpu : public Gpu {};

// Whole groups, groups and a rest, nothing but a rest; contiguous, shifted by one element, in rows.
TEST_F(LoopsOnGpu, PointwiseAroundGroups) {
  for (DType dtype : {kBFloat16, kFloat16, kFloat32, kFloat64, kInt32, kUInt8, kBool})
    for (int64_t n : {1, 5, 8, 31, 32, 4096, 4097, 8200, 40003}) {
      SCOPED_TRACE(concat(dtype, " ", n));
      const Tensor a = sample({n + 1}, dtype, 0, 9), b = sample({n + 1}, dtype, 1, 9);
      const Tensor ca = a.cuda(), cb = b.cuda();
      const auto from = [&](const Tensor& x, int64_t start) { return x.narrow(0, start, n); };
      expect_close(from(ca, 0) + from(cb, 0), from(a, 0) + from(b, 0), 0);
      expect_close(from(ca, 1) + from(cb, 1), from(a, 1) + from(b, 1), 0);
      expect_close(from(ca, 0) + from(cb, 1), from(a, 0) + from(b, 1), 0);
      expect_close(from(ca, 0) + cb.narrow(0, 0, 1), from(a, 0) + b.narrow(0, 0, 1), 0);
      expect_close(from(ca, 0).to(kFloat32), from(a, 0).to(kFloat32), 0);
      expect_close(from(ca, 0).to(kBFloat16), from(a, 0).to(kBFloat16), 0);
      expect_close(from(ca, 0) < from(cb, 0), from(a, 0) < from(b, 0), 0);
    }
  for (int64_t columns : {4, 8, 12, 16, 24})
    for (DType dtype : {kBFloat16, kFloat32}) {
      SCOPED_TRACE(concat(dtype, " ", columns));
      const Tensor x = sample({33, columns}, dtype), column = sample({33, 1}, dtype);
      const Tensor row = sample({columns}, dtype);
      expect_close(x.cuda() + column.cuda(), x + column, 0);
      expect_close(x.cuda() + row.cuda(), x + row, 0);
      expect_close(x.cuda() * 0.5 + column.cuda() * row.cuda(), x * 0.5 + column * row, 0);
    }
}

// Outputs larger than the L2 cache are not kept there: contiguous and a rest, a row that is read
// again and again, strided rows, in place.
TEST_F(LoopsOnGpu, PointwiseBeyondTheCache) {
  const int64_t rows = static_cast<int64_t>(cuda::device_info(0).l2_bytes / (4 * 1024)) + 200;
  for (DType dtype : {kFloat32, kBFloat16}) {
    SCOPED_TRACE(name(dtype));
    const int64_t columns = dtype == kFloat32 ? 1024 : 2048;
    const Tensor x = sample({rows * columns + 3}, dtype), y = sample({rows * columns + 3}, dtype);
    const Tensor cx = x.cuda(), cy = y.cuda();
    expect_close(relu(cx), relu(x), 0);
    expect_close(cx + cy, x + y, 0);
    const Tensor matrix = x.narrow(0, 0, rows * columns).reshape({rows, columns});
    const Tensor cmatrix = cx.narrow(0, 0, rows * columns).reshape({rows, columns});
    const Tensor row = matrix[5], crow = cmatrix[5];
    expect_close(cmatrix + crow, matrix + row, 0);
    expect_close(clamp(cmatrix, -1.0, 1.0), clamp(matrix, -1.0, 1.0), 0);
    cmatrix.narrow(1, 8, columns - 8).mul_(2);
    matrix.narrow(1, 8, columns - 8).mul_(2);
    expect_close(cx, x, 0);
  }
}

// A 16-bit operand beside a float, a bool and a number.
TEST_F(LoopsOnGpu, HalvesAmongOthers) {
  const Tensor half = sample({1000}, kBFloat16), wide = sample({1000});
  const Tensor mask = sample({1000}, kFloat32, -1, 1) > 0;
  expect_close(half.cuda() + wide.cuda(), half + wide, 0);
  expect_close(where(mask.cuda(), half.cuda(), half.cuda() * 2), where(mask, half, half * 2), 0);
  expect_close(half.cuda() * wide.cuda().narrow(0, 3, 1), half * wide.narrow(0, 3, 1), 0);
  expect_close(half.cuda() > 0.25, half > 0.25, 0);
}

TEST_F(LoopsOnGpu, RoundingTo16Bits) {
  // Ties, overflow, subnormals and what is not a number.
  const Tensor x = tensor({1.00390625, 1.01171875, 65519.0, 65520.0, 3.3961e38, 1e-41, 6e-8, 2.9e-8,
                           -0.0, INFINITY, -INFINITY, NAN})
                       .to(kFloat32);
  for (DType dtype : {kFloat16, kBFloat16}) {
    SCOPED_TRACE(name(dtype));
    expect_close(x.cuda().to(dtype), x.to(dtype), 0);
    expect_close(x.cuda().to(dtype) * 1, x.to(dtype) * 1, 0);
  }
}

TEST_F(LoopsOnGpu, GeluEverywhere) {
  Tensor x = arange(-1400, 1400).to(kFloat64) / 100;
  x = cat({x, tensor({0.0, 1e-6, -1e-6, 40.0, -40.0, 1e30, INFINITY, NAN}).to(kFloat64)}, 0);
  const Tensor exact = x * erfc(x * -0.7071067811865476) * 0.5;
  expect_close(gelu(x.to(kFloat32).cuda()), exact.to(kFloat32), 1e-6);
  expect_close(gelu(x.to(kBFloat16).cuda()), gelu(x.to(kBFloat16)), 8e-3);
  // Far out on the left, where 1 + erf has no digits left, it is still good to its own size.
  const Tensor tail = arange(-1200, -300).to(kFloat64) / 100;
  const Tensor ratio = gelu(tail.to(kFloat32).cuda()).cpu().to(kFloat64) /
                       (tail * erfc(tail * -0.7071067811865476) * 0.5);
  EXPECT_LT((ratio - 1).abs().amax().item<double>(), 2e-5);
}

// The shorter formulas of 16-bit results round as exact ones do, but for a hundredth of a unit.
TEST_F(LoopsOnGpu, FormulasOf16Bits) {
  using Formula = std::function<Tensor(const Tensor&)>;
  const std::vector<Formula> formulas = {
      [](auto& x) { return tanh(x); }, [](auto& x) { return sigmoid(x); },
      [](auto& x) { return silu(x); }, [](auto& x) { return sin(x); },
      [](auto& x) { return erf(x); }};
  const Tensor powers = pow(2.0, arange(-10, 16).to(kFloat64)).unsqueeze(1);
  const Tensor positive = (powers * (1 + arange(0, 128).to(kFloat64) / 128)).reshape({-1});
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const double unit = dtype == kBFloat16 ? 0x1p-7 : 0x1p-10, normal = 0x1p-14;
    const Tensor x = cat({positive, -positive}, 0).to(dtype);
    for (size_t i = 0; i < formulas.size(); ++i) {
      SCOPED_TRACE(concat(dtype, " formula ", i));
      const Tensor exact = formulas[i](x.to(kFloat64));
      const Tensor error = (formulas[i](x.cuda()).cpu().to(kFloat64) - exact).abs();
      const Tensor size = clamp_min(exact.abs(), normal);
      EXPECT_LT((error / size).amax().item<double>(), 0.51 * unit);
    }
    const Tensor edges = tensor({0.0, -0.0, INFINITY, NAN, 1e-7, -3e-8, 0.25, 0.2499}).to(dtype);
    for (const Formula& formula : formulas)
      expect_close(1 / formula(edges.cuda()), 1 / formula(edges), unit);
  }
}

TEST_F(LoopsOnGpu, TransposesOfAllSizesAndOrders) {
  for (const Shape& sizes : {Shape{64, 128}, Shape{72, 200}, Shape{129, 70}, Shape{3, 16, 40},
                             Shape{2, 24, 3, 32}, Shape{1024, 1032}})
    for (DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64}) {
      const Tensor x = sample(sizes, dtype, 0, 100), cx = x.cuda();
      Dims order;
      for (int64_t d = 0; d < x.dim(); ++d) order.push_back(d);
      do {
        SCOPED_TRACE(concat(sizes, " ", dtype, " ", order));
        expect_close(cx.permute(order).contiguous(), x.permute(order).contiguous(), 0);
        const Tensor out = zeros_like(x.permute(order).contiguous()).cuda();
        out.copy_(cx.permute(order));
        expect_close(out, x.permute(order), 0);
      } while (std::next_permutation(order.begin(), order.end()));
      // Shifted by one element: nothing is aligned.
      const Tensor part = x.narrow(-1, 1, x.size(-1) - 1), cpart = cx.narrow(-1, 1, x.size(-1) - 1);
      expect_close(cpart.transpose(-2, -1).contiguous(), part.transpose(-2, -1).contiguous(), 0);
    }
}

// Rows that fill loads, that do not, that begin anywhere; columns likewise; several reduced dims.
TEST_F(LoopsOnGpu, ReductionsOfAllShapes) {
  for (const Shape& sizes :
       {Shape{3, 1}, Shape{2, 7}, Shape{5, 1001}, Shape{3, 100003}, Shape{5000, 33},
        Shape{70000, 16}, Shape{16, 70000}, Shape{9, 8, 24}, Shape{40, 3, 56}, Shape{1, 300001}})
    for (DType dtype : {kBFloat16, kFloat32, kFloat64, kInt64, kInt32, kInt8, kBool}) {
      SCOPED_TRACE(concat(sizes, " ", dtype));
      // Sums of floats that cancel would differ by more than the results are large.
      const Tensor x = sample(sizes, dtype, is_floating_point(dtype) ? 0 : -4, 4), cx = x.cuda();
      const double tolerance = dtype == kBFloat16 ? 1e-2 : dtype == kFloat32 ? 2e-5 : 1e-12;
      std::vector<Dims> choices = {{}, {0}, {1}, {-1}};
      if (x.dim() == 3) choices.insert(choices.end(), {{0, 2}, {0, 1}, {1, 2}});
      for (const Dims& dims : choices) {
        expect_close(sum(cx, dims), sum(x, dims), tolerance);
        if (dtype != kBool) expect_close(amax(cx, dims), amax(x, dims), 0);
      }
      const Tensor turned = x.transpose(0, 1), cturned = cx.transpose(0, 1);
      expect_close(sum(cturned, {0}), sum(turned, {0}), tolerance);
      expect_close(sum(cx.narrow(-1, 0, 1), {0}), sum(x.narrow(-1, 0, 1), {0}), tolerance);
      if (dtype != kBool) {
        expect_close(argmax(cx, 1), argmax(x, 1), 0);
        expect_close(argmin(cturned, 1), argmin(turned, 1), 0);
      }
    }
}

TEST_F(LoopsOnGpu, ExtremaAmongInfinitiesAndNothingElse) {
  const Tensor low = full({3, 50}, -INFINITY), high = full({3, 50}, INFINITY);
  expect_close(argmax(low.cuda(), 1), argmax(low, 1), 0);
  expect_close(argmin(high.cuda(), 1), argmin(high, 1), 0);
  const Tensor mixed = low.clone();
  mixed.select(1, 20).fill_(NAN);
  mixed.select(1, 7).fill_(3);
  expect_close(argmax(mixed.cuda(), 1), argmax(mixed, 1), 0);
  expect_close(amax(mixed.cuda(), {1}), amax(mixed, {1}), 0);
}

}  // namespace
}  // namespace tensora::test
