#include "tests/distributed/ranks_training.h"

#include <bit>

#include "tensora/core/determinism.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/tensor_parallel.h"
#include "tensora/models/llama.h"
#include "tensora/optim/adamw.h"
#include "tensora/tensora.h"

namespace tensora::testing {
namespace {

models::LLaMA make_model() {
  manual_seed(7);
  return models::LLaMA(models::LLaMAConfig{.vocab_size = 31,
                                           .hidden_size = 24,
                                           .intermediate_size = 40,
                                           .num_hidden_layers = 2,
                                           .num_attention_heads = 4,
                                           .num_key_value_heads = 2,
                                           .max_position_embeddings = 16});
}

// The loss of micro-batch `index`, which depends on the index alone.
Tensor loss_of(models::LLaMA& model, int64_t index) {
  Generator own(static_cast<uint64_t>(1000 + index));
  const GeneratorScope scope(own);
  const Tensor tokens = randint(0, 31, {2, 9}, {.dtype = kInt64});
  return model(tokens.narrow(1, 0, 8).contiguous(), tokens.narrow(1, 1, 8).contiguous());
}

std::string hash_of(const std::vector<Tensor>& tensors) {
  uint64_t hash = 1469598103934665603U;  // FNV-1a
  for (const Tensor& tensor : tensors)
    for (const float value : to_vector<float>(tensor.detach()))
      hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211U;
  return concat(hash);
}

std::string train_with_stage(ProcessGroup& world, int stage) {
  models::LLaMA model = make_model();
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  distributed::DataParallel parallel(model, {.zero_stage = stage});
  parallel.shard(optimizer);
  for (int64_t step = 0; step < 6; ++step) {
    loss_of(model, step * world.size() + world.rank()).backward();
    parallel.clip_grad_norm_(0.5);
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = parallel.whole_parameters();
  return concat("stage ", stage, ": ", hash_of(model.parameters()), "\n");
}

std::string train_divided() {
  models::LLaMA model = make_model();
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  auto parallel = distributed::shard_model(model);
  for (int64_t step = 0; step < 6; ++step) {
    loss_of(model, step).backward();
    parallel.clip_grad_norm_(0.5);
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<Tensor> whole;
  for (const auto& [name, value] : parallel.whole_state_dict()) whole.push_back(value);
  return concat("tensor parallel: ", hash_of(whole), "\n");
}

}  // namespace

std::string train_all_ways(ProcessGroup& world) {
  const DeterministicScope exact(true);
  std::string text;
  for (const int stage : {0, 1, 2, 3}) append(text, train_with_stage(world, stage));
  return text + train_divided();
}

}  // namespace tensora::testing
