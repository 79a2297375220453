#include "tensora/distributed/sharded_model.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/distributed/rank_threads.h"
#include "tensora/llm/architecture.h"
#include "tensora/llm/file_weights.h"
#include "tensora/llm/model_shard.h"
#include "tensora/llm/registry.h"
#include "tensora/llm/synthetic_weights.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using llm::Batch;
using llm::ModelConfig;
using llm::ModelShard;
using llm::PagedCache;

void check_ranks(int ranks) {
  check_as<ValueError>(ranks >= 1 && ranks <= 1024, "shard: expected 1 to 1024 ranks, got ", ranks);
}

// The model's numbers as the engine sees them: those of the whole model, with a cache in parts.
ModelConfig divided(ModelConfig config, const llm::WeightSource& weights, int ranks) {
  std::vector<int64_t> heads;
  for (int rank = 0; rank < ranks; ++rank)
    heads.push_back(ModelShard::make(config, weights, ranks, rank).heads.kv_slots());
  config.kv_heads_by_rank = std::move(heads);
  return config;
}

class ShardedModel final : public llm::Model {
 public:
  ShardedModel(const ModelConfig& config, llm::WeightSource& weights, int ranks)
      : Model(divided(config, weights, ranks), weights.device()),
        threads_(std::make_unique<RankThreads>(ranks)),
        parts_(static_cast<size_t>(ranks)) {
    const llm::Architecture& architecture = llm::find_architecture(config.architecture);
    llm::SharedWeights shared(weights, ranks);
    threads_->run([&](ProcessGroup& world) {
      ModelShard shard = ModelShard::make(config, shared, world.size(), world.rank());
      shard.group = tensora::world();
      const ModelConfig local = shard.local(config);
      llm::ShardedWeights own(shared, config, std::move(shard));
      parts_[place(world)] = architecture.make(local, architecture.design, own);
    });
  }

  Tensor forward(const Batch& batch, PagedCache& cache) const override {
    const inference_mode silent;
    std::vector<Tensor> logits(parts_.size());
    run(batch, cache, [&](const Model& part, const Batch& own, PagedCache& local, size_t rank) {
      logits[rank] = part.forward(own, local);
    });
    return parts_.size() == 1 ? logits[0] : cat(logits, 1);
  }
  Tensor hidden(const Batch& batch, PagedCache& cache) const override {
    std::vector<Tensor> states(parts_.size());
    run(batch, cache, [&](const Model& part, const Batch& own, PagedCache& local, size_t rank) {
      states[rank] = part.hidden(own, local);
    });
    return states[0];  // all have the same
  }
  int64_t bytes() const override {
    int64_t sum = 0;
    for (const auto& part : parts_) sum += part->bytes();
    return sum;
  }
  int64_t positions() const override { return parts_[0]->positions(); }

 private:
  static size_t place(const ProcessGroup& world) { return static_cast<size_t>(world.rank()); }

  // What a batch can be wrong in is checked here: the error of one rank would end them all.
  void check_batch(const Batch& batch, const PagedCache& cache) const {
    check(batch.adapters.empty(), "shard: LoRA adapters are not supported by a divided model");
    const size_t tensors = static_cast<size_t>(config().layers) * parts_.size();
    check(cache.keys.size() == tensors && cache.values.size() == tensors,
          "model: the cache must have ", config().layers, " layers for ", parts_.size(),
          " ranks, got ", cache.keys.size(), " tensors");
    check(batch.max_length <= positions(), "model: it was loaded for ", positions(),
          " positions, but a sequence of the batch may have ", batch.max_length);
    batch.check_wanted();
  }

  template <class Body>
  void run(const Batch& batch, PagedCache& cache, const Body& body) const {
    check_batch(batch, cache);
    Batch own = batch;
    own.is_abandoned = nullptr;  // a rank that gave up alone would leave the others waiting
    threads_->run([&](ProcessGroup& world) {
      const InlineLoops one_thread;
      const size_t rank = place(world);
      PagedCache local = cache.part(rank, parts_.size());
      body(*parts_[rank], own, local, rank);
    });
  }

  std::unique_ptr<RankThreads> threads_;
  std::vector<std::shared_ptr<const llm::Model>> parts_;
};

}  // namespace

std::shared_ptr<const llm::Model> make_sharded_model(const ModelConfig& config,
                                                     llm::WeightSource& weights, int ranks) {
  check_ranks(ranks);
  check_as<ValueError>(weights.device().is_cpu(),
                       "shard: ranks in one process compute on the CPU, ", "got device ",
                       weights.device());
  return std::make_shared<const ShardedModel>(config, weights, ranks);
}

std::shared_ptr<const llm::Model> load_sharded_model(const llm::ModelFile& file,
                                                     const llm::LoadOptions& options, int ranks) {
  const ModelConfig config = ModelConfig::from(file);
  llm::FileWeights weights(file, config, options);
  auto model = make_sharded_model(config, weights, ranks);
  weights.check_nothing_is_left();
  return model;
}

std::shared_ptr<const llm::Model> synthetic_sharded_model(std::string_view name,
                                                          std::string_view type, int ranks,
                                                          int64_t positions) {
  const llm::RegistryEntry& entry = llm::find_registered(name);
  const ModelConfig config = entry.config();
  llm::SyntheticWeights weights(
      config, llm::WeightType(type), Device(),
      {.tied = entry.details.tied, .fused = entry.architecture == "phi3", .positions = positions});
  return make_sharded_model(config, weights, ranks);
}

ShardedBackend::ShardedBackend(int ranks) : EngineBackend(Device()), ranks_(ranks) {
  check_ranks(ranks);
}

std::string ShardedBackend::name() const { return concat("native-shard", ranks_); }

std::shared_ptr<const llm::Model> ShardedBackend::make_model(
    const llm::ModelFile& file, const llm::LoadOptions& options) const {
  return load_sharded_model(file, options, ranks_);
}

void ShardedBackend::load_synthetic(const std::string& shape, const std::string& type,
                                    const llm::BackendOptions& options) {
  cleanup();
  check_options(options);
  auto model = synthetic_sharded_model(shape, type, ranks_, options.engine.context);
  llm::ModelSummary summary = summary_of(shape, type, *model);
  use_model(std::move(model), std::move(summary), options);
}

}  // namespace tensora::distributed
