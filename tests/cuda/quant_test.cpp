// Quantized weights on the GPU: every kernel against the definition in float32.
#include <cmath>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/llm/weight.h"
#include "tensora/ops/norm/residual_norm.h"
#include "tensora/ops/quant/quant_embedding.h"
#include "tensora/ops/quant/quant_gated.h"
#include "tensora/ops/quant/quant_linear.h"
#include "tensora/ops/quant/quantize.h"
#include "tests/cuda/quant_weights.h"

namespace tensora::test {
namespace {

class QuantOnGpu : public Gpu {};

TEST_F(QuantOnGpu, FewRowsOfEveryType) {
  manual_seed(1);
  const Shape sizes[] = {{16, 256}, {40, 512}, {17, 2304}, {128, 4096}, {1, 256}};
  for (DType dtype : all_weights())
    for (const Shape& size : sizes)
      for (int64_t rows : {1, 2, 3, 8}) {
        SCOPED_TRACE(concat(dtype, " ", size, ", ", rows, " rows"));
        const Weight weight = make_weight(size[0], size[1], dtype);
        const Tensor x = randn({rows, size[1]}).to(activations_for(dtype));
        expect_near(linear_on_gpu(x, weight), product(x, weight), share_of(dtype));
        if (HasFatalFailure()) return;
      }
}

// Rows that end within a chunk, and whose addresses are aligned to a block only.
TEST_F(QuantOnGpu, FewRowsOfOddWidths) {
  manual_seed(2);
  for (DType dtype : all_weights()) {
    const int64_t block = dtype_info(dtype).block_numbers;
    for (int64_t k : {block, 3 * block, 9 * block, 8 * block + 8, 40 * block + 24}) {
      if (k % block != 0) continue;
      for (int64_t rows : {1, 5}) {
        SCOPED_TRACE(concat(dtype, " K ", k, ", ", rows, " rows"));
        const Weight weight = make_weight(35, k, dtype);
        const Tensor x = randn({rows, k}).to(activations_for(dtype));
        expect_near(linear_on_gpu(x, weight), product(x, weight), share_of(dtype));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(QuantOnGpu, AnyActivations) {
  manual_seed(3);
  for (DType dtype : all_weights())
    for (DType x_dtype : {kFloat32, kFloat16, kBFloat16})
      for (int64_t rows : {1, 3}) {
        SCOPED_TRACE(concat(dtype, " times ", x_dtype, ", ", rows, " rows"));
        const Weight weight = make_weight(33, 512, dtype);
        const Tensor x = randn({rows, 512}).to(x_dtype);
        expect_near(linear_on_gpu(x, weight), product(x, weight), share_of(dtype));
        if (HasFatalFailure()) return;
      }
}

TEST_F(QuantOnGpu, ManyRowsOfEveryType) {
  manual_seed(4);
  for (DType dtype : all_weights())
    for (int64_t rows : {9, 33, 64, 130})
      for (DType out : {kFloat32, kBFloat16}) {
        SCOPED_TRACE(concat(dtype, ", ", rows, " rows to ", out));
        const Weight weight = make_weight(48, 512, dtype);
        const Tensor x = randn({rows, 512}).to(activations_for(dtype));
        expect_near(linear_on_gpu(x, weight, out), product(x, weight), 1e-2);
        if (HasFatalFailure()) return;
      }
}

TEST_F(QuantOnGpu, SeveralWeightsBiasAndResidual) {
  manual_seed(5);
  const std::vector<std::vector<DType>> mixes = {{kQ4_K, kQ4_K, kQ6_K},
                                                 {kQ8_0, kQ8_0, kQ8_0},
                                                 {kBFloat16, kQ4_0},
                                                 {kInt8, kInt8, kFloat8E4M3}};
  for (const auto& mix : mixes)
    for (int64_t rows : {1, 4, 20})
      for (DType added : {kFloat32, kBFloat16}) {
        SCOPED_TRACE(concat(mix[0], ", ", rows, " rows, bias of ", added));
        const Tensor x = randn({rows, 512}).to(kBFloat16);
        std::vector<Tensor> weights, scales, parts;
        int64_t n = 40, columns = 0;
        for (DType dtype : mix) {
          const Weight weight = make_weight(n, 512, dtype);
          weights.push_back(weight.data.to(kCuda));
          scales.push_back(weight.scale_on_gpu());
          parts.push_back(product(x, weight));
          columns += n;
          n += 9;
        }
        const Tensor bias = randn({columns}).to(added), residual = randn({rows, columns}).to(added);
        const Tensor expected = cat(parts, -1) + bias.to(kFloat32) + residual.to(kFloat32);
        const Tensor actual = quant_linear(x.to(kCuda), weights,
                                           {.scales = scales,
                                            .bias = bias.to(kCuda),
                                            .residual = residual.to(kCuda),
                                            .dtype = kFloat32});
        expect_near(actual, expected, rows > 8 ? 1e-2 : 1e-3);
        if (HasFatalFailure()) return;
      }
}

// Weights that lie one below the other, as a model places them, are one matrix to the library.
TEST_F(QuantOnGpu, ManyRowsOfWeightsBelowOneAnother) {
  manual_seed(21);
  for (DType dtype : {kBFloat16, kQ4_K, kInt8}) {
    SCOPED_TRACE(concat(dtype));
    const int64_t k = 256, sizes[] = {96, 32, 32};
    const Weight all = make_weight(160, k, dtype);
    const Tensor data = all.data.to(kCuda), scale = all.scale_on_gpu();
    std::vector<Tensor> weights, scales;
    int64_t row = 0;
    for (int64_t rows : sizes) {
      weights.push_back(data.narrow(0, row, rows));
      scales.push_back(scale.defined() ? scale.narrow(0, row, rows) : scale);
      row += rows;
    }
    if (!scale.defined()) scales.clear();
    const Tensor x = randn({100, k}).to(kBFloat16), residual = randn({100, 160});
    const Tensor y =
        quant_linear(x.to(kCuda), weights,
                     {.scales = scales, .residual = residual.to(kCuda), .dtype = kFloat32});
    expect_near(y, product(x, all) + residual, 1e-2);
    const Weight gate{all.data.narrow(0, 0, 80),
                      scale.defined() ? all.scale.narrow(0, 0, 80) : scale},
        up{all.data.narrow(0, 80, 80), scale.defined() ? all.scale.narrow(0, 80, 80) : scale};
    const Tensor gated =
        quant_gated(x.to(kCuda), data.narrow(0, 0, 80), data.narrow(0, 80, 80),
                    {.activation = Activation::silu,
                     .gate_scale = scale.defined() ? scale.narrow(0, 0, 80) : scale,
                     .up_scale = scale.defined() ? scale.narrow(0, 80, 80) : scale});
    expect_near(gated, silu(product(x, gate)) * product(x, up), 2e-2);
  }
}

TEST_F(QuantOnGpu, WeightsPlacedTogether) {
  manual_seed(22);
  for (DType dtype : {kBFloat16, kQ4_K, kInt8}) {
    SCOPED_TRACE(concat(dtype));
    std::vector<llm::Weight> weights;
    std::vector<Tensor> numbers;
    for (int64_t rows : {48, 16, 32}) {
      const Weight weight = make_weight(rows, 256, dtype);
      numbers.push_back(weight.wide());
      weights.push_back({.data = weight.data.to(kCuda), .scale = weight.scale_on_gpu()});
    }
    llm::Weight* const all[] = {&weights[0], &weights[1], &weights[2]};
    llm::place_together(all);
    for (size_t i = 0; i < weights.size(); ++i) {
      expect_near(weights[i].to(kCPU).dequantized(), numbers[i], 0);
      if (i == 0) continue;
      const Tensor& before = weights[i - 1].data;
      EXPECT_EQ(weights[i].data.data_ptr(),
                static_cast<char*>(before.data_ptr()) + before.nbytes());
    }
  }
  // Nothing happens to those that cannot be one matrix.
  llm::Weight plain{.data = randn({8, 64}).to(kCuda)}, narrow{.data = randn({8, 32}).to(kCuda)};
  const void* const data = plain.data.data_ptr();
  llm::Weight* const both[] = {&plain, &narrow};
  llm::place_together(both);
  EXPECT_EQ(plain.data.data_ptr(), data);
}

TEST_F(QuantOnGpu, Gated) {
  manual_seed(6);
  for (DType dtype : all_weights())
    for (int64_t rows : {1, 6, 20})
      for (Activation activation : {Activation::silu, Activation::gelu_tanh}) {
        SCOPED_TRACE(concat(dtype, ", ", rows, " rows"));
        const Weight gate = make_weight(44, 512, dtype), up = make_weight(44, 512, dtype);
        const Tensor x = (randn({rows, 512}) * 0.1).to(activations_for(dtype));
        const Tensor inner = product(x, gate);
        const Tensor active = activation == Activation::silu ? silu(inner) : gelu(inner, "tanh");
        const Tensor actual = quant_gated(x.to(kCuda), gate.data.to(kCuda), up.data.to(kCuda),
                                          {.activation = activation,
                                           .gate_scale = gate.scale_on_gpu(),
                                           .up_scale = up.scale_on_gpu(),
                                           .dtype = kFloat32});
        expect_near(actual, active * product(x, up), rows > 8 ? 2e-2 : 2 * share_of(dtype));
        if (HasFatalFailure()) return;
      }
  const Weight gate = make_weight(44, 512, kQ4_K), up = make_weight(44, 512, kQ6_K);
  const Tensor x = (randn({1, 512}) * 0.1).to(kBFloat16);
  expect_near(quant_gated(x.to(kCuda), gate.data.to(kCuda), up.data.to(kCuda), {.dtype = kFloat32}),
              silu(product(x, gate)) * product(x, up), 3e-4);
}

TEST_F(QuantOnGpu, Embedding) {
  manual_seed(7);
  const Tensor indices = arange(12, {.dtype = kInt64}) * 3;
  for (DType dtype : all_weights()) {
    SCOPED_TRACE(concat(dtype));
    const Weight weight = make_weight(50, 768, dtype);
    const Tensor expected = index_select(weight.wide(), 0, indices) * 2;
    expect_near(quant_embedding(indices.to(kCuda), weight.data.to(kCuda),
                                {.scale = weight.scale_on_gpu(), .factor = 2}),
                expected, 1e-6);
  }
}

// A row's result is the same among few and among many rows, up to where the library multiplies.
TEST_F(QuantOnGpu, NormBeforeTheProduct) {
  for (DType dtype : {kQ4_K, kQ6_K, kQ8_0, kQ4_0, kIQ4_NL, kMXFP4, kInt8, kFloat16, kBFloat16})
    for (int64_t rows : {1, 3})
      for (int64_t k : {256, 2048, 6144}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << ", " << rows << " rows of " << k);
        const Weight first = make_weight(300, k, dtype), second = make_weight(300, k, dtype);
        const Tensor x = randn({rows, k}) * 3, norm = sample({k}, kFloat32, 0.5, 1.5);
        const Tensor plain =
            rms_norm(x, {k}, norm, 1e-5).to(dtype == kFloat16 ? kFloat16 : kBFloat16);
        QuantLinearOptions options{.dtype = kFloat32, .norm = norm.to(kCuda)};
        if (first.scale.defined()) options.scales = {first.scale_on_gpu()};
        const Tensor data = first.data.to(kCuda);
        expect_near(quant_linear(x.to(kCuda), {&data, 1}, options), product(plain, first), 0.02);
        const Tensor gate = product(plain, first), expected = silu(gate) * product(plain, second);
        expect_near(quant_gated(x.to(kCuda), data, second.data.to(kCuda),
                                {.gate_scale = first.scale_on_gpu(),
                                 .up_scale = second.scale_on_gpu(),
                                 .dtype = kFloat32,
                                 .norm = norm.to(kCuda)}),
                    expected, 0.02);
      }
}

// Sizes at which warps share tiles in different ways, and blocks take several.
TEST_F(QuantOnGpu, OneRowOfManySizes) {
  for (DType dtype : {kQ4_K, kQ8_0, kFloat16})
    for (int64_t rows : {1, 17, 2048, 4000})
      for (int64_t k : {256, 1024, 2304, 8192}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << rows << " x " << k);
        const Weight weight = make_weight(rows, k, dtype);
        const Tensor x = randn({1, k}).to(dtype == kFloat16 ? kFloat16 : kBFloat16);
        const Tensor residual = randn({1, rows}), data = weight.data.to(kCuda);
        expect_near(quant_linear(x.to(kCuda), {&data, 1},
                                 {.residual = residual.to(kCuda), .dtype = kFloat32}),
                    product(x, weight) + residual, 0.01);
      }
}

TEST_F(QuantOnGpu, RowsDoNotDependOnOthers) {
  manual_seed(8);
  for (DType dtype : all_weights()) {
    SCOPED_TRACE(concat(dtype));
    const Weight weight = make_weight(64, 1024, dtype);
    const bool plain = !weight.scale.defined() && !weight.data.is_quantized();
    const Tensor x = randn({plain ? 8 : 50, 1024}).to(activations_for(dtype));
    const Tensor all = linear_on_gpu(x, weight);
    // Fewer rows of block formats have kernels of their own: see QuantBatch.
    const int64_t least = weight.data.is_quantized() ? 9 : 2;
    for (int64_t rows : {2, 5, 9, 17})
      if (rows >= least && rows < x.size(0))
        expect_close(linear_on_gpu(x.narrow(0, 0, rows), weight), all.narrow(0, 0, rows), 0);
  }
}

TEST_F(QuantOnGpu, Graph) {
  manual_seed(9);
  const Weight weight = make_weight(64, 1024, kQ4_K);
  const Tensor x = randn({1, 1024}).to(kBFloat16).to(kCuda);
  const Tensor weights[] = {weight.data.to(kCuda)};
  Tensor y = quant_linear(x, weights, {.dtype = kFloat32});
  cuda::Graph graph;
  graph.capture([&] { y = quant_linear(x, weights, {.dtype = kFloat32}); });
  x.copy_(randn({1, 1024}).to(kBFloat16).to(kCuda));
  graph.replay();
  expect_near(y, product(x.cpu(), weight), 2e-4);
}

}  // namespace
}  // namespace tensora::test
