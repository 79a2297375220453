// A token's result has the same bits whatever it is computed together with, on any number of
// threads; and what only the CPU's kernels can see in the contents of index tensors is refused.
#include <cmath>
#include <cstring>
#include <functional>

#include "tensora/base/thread_pool.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

class Threads {
 public:
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = get_num_threads();
};

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

std::vector<DType> weight_dtypes() {
  std::vector<DType> dtypes = {kFloat32, kFloat16, kBFloat16, kInt8, kFloat8E4M3};
  for (const DTypeInfo& info : dtype_info_table)
    if (is_quantized(info.dtype)) dtypes.push_back(info.dtype);
  return dtypes;
}

struct Weight {
  Tensor data, scale;
  Weight(DType dtype, int64_t rows, int64_t columns) {
    const Tensor plain = randn({rows, columns});
    const bool scaled = dtype == kInt8 || dtype == kFloat8E4M3;
    if (scaled) scale = rand({rows});
    data = is_quantized(dtype) ? quantize(plain, dtype) : (plain * (scaled ? 30 : 1)).to(dtype);
  }
};

// Whether each row alone, and batches of many sizes, have the bits of the same rows among all.
void expect_same_rows(const Tensor& x, const std::function<Tensor(const Tensor&)>& product,
                      const std::string& what) {
  const Tensor all = product(x);
  const auto expect = [&](int64_t begin, int64_t rows, int threads) {
    EXPECT_TRUE(same_bits(product(narrow(x, 0, begin, rows)), narrow(all, 0, begin, rows)))
        << what << ": " << rows << " rows from " << begin << " on " << threads;
  };
  for (int threads : {1, 2, 4}) {
    const Threads limited(threads);
    EXPECT_TRUE(same_bits(product(x), all)) << what << " on " << threads;
    for (int64_t rows = 1; rows <= 17; ++rows) expect(rows == 1 ? 38 : 0, rows, threads);
    for (int64_t rows : {32, 33, 97}) expect(11, rows, threads);
  }
  for (int64_t row = 0; row < 20; ++row) expect(row, 1, 2);
}

TEST(BatchInvariance, RowsOfProducts) {
  manual_seed(3);
  const Tensor x = randn({135, 512});
  for (DType dtype : weight_dtypes()) {
    const Weight weight(dtype, 67, 512);
    const Tensor weights[] = {weight.data};
    expect_same_rows(
        x,
        [&](const Tensor& rows) { return quant_linear(rows, weights, {.scales = {weight.scale}}); },
        std::string(name(dtype)));
  }
}

TEST(BatchInvariance, RowsWithoutNumbersGiveZeros) {
  const Tensor weights[] = {zeros({3, 0}, {.dtype = kInt8})};
  for (int64_t rows : {1, 6, 20})
    EXPECT_TRUE(same_bits(quant_linear(empty({rows, 0}), weights, {.scales = {ones({3})}}),
                          zeros({rows, 3})))
        << rows;
}

// Rows of 288 numbers, which are no whole number of chunks, of 2,560, which are many, and a prompt.
TEST(BatchInvariance, RowsOfOtherWidths) {
  manual_seed(13);
  const auto expect = [](const Tensor& x, DType dtype, int64_t rows) {
    const Weight weight(dtype, rows, x.size(1));
    const Tensor weights[] = {weight.data};
    expect_same_rows(
        x, [&](const Tensor& some) { return quant_linear(some, weights); },
        concat(name(dtype), " of ", x.size(1)));
  };
  for (DType dtype : {kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIQ4_NL, kMXFP4, kFloat16, kFloat32})
    expect(randn({130, 288}), dtype, 43);
  for (DType dtype : {kFloat16, kBFloat16}) expect(randn({130, 301}), dtype, 21);
  for (DType dtype : {kQ4_K, kQ6_K, kQ8_0, kFloat16}) expect(randn({130, 2560}), dtype, 19);
  for (DType dtype : {kQ4_K, kQ8_0, kFloat16}) expect(randn({512, 256}), dtype, 70);
}

// A product that normalises its input gives the bits of the norm and the product apart.
TEST(BatchInvariance, NormalisedRows) {
  manual_seed(14);
  for (int64_t width : {256, 288, 512}) {
    const Tensor x = randn({9, width}), norm = rand({width}) + 0.5;
    const Weight gate(kQ8_0, 40, width), up(kQ8_0, 40, width);
    const Tensor weights[] = {gate.data};
    const auto normal = [&](const Tensor& rows) {
      return std::get<0>(residual_rms_norm(rows, norm, {.eps = 1e-5}));
    };
    for (int64_t rows : {1, 2, 9}) {
      const Tensor some = narrow(x, 0, 0, rows);
      EXPECT_TRUE(same_bits(quant_linear(some, weights, {.norm = norm, .eps = 1e-5}),
                            narrow(quant_linear(normal(x), weights), 0, 0, rows)));
      EXPECT_TRUE(same_bits(quant_gated(some, gate.data, up.data, {.norm = norm, .eps = 1e-5}),
                            quant_gated(normal(some), gate.data, up.data)));
    }
    const Tensor residual = randn({9, width});
    const auto [both, sum] = residual_rms_norm(x, norm, {.residual = residual, .eps = 1e-5});
    EXPECT_TRUE(same_bits(sum, x + residual));
    EXPECT_TRUE(same_bits(both, normal(sum)));
  }
}

TEST(BatchInvariance, WeightsSideBySide) {
  manual_seed(4);
  const Tensor x = randn({6, 512});
  const Weight a(kQ4_K, 33, 512), b(kQ8_0, 5, 512), c(kFloat16, 40, 512);
  const Tensor together[] = {a.data, b.data, c.data};
  const Tensor all = quant_linear(x, together);
  int64_t begin = 0;
  for (const Weight* each : {&a, &b, &c}) {
    const Tensor alone[] = {each->data};
    const int64_t rows = each->data.size(0);
    EXPECT_TRUE(same_bits(quant_linear(x, alone), narrow(all, 1, begin, rows)));
    begin += rows;
  }
}

TEST(BatchInvariance, GatedRows) {
  manual_seed(5);
  const Tensor x = randn({20, 256});
  const Weight gate(kQ4_K, 70, 256), up(kQ6_K, 70, 256);
  const Tensor all = quant_gated(x, gate.data, up.data);
  for (int64_t rows : {1, 4, 5})
    EXPECT_TRUE(
        same_bits(quant_gated(narrow(x, 0, 3, rows), gate.data, up.data), narrow(all, 0, 3, rows)));
}

TEST(QuantLinear, NotFiniteActivationsStayInTheirRow) {
  for (DType dtype : {kQ8_0, kQ4_K}) {
    const Weight weight(dtype, 3, 256);
    const Tensor weights[] = {weight.data};
    for (double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      Tensor x = ones({2, 256});
      select(select(x, 0, 1), 0, 100).fill_(bad);
      const Tensor y = quant_linear(x, weights);
      EXPECT_TRUE(all(isfinite(select(y, 0, 0))).item<bool>());
      EXPECT_FALSE(any(isfinite(select(y, 0, 1))).item<bool>());
    }
  }
}

// A cache of one sequence, whose blocks lie in their order.
struct Sequence {
  static constexpr int64_t kHeads = 6, kGroups = 2, kSize = 24, kBlock = 16;
  int64_t length, blocks = (length + kBlock - 1) / kBlock;
  Tensor keys = randn({blocks, kGroups, kBlock, kSize}), values = randn(keys.sizes());
  Tensor queries = randn({length, kHeads, kSize});

  // The last `count` queries of the first `end` positions.
  Tensor attend(int64_t end, int64_t count, const PagedAttentionOptions& options = {}) const {
    const Tensor starts = tensor(std::vector<double>{0, double(count)}).to(kInt32);
    return paged_attention(narrow(queries, 0, end - count, count), keys, values, starts,
                           full({1}, end, kInt32), reshape(arange(blocks).to(kInt32), {1, blocks}),
                           options);
  }
};

TEST(BatchInvariance, PagedAttentionInChunks) {
  manual_seed(6);
  const Sequence sequence{.length = 1100};
  for (int64_t window : {0, 700}) {
    const PagedAttentionOptions options{.window = window};
    const Tensor all = sequence.attend(1100, 1100, options);
    for (int threads : {1, 2, 3}) {
      const Threads limited(threads);
      EXPECT_TRUE(same_bits(sequence.attend(1100, 1100, options), all));
      for (int64_t end : {1, 31, 33, 512, 513, 1100})
        for (int64_t count : {1, 2, 9, 31}) {
          if (count > end) continue;
          EXPECT_TRUE(
              same_bits(sequence.attend(end, count, options), narrow(all, 0, end - count, count)))
              << count << " queries up to " << end << " on " << threads;
        }
    }
  }
}

TEST(BatchInvariance, PagedAttentionInBatches) {
  manual_seed(7);
  const Sequence sequence{.length = 600};
  const Tensor one = sequence.attend(600, 1), early = sequence.attend(40, 2);
  // Both at once, and a sequence without queries between them.
  const Tensor q = cat({narrow(sequence.queries, 0, 599, 1), narrow(sequence.queries, 0, 38, 2)});
  const Tensor table =
      reshape(arange(sequence.blocks).to(kInt32), {1, sequence.blocks}).expand({3, -1});
  const Tensor both = paged_attention(q, sequence.keys, sequence.values,
                                      tensor(std::vector<double>{0, 1, 1, 3}).to(kInt32),
                                      tensor(std::vector<double>{600, 5, 40}).to(kInt32), table);
  EXPECT_TRUE(same_bits(narrow(both, 0, 0, 1), one));
  EXPECT_TRUE(same_bits(narrow(both, 0, 1, 2), early));
}

TEST(PagedOps, ContentsAreChecked) {
  const Tensor cache = zeros({2, 1, 4, 8}), q = zeros({1, 1, 8});
  const auto ints = [](std::vector<double> values) { return tensor(values).to(kInt32); };
  const auto attend = [&](std::vector<double> starts, double length, std::vector<double> blocks) {
    const int64_t count = static_cast<int64_t>(blocks.size());
    return error_of([&] {
      paged_attention(q, cache, cache, ints(starts), ints({length}),
                      reshape(ints(blocks), {1, count}));
    });
  };
  EXPECT_EQ(attend({0, 1}, 3, {0}), "");
  EXPECT_TRUE(contains(attend({0, 1}, 3, {2}), "block 2 of sequence 0 is not in a cache of 2"));
  EXPECT_TRUE(contains(attend({0, 1}, 9, {0, 1}),
                       "sequence 0 of length 9 does not fit into 2 blocks of 4"));
  EXPECT_TRUE(contains(attend({0, 2}, 3, {0}), "queries 0 to 2 of sequence 0 are not among 1"));
  EXPECT_TRUE(contains(attend({0, 1}, -1, {0}), "sequence 0 of length -1"));
  const auto store = [&](double position, double slot) {
    return error_of([&] {
      const auto longs = [](double x) { return full({1}, x, kInt64); };
      paged_store(zeros({1, 24}), longs(position), longs(slot), cache.clone(), cache.clone(),
                  zeros({5, 8}), {.heads = 1, .kv_heads = 1});
    });
  };
  EXPECT_EQ(store(4, 7), "");
  EXPECT_EQ(store(4, -1), "");
  EXPECT_TRUE(contains(store(5, 0), "position 5 of token 0 is not in a table of 5"));
  EXPECT_TRUE(contains(store(0, 8), "slot 8 of token 0 is not in a cache of 8 places"));
  EXPECT_TRUE(contains(store(0, -2), "slot -2 of token 0"));
  EXPECT_TRUE(contains(error_of([] {
                         quant_embedding(full({1}, 4, kInt64), zeros({4, 8}));
                       }),
                       "quant_embedding: index 4 is not among 4 rows"));
}

}  // namespace
}  // namespace tensora::testing
