#include "tensora/llm/resource_manager.h"

#include "../io/files.h"
#include "tensora/llm/benchmark.h"
#include "tensora/llm/gguf/gguf_writer.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;

ModelFile model(const TemporaryFolder& folder) {
  Metadata metadata;
  metadata.set("general.architecture", "llama");
  metadata.set("llama.context_length", 1 << 20);
  metadata.set("llama.embedding_length", 256);
  metadata.set("llama.block_count", 1);
  metadata.set("llama.feed_forward_length", 512);
  metadata.set("llama.attention.head_count", 4);
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
  write_gguf(folder / "a.gguf", metadata, StateDict{{"token_embd.weight", zeros({16384, 256})}});
  return ModelFile::open(folder / "a.gguf");
}

TEST(ResourceManager, SaysWhatDoesNotFit) {
  const TemporaryFolder folder;
  const ModelFile file = model(folder);
  const ResourceManager resources;
  EXPECT_EQ(resources.admit(file, {.memory = uint64_t{1} << 40}), "");
  // Weights that are read from the mapped file need not be in memory all at once ...
  const uint64_t little = 10 << 20;
  const std::string note = resources.admit(file, {.context = 64, .batch = 1, .memory = little});
  EXPECT_TRUE(contains(note, "read again and again")) << note;
  // ... those that are converted must, and so must keys and values.
  for (const MemoryPlanOptions& options :
       {MemoryPlanOptions{.context = 64, .batch = 1, .quantize = "float16", .memory = 1 << 20},
        MemoryPlanOptions{.context = 1 << 20, .memory = uint64_t{100} << 20}}) {
    const std::string error = error_of([&] { resources.admit(file, options); });
    for (const char* part :
         {"does not fit into the memory of cpu", "weights 0.0", "keys and values"})
      EXPECT_TRUE(contains(error, part)) << error;
  }
  const std::string error =
      error_of([&] { resources.admit(file, {.context = 1 << 20, .memory = uint64_t{900} << 20}); });
  EXPECT_TRUE(contains(error, "it would fit with --cache-type q8_0 or --context ")) << error;
}

TEST(ResourceManager, KnowsWhatRunningTook) {
  ResourceManager resources;
  resources.metrics().describe("native-cpu",
                               {.precision = "q8_0", .parameters = 1500, .bytes = 42});
  resources.metrics().set_loading(0.5);
  const Tensor some = ones({4 << 20});
  const BenchmarkResult result =
      result_of({.generate = 2}, {.total = {0.3}, .prompt = {0}, .steps = {0.1, 0.2}},
                resources.metrics().result());
  EXPECT_EQ(result.framework, "native-cpu");
  EXPECT_EQ(result.model_size, "1.50K");
  EXPECT_EQ(result.precision, "q8_0");
  EXPECT_EQ(result.model_loading_time, 0.5);
  EXPECT_EQ(result.iterations, 1);
  EXPECT_NEAR(result.max_token_time, 0.2, 1e-9);
  EXPECT_GT(result.peak_memory_gb, 0.01);
}

}  // namespace
}  // namespace tensora::llm
