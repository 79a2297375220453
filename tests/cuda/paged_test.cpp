// The paged cache on the GPU: every kernel against the definition in float32.
#include <cmath>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/ops/paged/paged_attention.h"
#include "tensora/ops/paged/paged_store.h"
#include "tensora/ops/quant/quantize.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class PagedOnGpu : public Gpu {};

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

// Shares of keys that begin and end within sequences, whole sequences within a share, and heads
// that need several tiles of rows: see Note [Division of decode attention].
TEST_F(PagedOnGpu, DecodeOfAnyBatchDepthAndHeads) {
  manual_seed(19);
  struct Heads {
    int64_t heads, groups, size;
  };
  std::vector<int> many, mixed;
  for (int i = 0; i < 300; ++i) many.push_back(1 + i * 37 % 190);
  for (int i = 0; i < 20; ++i) mixed.push_back(i % 3 == 0 ? 3 : 100 + i * 211);
  for (const Heads& h : {Heads{32, 8, 128}, {16, 1, 128}, {40, 1, 64}, {3, 3, 96}, {8, 1, 256}})
    for (const std::vector<int>& lengths :
         {std::vector<int>{20000}, {9000, 1, 64, 0, 65}, many, mixed})
      for (int64_t block_size : {16, 64, 24}) {
        SCOPED_TRACE(concat(h.heads, " heads, ", h.groups, " of keys, size ", h.size, ", ",
                            lengths.size(), " sequences, blocks of ", block_size));
        const std::vector<int> queries(lengths.size(), 1);
        const Paged p = make_paged(queries, lengths, h.groups, block_size, h.size, kBFloat16);
        spoil_the_rest(p);
        check_attention(p, h.heads, h.size, kBFloat16, {}, 1e-2);
        if (block_size == 16) check_attention(p, h.heads, h.size, kBFloat16, {.window = 150}, 1e-2);
        if (HasFatalFailure()) return;
      }
}

TEST_F(PagedOnGpu, DecodeFromEveryCache) {
  manual_seed(20);
  for (DType cache : {kFloat32, kFloat16, kBFloat16, kFloat8E4M3, kQ8_0})
    for (DType dtype : {kFloat16, kBFloat16})
      for (int64_t size : {64, 96, 128, 256})
        for (int64_t block_size : {16, 32, 8}) {
          SCOPED_TRACE(concat(cache, " for ", dtype, ", size ", size, ", blocks of ", block_size));
          const Paged p = make_paged({1, 2, 1, 1}, {5000, 77, 1, 300}, 2, block_size, size, cache);
          check_attention(p, 8, size, dtype, {}, 1e-2);
          if (HasFatalFailure()) return;
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
