#include "tensora/llm/self_attention.h"

#include "../helpers.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

constexpr int64_t kHeads = 4, kGroups = 2, kSize = 16, kBlock = 4, kMostBlocks = 8;

struct Problem {
  Tensor qkv, keys, values, table;
  Batch batch;
  PagedSelfAttentionOptions options;
};

// Sequences of these lengths, of which so many tokens each are new.
Problem problem_of(const std::vector<int64_t>& lengths, const std::vector<int64_t>& counts) {
  std::vector<int64_t> positions, slots;
  std::vector<int32_t> starts = {0}, ends, blocks;
  Problem problem;
  Batch& batch = problem.batch;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int64_t at = lengths[s] - counts[s]; at < lengths[s]; ++at) {
      positions.push_back(at);
      slots.push_back((static_cast<int64_t>(s) * kMostBlocks + at / kBlock) * kBlock + at % kBlock);
    }
    starts.push_back(static_cast<int32_t>(positions.size()));
    ends.push_back(static_cast<int32_t>(lengths[s]));
    for (int64_t b = 0; b < kMostBlocks; ++b)
      blocks.push_back(static_cast<int32_t>(static_cast<int64_t>(s) * kMostBlocks + b));
    if (counts[s] == 1 && batch.single_queries == static_cast<int64_t>(s)) ++batch.single_queries;
    batch.max_query = std::max(batch.max_query, counts[s]);
    batch.max_length = std::max(batch.max_length, lengths[s]);
  }
  const auto sequences = static_cast<int64_t>(lengths.size());
  batch.positions = tensor(positions);
  batch.slots = tensor(slots);
  batch.query_starts = tensor(starts, {.dtype = kInt32});
  batch.lengths = tensor(ends, {.dtype = kInt32});
  batch.block_table = tensor(blocks, {.dtype = kInt32}).reshape({sequences, kMostBlocks});
  problem.qkv = randn({std::ssize(positions), (kHeads + 2 * kGroups) * kSize});
  problem.keys = randn({sequences * kMostBlocks, kGroups, kBlock, kSize});
  problem.values = randn({sequences * kMostBlocks, kGroups, kBlock, kSize});
  problem.table = randn({kBlock * kMostBlocks, kSize});
  problem.options.store = {.heads = kHeads, .kv_heads = kGroups};
  problem.options.attention = {.max_query = batch.max_query, .max_length = batch.max_length};
  return problem;
}

TEST(SelfAttention, DividedIsTheSameAsWhole) {
  manual_seed(5);
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{9, 1, 30, 17, 5}, {1, 1, 1, 12, 5}},
      {{3, 32}, {1, 32}},
      {{8, 6, 11}, {1, 2, 1}},  // a single query behind others is one of the others
  };
  for (const auto& [lengths, counts] : cases) {
    const Problem problem = problem_of(lengths, counts);
    const Batch& batch = problem.batch;
    Tensor keys = problem.keys.clone(), values = problem.values.clone();
    const Tensor whole =
        paged_self_attention(problem.qkv, batch.positions, batch.slots, keys, values, problem.table,
                             batch.query_starts, batch.lengths, batch.block_table, problem.options);
    Tensor other_keys = problem.keys.clone(), other_values = problem.values.clone();
    const Tensor divided = divided_self_attention(problem.qkv, batch, other_keys, other_values,
                                                  problem.table, problem.options);
    EXPECT_TRUE(equal(divided, whole));
    EXPECT_TRUE(equal(other_keys, keys));
    EXPECT_TRUE(equal(other_values, values));
  }
}

}  // namespace
}  // namespace tensora::llm
