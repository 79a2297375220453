#include "sequences.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;
using namespace testing;

// Random weights in a real shape run, and take the memory that the type promises.
TEST(SyntheticModel, RunsInEveryType) {
  const int64_t numbers = 6 * (4 * 288 * 288 + 3 * 288 * 768) + 32000 * 288;
  struct Row {
    const char* type;
    double bits;  // per weight, at most
  };
  for (const Row& row :
       {Row{"float32", 32.1}, Row{"float16", 16.1}, Row{"bfloat16", 16.1}, Row{"int8", 8.3},
        Row{"fp8", 8.3}, Row{"q8_0", 8.6}, Row{"q4_0", 7.6}, Row{"q4_k_m", 7.9}}) {
    SCOPED_TRACE(row.type);
    const auto model = synthetic_model("stories15m", row.type);
    const double bits = 8.0 * static_cast<double>(model->bytes()) / static_cast<double>(numbers);
    EXPECT_LT(bits, row.bits);
    EXPECT_GT(bits, row.bits * 0.85);
    Sequences sequences(*model, {});
    const Tensor logits = sequences.feed({some_tokens(7, 32000)});
    EXPECT_EQ(logits.sizes(), (Shape{7, 32000}));
    EXPECT_TRUE(isfinite(logits).all().item<bool>());
    EXPECT_GT(logits.abs().max().item<double>(), 1e-3);
    // The same numbers every time.
    const auto again = synthetic_model("stories15m", row.type);
    EXPECT_TRUE(equal(Sequences(*again, {}).feed({some_tokens(7, 32000)}), logits));
  }
}

TEST(SyntheticModel, SaysWhatItDoesNotKnow) {
  EXPECT_TRUE(contains(error_of([] { synthetic_model("gpt9", "q8_0"); }), "known are stories15m"));
  EXPECT_TRUE(
      contains(error_of([] { synthetic_model("stories15m", "q9"); }), "no type of weights"));
  EXPECT_TRUE(contains(error_of([] { synthetic_model("stories15m", ""); }), "must be given"));
}

}  // namespace
}  // namespace tensora::llm
