// Batches of activation rows times quantized weights on tensor cores, against the definition.
#include <limits>
#include <vector>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_batch.h"
#include "tensora/ops/quant/quant_gated.h"
#include "tests/cuda/quant_weights.h"

namespace tensora::test {
namespace {

class QuantBatch : public Gpu {};

TEST_F(QuantBatch, EveryTypeAndManyRows) {
  manual_seed(1);
  const Shape sizes[] = {{16, 256}, {300, 2304}, {1000, 1024}};
  for (DType dtype : kBlockDTypes)
    for (const Shape& size : sizes) {
      const Weight weight = make_weight(size[0], size[1], dtype);
      const Tensor all = randn({600, size[1]}).to(kBFloat16);
      const Tensor expected = product(all, weight);
      for (int64_t rows : {2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 130, 256, 600}) {
        SCOPED_TRACE(concat(dtype, " ", size, ", ", rows, " rows"));
        const Tensor x = all.narrow(0, 0, rows);
        // More rows than the batch kernels take are multiplied by weights rounded to 16 bits.
        const double share = rows > cuda::kBatchMostRows ? 1e-2 : share_of(dtype);
        expect_near(linear_on_gpu(x, weight), expected.narrow(0, 0, rows), share);
        if (HasFatalFailure()) return;
      }
    }
}

// Rows that end within 256 numbers, and whose addresses are aligned to a block only.
TEST_F(QuantBatch, OddWidths) {
  manual_seed(2);
  for (DType dtype : kBlockDTypes) {
    const int64_t block = dtype_info(dtype).block_numbers;
    for (int64_t blocks : {1, 3, 9, 41})
      for (int64_t rows : {2, 20, 70}) {
        SCOPED_TRACE(concat(dtype, " K ", blocks * block, ", ", rows, " rows"));
        const Weight weight = make_weight(35, blocks * block, dtype);
        const Tensor x = randn({rows, blocks * block}).to(kBFloat16);
        expect_near(linear_on_gpu(x, weight), product(x, weight), share_of(dtype));
        if (HasFatalFailure()) return;
      }
  }
}

TEST_F(QuantBatch, Gated) {
  manual_seed(3);
  for (DType dtype : kBlockDTypes)
    for (int64_t rows : {2, 20, 70}) {
      SCOPED_TRACE(concat(dtype, ", ", rows, " rows"));
      const Weight gate = make_weight(333, 768, dtype), up = make_weight(333, 768, dtype);
      const Tensor x = (randn({rows, 768}) * 0.1).to(kBFloat16);
      const Tensor actual =
          quant_gated(x.to(kCuda), gate.data.to(kCuda), up.data.to(kCuda), {.dtype = kFloat32});
      expect_near(actual, silu(product(x, gate)) * product(x, up), 2 * share_of(dtype));
      if (HasFatalFailure()) return;
    }
}

TEST_F(QuantBatch, SeveralWeightsBiasAndResidual) {
  manual_seed(4);
  for (int64_t rows : {2, 24, 90})
    for (DType added : {kFloat32, kBFloat16}) {
      SCOPED_TRACE(concat(rows, " rows, bias of ", added));
      const Tensor x = randn({rows, 512}).to(kBFloat16);
      std::vector<Tensor> weights, parts;
      int64_t n = 270, columns = 0;
      for (DType dtype : {kQ4_K, kQ4_K, kQ6_K}) {
        const Weight weight = make_weight(n, 512, dtype);
        weights.push_back(weight.data.to(kCuda));
        parts.push_back(product(x, weight));
        columns += n;
        n += 9;
      }
      const Tensor bias = randn({columns}).to(added), residual = randn({rows, columns}).to(added);
      const Tensor actual =
          quant_linear(x.to(kCuda), weights,
                       {.bias = bias.to(kCuda), .residual = residual.to(kCuda), .dtype = kFloat32});
      expect_near(actual, cat(parts, -1) + bias.to(kFloat32) + residual.to(kFloat32),
                  share_of(kQ6_K));
      if (HasFatalFailure()) return;
    }
}

// Bit by bit: tensor cores add the products of a row in the same order for up to 64 rows; above,
// and for up to eight rows, in other orders, which do not depend on the number of rows either.
TEST_F(QuantBatch, RowsDoNotDependOnOthers) {
  manual_seed(5);
  const std::vector<int64_t> same_order[] = {{2, 3, 4}, {5, 8}, {9, 16, 17, 32, 33, 64}, {65, 128}};
  for (DType dtype : kBlockDTypes) {
    const Weight weight = make_weight(520, 4096, dtype);
    const Tensor x = randn({128, 4096}).to(kBFloat16);
    for (const std::vector<int64_t>& counts : same_order) {
      const Tensor all = linear_on_gpu(x.narrow(0, 0, counts.back()), weight);
      for (int64_t rows : counts) {
        SCOPED_TRACE(concat(dtype, ", ", rows, " rows"));
        expect_close(linear_on_gpu(x.narrow(0, 0, rows), weight), all.narrow(0, 0, rows), 0);
      }
    }
  }
}

// Any finite activations are brought into float16's range.
TEST_F(QuantBatch, LargeAndSmallActivations) {
  manual_seed(6);
  const Weight weight = make_weight(64, 1024, kQ4_K);
  for (double factor : {1e30, 1e-30, 1e5, 0.0}) {
    SCOPED_TRACE(factor);
    const Tensor x = (randn({4, 1024}) * factor).to(kBFloat16);
    expect_near(linear_on_gpu(x, weight), product(x, weight), share_of(kQ4_K));
  }
  // Numbers of very different size in one row.
  const Tensor x = randn({4, 1024});
  x.narrow(1, 0, 8).mul_(1e6);
  expect_near(linear_on_gpu(x.to(kBFloat16), weight), product(x.to(kBFloat16), weight),
              share_of(kQ4_K));
}

TEST_F(QuantBatch, NonFiniteRowsLeaveOthersAlone) {
  manual_seed(7);
  const Weight weight = make_weight(64, 1024, kQ6_K);
  const Tensor x = randn({3, 1024});
  x.data_ptr<float>()[1024 + 5] = std::numeric_limits<float>::infinity();
  const Tensor rows = x.to(kBFloat16), y = linear_on_gpu(rows, weight).cpu();
  for (int64_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(y.data_ptr<float>()[64 + i]));
  for (int64_t row : {0, 2})
    expect_near(y.narrow(0, row, 1), product(rows.narrow(0, row, 1), weight), share_of(kQ6_K));
}

TEST_F(QuantBatch, Graph) {
  manual_seed(8);
  const Weight weight = make_weight(600, 1024, kQ4_K);
  const Tensor x = randn({32, 1024}).to(kBFloat16).to(kCuda);
  const Tensor weights[] = {weight.data.to(kCuda)};
  Tensor y = quant_linear(x, weights, {.dtype = kFloat32});
  cuda::Graph graph;
  graph.capture([&] {
    const cuda::EarlyLaunches early;
    y = quant_linear(x, weights, {.dtype = kFloat32});
  });
  x.copy_(randn({32, 1024}).to(kBFloat16).to(kCuda));
  graph.replay();
  expect_near(y, product(x.cpu(), weight), share_of(kQ4_K));
}

}  // namespace
}  // namespace tensora::test
