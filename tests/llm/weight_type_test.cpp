#include "tensora/llm/weight_type.h"

#include "../helpers.h"
#include "tensora/core/random.h"
#include "tensora/llm/registry.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;

DType type_of(const char* mix, const std::string& name, int64_t width = 4096, bool head = false) {
  return WeightType(mix).dtype_for(
      {.name = name, .sizes = {64, width}, .dtype = kFloat16, .layers = 32, .is_head = head});
}

TEST(WeightType, Mixes) {
  EXPECT_EQ(type_of("q4_k_m", "blk.5.attn_q.weight"), kQ4_K);
  EXPECT_EQ(type_of("q4_k_m", "output.weight", 4096, true), kQ6_K);
  EXPECT_EQ(type_of("q4_k_m", "token_embd.weight"), kQ4_K);
  std::vector<int64_t> raised;
  for (int64_t i = 0; i < 32; ++i)
    if (type_of("Q4_K_M", "blk." + std::to_string(i) + ".ffn_down.weight") == kQ6_K)
      raised.push_back(i);
  EXPECT_EQ(raised,
            (std::vector<int64_t>{0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}));
  EXPECT_EQ(type_of("q4_k_m", "blk.0.attn_v.weight"), kQ6_K);
  EXPECT_EQ(type_of("q4_k_m", "blk.4.attn_v.weight"), kQ4_K);
  EXPECT_EQ(type_of("q8_0", "output.weight", 4096, true), kQ8_0);
  EXPECT_EQ(type_of("q4_0", "output.weight", 4096, true), kQ6_K);
  EXPECT_EQ(type_of("int8", "output.weight", 4096, true), kInt8);
  EXPECT_EQ(type_of("fp8", "blk.0.attn_q.weight"), kFloat8E4M3);
  EXPECT_EQ(type_of("bf16", "blk.0.attn_q.weight"), kBFloat16);
  EXPECT_EQ(type_of("q4_k_m", "blk.0.ffn_gate_inp.weight"), kFloat16);
  EXPECT_EQ(type_of("", "blk.0.attn_q.weight"), kFloat16);
}

// The size of the file that everybody has.
TEST(WeightType, SizeOfLlama8B) {
  const RegistryEntry::Sizes s = find_registered("llama3-8b").sizes;
  const int64_t keys = s.kv_heads * s.head_dim;
  int64_t bytes = 0;
  const auto add = [&](const std::string& name, int64_t rows, int64_t width) {
    bytes += bytes_of(type_of("q4_k_m", name, width, name == "output.weight"), rows * width);
  };
  add("token_embd.weight", s.vocab_size, s.hidden_size);
  add("output.weight", s.vocab_size, s.hidden_size);
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    add(block + "attn_q.weight", s.hidden_size, s.hidden_size);
    add(block + "attn_output.weight", s.hidden_size, s.hidden_size);
    add(block + "attn_k.weight", keys, s.hidden_size);
    add(block + "attn_v.weight", keys, s.hidden_size);
    add(block + "ffn_gate.weight", s.feed_forward, s.hidden_size);
    add(block + "ffn_up.weight", s.feed_forward, s.hidden_size);
    add(block + "ffn_down.weight", s.hidden_size, s.feed_forward);
  }
  EXPECT_NEAR(static_cast<double>(bytes) / (1 << 30), 4.58,
              0.01);  // the file also has a vocabulary
}

TEST(WeightType, RowsThatAreNotWholeBlocks) {
  EXPECT_EQ(type_of("q4_k_m", "blk.5.attn_q.weight", 96), kQ5_0);
  EXPECT_EQ(type_of("q6_k", "blk.5.attn_q.weight", 96), kQ8_0);
  EXPECT_EQ(type_of("q4_k_m", "blk.5.attn_q.weight", 100), kFloat16);
  EXPECT_EQ(type_of("nf4", "blk.5.attn_q.weight", 96), kIQ4_NL);
  EXPECT_EQ(type_of("int8", "blk.5.attn_q.weight", 100), kInt8);
}

TEST(WeightType, AnUnknownNameListsTheKnownOnes) {
  const std::string error = error_of([] { WeightType("q9_z"); });
  EXPECT_TRUE(contains(error, "'q9_z'")) << error;
  EXPECT_TRUE(contains(error, "q4_k_m")) << error;
  for (const std::string& name : WeightType::names()) EXPECT_EQ(WeightType(name).name(), name);
}

TEST(WeightType, ConvertsWithinTheTypesPrecision) {
  Generator generator(3);
  const GeneratorScope scope(generator);
  Tensor numbers = randn({37, 256}, {.dtype = kFloat32});
  numbers[5].zero_();  // a row without a largest number
  struct Row {
    DType dtype;
    double most;
  };
  for (const Row& row : {Row{kInt8, 0.02}, Row{kFloat8E4M3, 0.15}, Row{kFloat16, 2e-3},
                         Row{kQ8_0, 0.02}, Row{kQ6_K, 0.1}, Row{kQ4_K, 0.3}, Row{kNF4, 0.5}}) {
    SCOPED_TRACE(name(row.dtype));
    const Weight made = convert_weight(numbers, row.dtype, {});
    EXPECT_EQ(made.data.dtype(), row.dtype);
    EXPECT_EQ(made.scale.defined(), row.dtype == kInt8 || row.dtype == kFloat8E4M3);
    const Tensor back = made.dequantized();
    EXPECT_LT((back - numbers).abs().max().item<double>(), row.most);
    EXPECT_EQ(back[5].abs().max().item<double>(), 0);
    const Weight part = made.rows(30, 7);
    EXPECT_TRUE(equal(part.dequantized(), back.narrow(0, 30, 7)));
  }
}

}  // namespace
}  // namespace tensora::llm
