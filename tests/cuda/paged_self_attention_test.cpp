// One kernel for a step's attention against the two ops that it stands for.
#include "tensora/ops/paged/paged_self_attention.h"

#include <cmath>

#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class StepOnGpu : public Gpu {};

struct Step {
  int64_t heads, groups, size;
  std::vector<int64_t> lengths;
  DType dtype = kBFloat16;
  bool norms = false, in_halves = true;
  PagedAttentionOptions options = {};
};

constexpr int64_t kBlockSize = 16;

Tensor integers(const std::vector<int64_t>& values, DType dtype) {
  return tensor(values, {.dtype = kInt64}).to(dtype).to(kCuda);
}

void compare(const Step& s) {
  std::vector<int64_t> positions, slots, starts = {0}, table;
  int64_t most = 0;
  for (int64_t length : s.lengths) most = std::max(most, (length + kBlockSize - 1) / kBlockSize);
  const auto sequences = static_cast<int64_t>(s.lengths.size());
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t last = s.lengths[static_cast<size_t>(i)] - 1;
    positions.push_back(last);
    starts.push_back(i + 1);
    // Neighbours are not neighbours in the cache.
    for (int64_t b = 0; b < most; ++b) table.push_back((most - b) * sequences - 1 - i);
    slots.push_back(table[static_cast<size_t>(i * most + last / kBlockSize)] * kBlockSize +
                    last % kBlockSize);
  }
  const TensorOptions options{.dtype = s.dtype, .device = kCuda};
  const Tensor keys = randn({most * sequences, s.groups, kBlockSize, s.size}, options);
  const Tensor values = randn({most * sequences, s.groups, kBlockSize, s.size}, options);
  const Tensor qkv = randn({sequences, (s.heads + 2 * s.groups) * s.size}, options);
  const Tensor angles = randn({most * kBlockSize, s.size}, {.device = kCuda});
  const Tensor at = integers(positions, kInt64), to = integers(slots, kInt64),
               from = integers(starts, kInt32), lengths = integers(s.lengths, kInt32),
               blocks = integers(table, kInt32).reshape({sequences, most});
  const PagedStoreOptions store{.heads = s.heads,
                                .kv_heads = s.groups,
                                .in_halves = s.in_halves,
                                .q_norm = s.norms ? rand({s.size}, {.device = kCuda}) : Tensor(),
                                .k_norm = s.norms ? rand({s.size}, {.device = kCuda}) : Tensor()};
  PagedAttentionOptions attention = s.options;
  attention.max_query = 1;
  const Tensor keys2 = keys.clone(), values2 = values.clone();
  const Tensor query = paged_store(qkv, at, to, keys2, values2, angles, store);
  const Tensor expected =
      paged_attention(query, keys2, values2, from, lengths, blocks, attention).to(kFloat32);
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Tensor result = paged_self_attention(qkv, at, to, keys, values, angles, from, lengths,
                                               blocks, {.store = store, .attention = attention})
                              .to(kFloat32);
    EXPECT_EQ((keys - keys2).abs().max().item<float>(), 0.0f);
    EXPECT_EQ((values - values2).abs().max().item<float>(), 0.0f);
    const float error = (result - expected).abs().max().item<float>();
    EXPECT_LE(error,
              (s.dtype == kBFloat16 ? 1.0f / 64 : 1.0f / 512) * expected.abs().max().item<float>());
  }
}

TEST_F(StepOnGpu, EqualsTheTwoOps) {
  for (DType dtype : {kBFloat16, kFloat16})
    for (int64_t size : {64, 128})
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>{1}, {64}, {65}, {511, 513, 2}, {1000}, {4000, 1, 129}})
        for (bool plain : {true, false}) {
          SCOPED_TRACE(testing::Message() << name(dtype) << " heads of " << size << ", length "
                                          << lengths[0] << (plain ? "" : ", norms and pairs"));
          compare({8, 2, size, lengths, dtype, !plain, plain});
          if (HasFailure()) return;
        }
}

TEST_F(StepOnGpu, WindowSoftcapAndManyHeads) {
  compare({32, 8, 128, {300, 40}, kBFloat16, false, true, {.window = 100}});
  compare({4, 1, 64, {300}, kFloat16, false, true, {.softcap = 5}});
  compare({16, 1, 64, {777}, kBFloat16});
  compare({3, 3, 128, {90, 91}, kBFloat16, false, true, {.scale = 0.3}});
}

}  // namespace
}  // namespace tensora::test
