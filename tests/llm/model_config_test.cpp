#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "../helpers.h"
#include "../temporary_folder.h"
#include "random_weights.h"
#include "tensora/llm/registry.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;
using namespace testing;

// Numbers that no model has are refused, and the message says which.
TEST(ModelConfig, RefusesHostileNumbers) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  struct Row {
    const char* key;
    MetadataValue value;
    const char* says;
  };
  const auto integer = [](int64_t number) { return MetadataValue(number, MetadataType::int64); };
  const auto number = [](double value) { return MetadataValue(value, MetadataType::float64); };
  const Row rows[] = {
      {"block_count", integer(0), "number of layers must be in [1, 512], got 0"},
      {"block_count", integer(-1), "number of layers"},
      {"block_count", integer(huge), "number of layers"},
      {"block_count", number(2), "block_count"},
      {"embedding_length", integer(0), "heads must not be empty"},
      {"embedding_length", integer(huge), "hidden size"},
      {"feed_forward_length", integer(-5), "feed-forward"},
      {"context_length", integer(0), "context length"},
      {"context_length", integer(huge), "context length"},
      {"attention.head_count", integer(0), "head_count must be positive"},
      {"attention.head_count", integer(huge), "heads must not be empty"},
      {"attention.head_count", integer(5), "5 heads cannot share 2"},
      {"attention.head_count_kv", integer(0), "key heads"},
      {"attention.head_count_kv", integer(3), "4 heads cannot share 3 key heads evenly"},
      {"attention.head_count_kv", integer(8), "key heads must be in [1, 4], got 8"},
      {"attention.key_length", integer(huge), "size of a head"},
      {"attention.value_length", integer(8), "one size"},
      {"attention.layer_norm_rms_epsilon", number(0), "epsilon"},
      {"attention.layer_norm_rms_epsilon", number(nan), "epsilon"},
      {"attention.scale", number(nan), "scale of attention"},
      {"attention.sliding_window", integer(-1), "window"},
      {"attn_logit_softcapping", number(-1), "soft cap of attention"},
      {"final_logit_softcapping", number(nan), "soft cap of the logits"},
      {"rope.freq_base", number(0), "base of the rotary frequencies"},
      {"rope.freq_base", number(HUGE_VAL), "base of the rotary frequencies"},
      {"rope.dimension_count", integer(7), "even"},
      {"rope.dimension_count", integer(1024), "rotary size"},
      {"rope.scaling.factor", number(nan), "factor"},
      {"rope.scaling.type", MetadataValue(std::string("bent")), "'bent'"},
      {"rope.scaling.type", MetadataValue(std::string("longrope")), "longrope needs"},
      {"expert_count", integer(-3), "number of experts"},
      {"expert_count", integer(8), "between 1 and all must be used, got 0"},
      {"vocab_size", integer(huge), "vocabulary"},
      {"vocab_size", integer(0), "vocabulary"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.key) + " = " + row.value.to_string());
    Metadata data = small_metadata("llama");
    data.set("llama." + std::string(row.key), row.value);
    const std::string error = error_of([&] { checked_config(data); });
    EXPECT_TRUE(contains(error, row.says)) << error;
  }
}

TEST(ModelConfig, SaysWhatIsMissing) {
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    Metadata data = small_metadata("llama");
    data.erase("llama." + std::string(key));
    EXPECT_TRUE(contains(error_of([&] { checked_config(data); }), key)) << key;
  }
  EXPECT_TRUE(contains(error_of([] { checked_config({}); }), "general.architecture"));
}

TEST(ModelConfig, RefusesAttentionThatIsNotCausal) {
  Metadata data = small_metadata("llama");
  data.set("llama.attention.causal", true);
  EXPECT_EQ(checked_config(data).kv_heads, 2);
  data.set("llama.attention.causal", false);
  EXPECT_TRUE(contains(error_of([&] { checked_config(data); }), "only causal attention"));
}

TEST(ModelConfig, ListsTheArchitecturesForAnUnknownOne) {
  const std::string error = error_of([] { checked_config(small_metadata("llamb")); });
  EXPECT_TRUE(contains(error, "'llamb' is not known; known are gemma, gemma2, gemma3, llama"))
      << error;
}

TEST(ModelConfig, NumbersPerLayerMustAgree) {
  Metadata data = small_metadata("llama");
  data.set("llama.attention.head_count_kv", std::vector<int64_t>{2, 2});
  EXPECT_EQ(checked_config(data).kv_heads, 2);
  data.set("llama.attention.head_count_kv", std::vector<int64_t>{2, 4});
  EXPECT_TRUE(
      contains(error_of([&] { checked_config(data); }), "differs between layers (2 and 4)"));
}

TEST(ModelConfig, LocalLayers) {
  Metadata data = small_metadata("gemma3");
  data.set("gemma3.attention.sliding_window", 512);
  const ModelConfig config = checked_config(data);
  std::vector<int64_t> global;
  for (int64_t i = 0; i < 13; ++i)
    if (!config.is_local(i)) global.push_back(i);
  EXPECT_EQ(global, (std::vector<int64_t>{5, 11}));
  EXPECT_EQ(config.embedding_scale, 8);
  EXPECT_EQ(config.local_rope_base, 10000);
  EXPECT_FALSE(checked_config(small_metadata("llama")).is_local(0));
  // Or a list of which are local, in any order.
  data.set("gemma3.attention.sliding_window_pattern", std::vector<int64_t>{0, 1});
  const ModelConfig listed = checked_config(data);
  EXPECT_FALSE(listed.is_local(0));
  EXPECT_TRUE(listed.is_local(1));
  data.set("gemma3.attention.sliding_window_pattern", std::vector<int64_t>{1});
  EXPECT_TRUE(contains(error_of([&] { checked_config(data); }), "1 entries for 2 layers"));
}

TEST(PagedCache, IsAsLargeAsItSays) {
  const ModelConfig config = checked_config(small_metadata("llama"));
  for (DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat8E4M3}) {
    const PagedCache cache = PagedCache::make(config, 3, 16, dtype, {});
    EXPECT_EQ(cache.bytes(), 3 * PagedCache::bytes_per_block(config, 16, dtype));
    EXPECT_EQ(cache.keys[1].sizes(), (Shape{3, 2, 16, 16}));
  }
  EXPECT_TRUE(contains(error_of([&] { PagedCache::make(config, 1, 16, kQ8_0, {}); }),
                       "blocks of 32 numbers"));
  EXPECT_TRUE(contains(error_of([&] { PagedCache::make(config, 1, 16, kInt8, {}); }), "got int8"));
  EXPECT_TRUE(
      contains(error_of([&] { PagedCache::make(config, int64_t{1} << 60, 16, kFloat16, {}); }),
               "fewer than 2^40"));
}

TEST(Registry, EveryEntryIsAModel) {
  for (const RegistryEntry& entry : registry()) {
    SCOPED_TRACE(entry.name);
    const ModelConfig config = entry.config();
    EXPECT_EQ(config.hidden_size, entry.sizes.hidden_size);
    EXPECT_EQ(config.vocab_size, entry.sizes.vocab_size);
  }
  // The numbers that the models' makers state.
  struct Row {
    const char* name;
    int64_t parameters;
  };
  for (const Row& row :
       {Row{"llama3-1b", 1235814400}, Row{"llama3-3b", 3212749824}, Row{"llama3-8b", 8030261248},
        Row{"llama3-70b", 70553706496}, Row{"tinyllama", 1100048384},
        Row{"mixtral-8x7b", 46702792704}, Row{"smollm", 134515008}, Row{"mistral-7b", 7248023552}})
    EXPECT_EQ(find_registered(row.name).parameters(), row.parameters) << row.name;
}

TEST(Registry, ListsWhatItKnows) {
  for (const std::string& error :
       {error_of([] { find_registered("llama9"); }), error_of([] { resolve_model("llama9"); })}) {
    EXPECT_TRUE(contains(error, "llama9")) << error;
    EXPECT_TRUE(contains(error, "llama3-1b, llama3-3b, llama3-8b, llama3-70b")) << error;
  }
}

TEST(Registry, TakesTheFolderOfATrainingRun) {
  const tensora::testing::TemporaryFolder folder;
  const std::filesystem::path run = folder.path("run");
  std::filesystem::create_directories(run / "model");
  for (const char* name : {"config.json", "metrics.jsonl", "model/config.json"})
    std::ofstream(run / name) << "{}";
  EXPECT_EQ(resolve_model(run.string()), (run / "model").string());
  std::filesystem::remove(run / "metrics.jsonl");  // now it is a folder like any other
  EXPECT_EQ(resolve_model(run.string()), run.string());
}

}  // namespace
}  // namespace tensora::llm
