// Requests that end while their prompts are read.
#include <chrono>
#include <thread>

#include "../helpers.h"
#include "random_weights.h"
#include "tensora/llm/engine.h"

namespace tensora::llm {
namespace {

// Cancelled while its prompt is read, a request does not wait for the end of the batch.
TEST(EnginePrefill, IsGivenUpHalfWay) {
  Metadata metadata = testing::small_metadata("llama");
  metadata.set("llama.context_length", 4096);
  metadata.set("llama.block_count", 48);
  testing::RandomWeights weights;
  const auto model = testing::make_model(testing::checked_config(metadata), weights);
  Engine engine({.model = model}, {.max_sequences = 1, .max_batch_tokens = 1024});
  const Request request{
      .tokens = std::vector<int32_t>(1024, 3), .max_tokens = 1, .reuse_prefix = false};
  engine.generate(request);  // warms up
  const double whole = engine.generate(request).timings.total;
  for (const bool by_deadline : {false, true}) {
    Request early = request;
    if (by_deadline) early.deadline = whole / 8;
    Generation generation = engine.submit(early);
    if (!by_deadline) {
      std::this_thread::sleep_for(std::chrono::duration<double>(whole / 8));
      generation.cancel();
    }
    // A batch that was read to its end would have given the one token that was asked for.
    EXPECT_EQ(generation.wait().reason,
              by_deadline ? FinishReason::deadline : FinishReason::cancelled);
  }
  // The next request is not touched by that.
  EXPECT_EQ(engine.generate(request).usage.completion_tokens, 1);
}

}  // namespace
}  // namespace tensora::llm
