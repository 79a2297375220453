// Quantized weights and the paged cache on the GPU: every kernel against the definition in float32.
#include <cmath>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/norm/residual_norm.h"
#include "tensora/ops/paged/paged_attention.h"
#include "tensora/ops/paged/paged_store.h"
#include "tensora/ops/quant/quant_embedding.h"
#include "tensora/ops/quant/quant_gated.h"
#include "tensora/ops/quant/quant_linear.h"
#include "tensora/ops/quant/quantize.h"
#include "tests/cuda/quant_weights.h"

namespace tensora::test {
namespace {

class QuantOnGpu : public Gpu {};
class PagedOnGpu : public Gpu {};

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
    for (int64_t rows : {2, 5, 17})
      if (rows < x.size(0))
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

// ---- the paged cache
// -----------------------------------------------------------------------------

struct Paged {
  Tensor keys, values, starts, lengths, table;
  int64_t tokens = 0, most = 0, longest = 0;

  Paged on_gpu() const {
    Paged copy = *this;
    for (Tensor* each : {&copy.keys, &copy.values, &copy.starts, &copy.lengths, &copy.table})
      *each = each->to(kCuda);
    return copy;
  }
};

Tensor ints(const std::vector<int>& values) {
  const Tensor result = empty({static_cast<int64_t>(values.size())}, {.dtype = kInt32});
  std::copy(values.begin(), values.end(), result.data_ptr<int32_t>());
  return result;
}

Paged make_paged(const std::vector<int>& queries, const std::vector<int>& lengths, int64_t groups,
                 int64_t block_size, int64_t size, DType dtype) {
  Paged p;
  int64_t blocks = 1;
  std::vector<int> starts = {0};
  for (size_t s = 0; s < queries.size(); ++s) {
    starts.push_back(starts.back() + queries[s]);
    p.most = std::max<int64_t>(p.most, queries[s]);
    p.longest = std::max<int64_t>(p.longest, lengths[s]);
    blocks += (lengths[s] + block_size - 1) / block_size;
  }
  p.tokens = starts.back();
  const int64_t per_sequence = (p.longest + block_size - 1) / block_size;
  p.table = zeros({static_cast<int64_t>(queries.size()), per_sequence}, {.dtype = kInt32});
  int next = static_cast<int>(blocks);  // from the last block on: not in order
  for (size_t s = 0; s < queries.size(); ++s)
    for (int64_t b = 0; b < (lengths[s] + block_size - 1) / block_size; ++b)
      p.table.data_ptr<int32_t>()[static_cast<int64_t>(s) * per_sequence + b] = --next;
  const Tensor keys = randn({blocks, groups, block_size, size});
  const Tensor values = randn({blocks, groups, block_size, size});
  p.keys = is_quantized(dtype) ? quantize(keys, dtype) : keys.to(dtype);
  p.values = is_quantized(dtype) ? quantize(values, dtype) : values.to(dtype);
  p.starts = ints(starts);
  p.lengths = ints(lengths);
  return p;
}

void check_attention(const Paged& p, int64_t heads, int64_t size, DType dtype,
                     PagedAttentionOptions options, double share) {
  const Tensor q = randn({p.tokens, heads, size}).to(dtype);
  options.max_query = p.most;
  options.max_length = p.longest;
  const Tensor expected =
      paged_attention(q.to(kFloat32), p.keys, p.values, p.starts, p.lengths, p.table, options);
  const Paged g = p.on_gpu();
  expect_near(paged_attention(q.to(kCuda), g.keys, g.values, g.starts, g.lengths, g.table, options),
              expected, share);
}

TEST_F(PagedOnGpu, AttentionOfOneQuery) {
  manual_seed(11);
  for (DType dtype : {kFloat16, kBFloat16, kFloat32})
    for (int64_t size : {64, 80, 128, 256})
      for (int64_t heads : {8, 32}) {
        SCOPED_TRACE(concat(dtype, ", heads ", heads, " of size ", size));
        const Paged p = make_paged({1, 1, 1, 1}, {1, 63, 700, 2500}, 8, 16, size, dtype);
        check_attention(p, heads, size, dtype, {}, dtype == kFloat32 ? 1e-5 : 1e-2);
        if (HasFatalFailure()) return;
      }
}

TEST_F(PagedOnGpu, AttentionOfManyQueries) {
  manual_seed(12);
  for (DType dtype : {kFloat16, kBFloat16, kFloat32})
    for (int64_t size : {64, 128, 256}) {
      SCOPED_TRACE(concat(dtype, ", size ", size));
      const Paged p = make_paged({100, 1, 3, 130}, {100, 300, 70, 200}, 2, 32, size, dtype);
      check_attention(p, 8, size, dtype, {}, dtype == kFloat32 ? 1e-5 : 1e-2);
      if (HasFatalFailure()) return;
    }
}

TEST_F(PagedOnGpu, EveryCache) {
  manual_seed(13);
  for (DType cache : {kFloat32, kFloat16, kBFloat16, kFloat8E4M3, kQ8_0})
    for (DType dtype : {kFloat32, kBFloat16})
      for (int queries : {1, 40}) {
        SCOPED_TRACE(concat(cache, " for ", dtype, ", ", queries, " queries"));
        const Paged p = make_paged({queries, queries}, {90, 211}, 4, 16, 128, cache);
        check_attention(p, 16, 128, dtype, {}, dtype == kFloat32 ? 1e-5 : 1e-2);
        if (HasFatalFailure()) return;
      }
}

TEST_F(PagedOnGpu, WindowCapAndScale) {
  manual_seed(14);
  for (int queries : {1, 2, 50})
    for (int64_t block_size : {16, 24}) {
      SCOPED_TRACE(concat(queries, " queries, blocks of ", block_size));
      const Paged p =
          make_paged({queries, queries, queries}, {60, 500, 129}, 2, block_size, 64, kBFloat16);
      for (int64_t window : {0, 17, 100})
        for (double cap : {0.0, 5.0})
          check_attention(p, 8, 64, kBFloat16, {.scale = 0.3, .softcap = cap, .window = window},
                          1e-2);
      if (HasFatalFailure()) return;
    }
}

// Places of the last blocks that no key was written to hold NaN.
void spoil_the_rest(const Paged& p) {
  const int64_t block_size = p.keys.size(2);
  for (int64_t s = 0; s < p.lengths.size(0); ++s) {
    const int64_t length = p.lengths.data_ptr<int32_t>()[s], used = length % block_size;
    if (used == 0) continue;
    const int64_t block = p.table.data_ptr<int32_t>()[s * p.table.size(1) + length / block_size];
    for (const Tensor& cache : {p.keys, p.values})
      cache.select(0, block).narrow(1, used, block_size - used).fill_(NAN);
  }
}

TEST_F(PagedOnGpu, LongPrompts) {
  manual_seed(18);
  for (DType dtype : {kFloat16, kBFloat16})
    for (int64_t size : {64, 96, 128})
      for (int64_t block_size : {8, 16, 32, 128, 256, 24}) {
        SCOPED_TRACE(concat(dtype, ", size ", size, ", blocks of ", block_size));
        const Paged p = make_paged({300, 1, 129, 64, 128}, {300, 513, 200, 700, 384}, 2, block_size,
                                   size, dtype);
        spoil_the_rest(p);
        check_attention(p, 8, size, dtype, {}, 1e-2);
        check_attention(p, 2, size, dtype, {.scale = 0.3}, 1e-2);
        if (HasFatalFailure()) return;
      }
  for (DType cache : {kFloat32, kFloat16, kFloat8E4M3, kQ8_0}) {
    SCOPED_TRACE(concat("cache of ", cache));
    const Paged p = make_paged({150, 200}, {150, 411}, 2, 16, 128, cache);
    check_attention(p, 8, 128, kBFloat16, {}, 1e-2);
  }
}

TEST_F(PagedOnGpu, EmptySequencesAndTokensOfNone) {
  manual_seed(15);
  for (int queries : {1, 30, 100}) {
    Paged p = make_paged({queries, queries}, {100, 40}, 2, 16, 64, kBFloat16);
    p.lengths.data_ptr<int32_t>()[1] = 0;
    p.tokens += 3;
    check_attention(p, 4, 64, kBFloat16, {}, 1e-2);
  }
}

TEST_F(PagedOnGpu, LengthsOfAGraphAreReadOnTheDevice) {
  manual_seed(16);
  const Paged p = make_paged({1, 1}, {900, 640}, 2, 16, 128, kBFloat16), g = p.on_gpu();
  const Tensor q = randn({2, 8, 128}).to(kBFloat16);
  const PagedAttentionOptions options{.max_query = 1, .max_length = 900};
  const Tensor lengths = ints({5, 77}).to(kCuda), on_gpu = q.to(kCuda);
  const auto run = [&] {
    return paged_attention(on_gpu, g.keys, g.values, g.starts, lengths, g.table, options);
  };
  Tensor y = run();
  cuda::Graph graph;
  graph.capture([&] { y = run(); });
  for (const std::vector<int>& now : {std::vector<int>{900, 640}, std::vector<int>{1, 300}}) {
    lengths.copy_(ints(now).to(kCuda));
    graph.replay();
    expect_near(
        y, paged_attention(q.to(kFloat32), p.keys, p.values, p.starts, ints(now), p.table, options),
        1e-2);
  }
}

TEST_F(PagedOnGpu, Store) {
  manual_seed(17);
  const int64_t tokens = 5, heads = 6, groups = 2, size = 64, block_size = 16, blocks = 4;
  const Tensor positions = arange(tokens, {.dtype = kInt64}) * 3;
  const Tensor slots = empty({tokens}, {.dtype = kInt64});
  const int64_t given[] = {0, 17, -1, 63, 40};
  std::copy(given, given + tokens, slots.data_ptr<int64_t>());
  for (DType cache : {kFloat32, kFloat16, kBFloat16, kFloat8E4M3, kQ8_0})
    for (DType dtype : {kFloat32, kBFloat16})
      for (bool in_halves : {true, false})
        for (bool norms : {true, false}) {
          SCOPED_TRACE(concat(cache, " of ", dtype, in_halves ? ", halves" : ", pairs",
                              norms ? ", with norms" : ""));
          const int64_t turned = norms ? size : size / 2;
          const Tensor qkv = randn({tokens, (heads + 2 * groups) * size}).to(dtype);
          const Tensor table = sample({20, turned}, kFloat32, -1, 1);
          const Shape sizes = {blocks, groups, block_size, size};
          const auto fresh = [&](Device device) {
            const Tensor empty_cache = zeros(sizes);
            return (is_quantized(cache) ? quantize(empty_cache, cache) : empty_cache.to(cache))
                .to(device);
          };
          PagedStoreOptions options{.heads = heads, .kv_heads = groups, .in_halves = in_halves};
          if (norms) options.q_norm = randn({size}), options.k_norm = randn({size});
          const Tensor keys = fresh(kCPU), values = fresh(kCPU);
          const Tensor q = paged_store(qkv, positions, slots, keys, values, table, options);
          const Tensor keys_gpu = fresh(kCuda), values_gpu = fresh(kCuda);
          if (norms)
            options.q_norm = options.q_norm.to(kCuda), options.k_norm = options.k_norm.to(kCuda);
          const Tensor q_gpu = paged_store(qkv.to(kCuda), positions.to(kCuda), slots.to(kCuda),
                                           keys_gpu, values_gpu, table.to(kCuda), options);
          const auto wide = [](const Tensor& t) {
            return t.is_quantized() ? dequantize(t.cpu()) : t.cpu().to(kFloat32);
          };
          expect_near(q_gpu, q, dtype == kFloat32 ? 1e-5 : 1e-2);
          // A number that is all but half way may be rounded the other way.
          const double step = cache == kFloat8E4M3 ? 0.07 : cache == kFloat32 ? 1e-5 : 1e-2;
          expect_near(wide(keys_gpu), wide(keys), step);
          expect_near(wide(values_gpu), wide(values), step);
          if (HasFatalFailure()) return;
        }
}

}  // namespace
}  // namespace tensora::test
