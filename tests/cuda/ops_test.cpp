// A slice of each kind of op: what CUDA computes is what the CPU computes.
#include "tensora/dispatch/op.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

void expect_same(const Binary& op, const Tensor& a, const Tensor& b, double tolerance = 1e-5) {
  expect_close(op(a.cuda(), b.cuda()), op(a, b), tolerance);
}

/// expect_close knows no complex numbers.
Tensor real_parts(const Tensor& x) { return x.is_complex() ? view_as_real(x) : x; }

void expect_same_joined(const std::vector<Tensor>& host, const std::vector<Tensor>& device,
                        int64_t dim) {
  expect_close(real_parts(cat(device, dim)), real_parts(cat(host, dim)), 0);
}

class OpsOnGpu : public Gpu {};

// A definition in other ops would do, but none of the foundation's ops should need it: some of
// those definitions go through the host.
TEST_F(OpsOnGpu, EveryOpHasAKernel) {
  for (const OpBase* op : op_registry().all()) {
    if (!op->has_kernel(DeviceType::cpu)) continue;   // its definition is all there is of it
    if (op->internal && op->has_reference) continue;  // what the CPU does better in one piece
    // These run LAPACK on the host; nobody has written kernels by cuSOLVER yet.
    if (op->name == "linalg_eig" || std::string_view(op->name).starts_with("linalg_ldl")) continue;
    EXPECT_TRUE(op->has_kernel(DeviceType::cuda)) << op->name;
  }
}

TEST_F(OpsOnGpu, CopyThereAndBack) {
  for (const Shape& sizes : {Shape{}, Shape{0}, Shape{1}, Shape{1000, 7}, Shape{3 << 20}}) {
    const Tensor x = sample(sizes);
    expect_close(x.cuda(), x, 0);
  }
}

TEST_F(OpsOnGpu, PointwiseOfEveryDtype) {
  for (DType dtype :
       {kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor a = sample({37, 53}, dtype, 0, 9), b = sample({37, 53}, dtype, 1, 9);
    expect_same([](auto& x, auto& y) { return x + y; }, a, b, 0);
    expect_same([](auto& x, auto& y) { return x * y; }, a, b, 0);
    expect_same([](auto& x, auto& y) { return x - y; }, a, b, 0);
    expect_same([](auto& x, auto& y) { return x < y; }, a, b, 0);
    expect_same([](auto& x, auto& y) { return x / y; }, a, b, 1e-2);
  }
}

TEST_F(OpsOnGpu, SizesAroundAVector) {
  for (int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 255, 256, 257, 2047, 2048, 2049, 100003})
    for (DType dtype : {kFloat32, kFloat16, kFloat64, kInt8}) {
      const Tensor a = sample({n}, dtype, 0, 9), b = sample({n}, dtype, 1, 9);
      expect_same([](auto& x, auto& y) { return x + y; }, a, b, 0);
    }
}

// Bools beside numbers: questions, conditions, and reductions of whole words of bools.
TEST_F(OpsOnGpu, BoolsInGroups) {
  for (int64_t n : {1, 7, 8, 9, 255, 256, 264, 2047, 2048, 2049, 100003})
    for (DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      const Tensor a = sample({3, n}, dtype), b = sample({3, n}, dtype, -1, 3);
      expect_same([](auto& x, auto& y) { return x < y; }, a, b, 0);
      expect_same([](auto& x, auto&) { return x > 0.5; }, a, b, 0);
      expect_same([](auto& x, auto& y) { return where(x < y, x, y); }, a, b, 0);
      expect_same([](auto& x, auto& y) { return where(x < y, 1.5, y); }, a, b, 0);
      const Binary by_column = [](auto& x, auto& y) {
        return where(x.narrow(1, 0, 1) < 0.0, x, y);
      };
      expect_same(by_column, a, b, 0);
      for (const double bound : {-2.0, 1.9999, 2.0}) {
        expect_same([=](auto& x, auto&) { return any(x > bound, {1}); }, a, b, 0);
        expect_same([=](auto& x, auto&) { return all(x < bound, {1}); }, a, b, 0);
        expect_same([=](auto& x, auto&) { return all(x < bound); }, a, b, 0);
        expect_same([=](auto& x, auto&) { return any(x > bound, {0}); }, a, b, 0);
      }
    }
  const Tensor one = zeros({5, 4096}, {.dtype = kBool});
  one[3][4001].fill_(true);
  expect_same([](auto& x, auto&) { return any(x, {1}); }, one, one, 0);
  expect_same([](auto& x, auto&) { return all(logical_not(x), {1}); }, one, one, 0);
}

TEST_F(OpsOnGpu, BroadcastingAndStrides) {
  const Tensor a = sample({6, 1, 40, 16}), row = sample({16}), column = sample({5, 40, 1});
  const Binary add_op = [](auto& x, auto& y) { return x + y; };
  expect_same(add_op, a, row, 0);
  expect_same(add_op, a, column, 0);
  expect_same(add_op, sample({33, 17}), sample({33, 1}), 0);
  expect_same(add_op, sample({33, 17}), sample({17}), 0);
  const Tensor square = sample({65, 65});
  expect_close(square.cuda() + square.cuda().transpose(0, 1), square + square.transpose(0, 1), 0);
  const Tensor shifted = sample({1001});
  expect_close(shifted.cuda().narrow(0, 1, 1000) * 2, shifted.narrow(0, 1, 1000) * 2, 0);
}

TEST_F(OpsOnGpu, MixedDtypesAndNumbers) {
  const Tensor f = sample({50, 8}), i = sample({50, 8}, kInt64, 0, 9), h = sample({8}, kFloat16);
  expect_same([](auto& x, auto& y) { return x + y; }, f, i);
  expect_same([](auto& x, auto& y) { return x * y; }, h, f);
  expect_close(f.cuda() + 0.1, f + 0.1, 0);
  expect_close(3 - i.cuda(), 3 - i, 0);
  expect_close(h.cuda() * 2.5, h * 2.5, 0);
  // A 0-dim CPU tensor joins tensors of the GPU.
  expect_close(f.cuda() * full({}, 2.5), f * full({}, 2.5), 0);
}

TEST_F(OpsOnGpu, Unary) {
  const Tensor x = sample({1000}, kFloat32, -4, 4);
  for (const Unary& op : std::initializer_list<Unary>{
           [](auto& t) { return exp(t); }, [](auto& t) { return tanh(t); },
           [](auto& t) { return relu(t); }, [](auto& t) { return sigmoid(t); },
           [](auto& t) { return gelu(t); }, [](auto& t) { return -t; }})
    for (DType dtype : {kFloat32, kFloat64, kBFloat16})
      expect_close(op(x.to(dtype).cuda()), op(x.to(dtype)), dtype == kBFloat16 ? 1e-2 : 1e-5);
}

TEST_F(OpsOnGpu, CastsOfAllDtypes) {
  const std::vector<DType> all = {kBool,  kUInt8,   kInt8,     kInt16,   kInt32,
                                  kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};
  for (DType from : all)
    for (DType to : all) {
      SCOPED_TRACE(concat(from, " to ", to));
      const Tensor x = sample({300}, kFloat64, 0, 100).to(from);
      expect_close(x.cuda().to(to), x.to(to), 0);
    }
}

TEST_F(OpsOnGpu, TransposedCopies) {
  for (DType dtype : {kUInt8, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = sample({3, 129, 70}, dtype, 0, 100);
    expect_close(x.cuda().transpose(1, 2).contiguous(), x.transpose(1, 2).contiguous(), 0);
    expect_close(x.cuda().permute({2, 0, 1}).contiguous(), x.permute({2, 0, 1}).contiguous(), 0);
    expect_close(x.cuda().permute({2, 1, 0}).contiguous(), x.permute({2, 1, 0}).contiguous(), 0);
  }
}

TEST_F(OpsOnGpu, InPlaceAndViews) {
  const Tensor host = sample({20, 30}), device = host.cuda();
  const Tensor copy = host.clone();
  copy.narrow(1, 3, 7).mul_(2);
  device.narrow(1, 3, 7).mul_(2);
  copy.transpose(0, 1).add_(1);
  device.transpose(0, 1).add_(1);
  copy.select(0, 2).fill_(5);
  device.select(0, 2).fill_(5);
  expect_close(device, copy, 0);
}

TEST_F(OpsOnGpu, Reductions) {
  for (const Shape& sizes : {Shape{7}, Shape{100000}, Shape{300, 257}, Shape{5, 6, 7, 8},
                             Shape{4096, 8}, Shape{8, 4096}})
    for (DType dtype : {kFloat32, kFloat64, kBFloat16, kInt32}) {
      SCOPED_TRACE(concat(sizes, " ", dtype));
      const Tensor x = sample(sizes, dtype, -4, 4), y = x.cuda();
      const double tolerance = dtype == kBFloat16 ? 2e-2 : dtype == kFloat64 ? 1e-9 : 1e-3;
      expect_close(y.sum(), x.sum(), tolerance);
      expect_close(y.amax(), x.amax(), 0);
      for (int64_t d = 0; d < x.dim(); ++d) {
        expect_close(y.sum({d}), x.sum({d}), tolerance);
        expect_close(y.amax({d}, true), x.amax({d}, true), 0);
        expect_close(y.argmax(d), x.argmax(d), 0);
        const auto [values, indices] = max(y, d);
        const auto [expected_values, expected_indices] = max(x, d);
        expect_close(values, expected_values, 0);
        expect_close(indices, expected_indices, 0);
      }
      if (is_floating_point(dtype) && x.dim() > 1) {
        expect_close(y.mean({0}), x.mean({0}), tolerance);
        expect_close(y.var({-1}), x.var({-1}), tolerance);
        expect_close(y.transpose(0, 1).sum({0}), x.transpose(0, 1).sum({0}), tolerance);
      }
    }
}

TEST_F(OpsOnGpu, EmptyReductions) {
  const Tensor x = empty({0, 4});
  expect_close(x.cuda().sum({0}), x.sum({0}), 0);
  expect_close(x.cuda().sum({1}), x.sum({1}), 0);
}

// Rows of every length around a warp's, a block's and what fits on the chip.
TEST_F(OpsOnGpu, RowsOnTheChip) {
  for (int64_t length : {31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193})
    for (DType dtype : {kFloat32, kFloat64, kBFloat16})
      for (int64_t rows : {1, 3, 200}) {
        SCOPED_TRACE(concat(rows, " x ", length, " ", dtype));
        const double tolerance = dtype == kBFloat16 ? 2e-2 : dtype == kFloat64 ? 1e-9 : 2e-5;
        const Tensor whole = sample({rows, length + 1}, dtype, 100, 104), on_gpu = whole.cuda();
        // Once contiguous, once with unaligned rows.
        for (const int64_t skipped : {0, 1}) {
          const Tensor x = whole.narrow(1, skipped, length), y = on_gpu.narrow(1, skipped, length);
          expect_close(logsumexp(y, 1), logsumexp(x, 1), tolerance);
          expect_close(var(y, 1), var(x, 1), tolerance);
          const auto [spread, center] = std_mean(y, 1, 0);
          const auto [expected_spread, expected_center] = std_mean(x, 1, 0);
          expect_close(spread, expected_spread, tolerance);
          expect_close(center, expected_center, tolerance);
        }
      }
}

TEST_F(OpsOnGpu, Scans) {
  for (const Shape& sizes : {Shape{1 << 22}, Shape{3, 1 << 18}, Shape{1 << 18, 3}, Shape{500, 4097},
                             Shape{4097, 500}, Shape{70000, 33}, Shape{20, 300, 50}})
    for (int64_t dim = 0; dim < sizes.size(); ++dim) {
      SCOPED_TRACE(concat(sizes, " along ", dim));
      const Tensor counts = sample(sizes, kInt32, -9, 10);
      expect_close(cumsum(counts.cuda(), dim), cumsum(counts, dim), 0);
      const Tensor x = sample(sizes, kFloat64, -1, 1);
      expect_close(cumsum(x.cuda(), dim), cumsum(x, dim), 1e-9);
      expect_close(cumsum(x.cuda().transpose(0, -1), dim), cumsum(x.transpose(0, -1), dim), 1e-9);
    }
  const Tensor x = sample({5000003}, kFloat32).cuda(), once = cumsum(x, 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(equal(cumsum(x, 0), once));
}

TEST_F(OpsOnGpu, SumsAreDeterministic) {
  const Tensor x = sample({1 << 20}).cuda();
  const float first = x.sum().item<float>();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(x.sum().item<float>(), first);
}

TEST_F(OpsOnGpu, Matmul) {
  struct Case {
    Shape a, b;
  };
  for (const auto& [a_sizes, b_sizes] :
       {Case{{3, 4}, {4, 5}}, Case{{64, 128}, {128, 32}}, Case{{1, 100}, {100, 1}},
        Case{{2, 3, 4}, {4, 5}}, Case{{6, 3, 4}, {6, 4, 5}}, Case{{5, 1, 3, 4}, {2, 4, 6}},
        Case{{129, 65}, {65, 33}}, Case{{7}, {7}}, Case{{3, 7}, {7}}})
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8}) {
      SCOPED_TRACE(concat(a_sizes, " ", b_sizes, " ", dtype));
      const Tensor a = sample(a_sizes, dtype, 0, 3), b = sample(b_sizes, dtype, 0, 3);
      const double tolerance = element_size(dtype) == 2 ? 1e-2 : 1e-5;
      expect_close(matmul(a.cuda(), b.cuda()), matmul(a, b), tolerance);
    }
}

TEST_F(OpsOnGpu, MatmulOfTransposedOperands) {
  const Tensor a = sample({40, 24}), b = sample({56, 40});
  const Tensor x = a.cuda(), y = b.cuda();
  expect_close(matmul(x.transpose(0, 1), y.transpose(0, 1)),
               matmul(a.transpose(0, 1), b.transpose(0, 1)), 1e-5);
  const Tensor wide = sample({40, 100});
  expect_close(matmul(wide.cuda().narrow(1, 3, 40), x), matmul(wide.narrow(1, 3, 40), a), 1e-5);
  const Tensor strided = as_strided(wide, {10, 10}, {300, 3}, 0);
  expect_close(matmul(as_strided(wide.cuda(), {10, 10}, {300, 3}, 0), strided.cuda()),
               matmul(strided, strided), 1e-5);
  expect_close(addmm(sample({24}).cuda(), x.transpose(0, 1), x, 0.5, 2),
               addmm(sample({24}), a.transpose(0, 1), a, 0.5, 2), 1e-5);
}

TEST_F(OpsOnGpu, EmptyMatmul) {
  const Tensor a = empty({3, 0}), b = empty({0, 4});
  expect_close(matmul(a.cuda(), b.cuda()), matmul(a, b), 0);
  expect_close(addmm(sample({4}).cuda(), a.cuda(), b.cuda(), 0.5), addmm(sample({4}), a, b, 0.5),
               0);
}

TEST_F(OpsOnGpu, Indexing) {
  const Tensor x = sample({6, 5, 4}), rows = sample({7}, kInt64, 0, 6);
  expect_close(index_select(x.cuda(), 0, rows.cuda()), index_select(x, 0, rows), 0);
  const Tensor columns = sample({3}, kInt64, 0, 4);
  expect_close(index_select(x.cuda(), -1, columns.cuda()), index_select(x, -1, columns), 0);
  const Tensor places = sample({6, 2, 4}, kInt64, 0, 5);
  expect_close(gather(x.cuda(), 1, places.cuda()), gather(x, 1, places), 0);
  const Tensor source = sample({6, 2, 4});
  expect_close(scatter_add(x.cuda(), 1, places.cuda(), source.cuda()),
               scatter_add(x, 1, places, source), 1e-6);
}

TEST_F(OpsOnGpu, RandomNumbersAreTheSameEverywhere) {
  for (DType dtype : {kFloat32, kFloat64, kFloat16}) {
    manual_seed(17);
    const Tensor host = randn({1001}, {.dtype = dtype});
    const Tensor uniform = rand({1001}, {.dtype = dtype});
    manual_seed(17);
    expect_close(randn({1001}, {.dtype = dtype, .device = kCuda}), host, 0);
    expect_close(rand({1001}, {.dtype = dtype, .device = kCuda}), uniform, 0);
  }
}

TEST_F(OpsOnGpu, SequencesAndShapes) {
  expect_close(arange(0, 100, 3, {.device = kCuda}), arange(0, 100, 3), 0);
  expect_close(linspace(0, 1, 37, {.device = kCuda}), linspace(0, 1, 37), 1e-7);
  const Tensor x = sample({5, 33, 17}), y = x.cuda();
  expect_close(cat({y, y}, 1), cat({x, x}, 1), 0);
  expect_close(stack({y, y}, 1), stack({x, x}, 1), 0);
  expect_close(flip(y, {0, 2}), flip(x, {0, 2}), 0);
  expect_close(tril(y, 1), tril(x, 1), 0);
  expect_close(triu(y, -2), triu(x, -2), 0);
  expect_close(logsumexp(y, {1}), logsumexp(x, {1}), 1e-5);
  expect_close(norm(y, 2, {0}), norm(x, 2, {0}), 1e-5);
}

// More arrays than one launch takes, of all widths, also beside strided and empty ones.
TEST_F(OpsOnGpu, ManyArraysJoined) {
  for (const DType dtype : {kBool, kBFloat16, kFloat32, kComplex128})
    for (const int64_t step : {1, 3, 8, 16}) {
      SCOPED_TRACE(concat(dtype, " ", step));
      std::vector<Tensor> host, device;
      for (int64_t i = 0; i < 70; ++i) {
        host.push_back(sample({6, i % 7 * step, 5}, dtype, 0, 9));
        device.push_back(host.back().cuda());
      }
      expect_same_joined(host, device, 1);
      host[20] = host[20].transpose(0, 2).contiguous().transpose(0, 2);
      device[20] = device[20].transpose(0, 2).contiguous().transpose(0, 2);
      expect_same_joined(host, device, -2);
      const std::vector<Tensor> three = {host[3], host[10], host[17]};
      const std::vector<Tensor> there = {device[3], device[10], device[17]};
      for (const int64_t dim : {0, 1, 2, 3})
        expect_close(real_parts(stack(there, dim)), real_parts(stack(three, dim)), 0);
      expect_same_joined(three, there, 0);
      expect_same_joined(three, there, 2);
    }
}

TEST_F(OpsOnGpu, MoreThanTwoToTheThirtyOneBytes) {
  const int64_t n = (int64_t{1} << 31) + 13;
  const Tensor x = full({n}, 3, {.dtype = kInt8, .device = kCuda});
  const Tensor y = x + x;
  EXPECT_EQ(y[0].item<int>(), 6);
  EXPECT_EQ(y[n / 2].item<int>(), 6);
  EXPECT_EQ(y[n - 1].item<int>(), 6);
}

}  // namespace
}  // namespace tensora::test
