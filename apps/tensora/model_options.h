#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tensora/llm/backends/native_backend.h"
#include "tensora/llm/resource_manager.h"

namespace tensora::cli {

/// Which model, where and how; the same for every command that runs one.
struct ModelOptions {
  std::string model;
  std::string device = "auto";
  bool require_gpu = false;
  std::string quantize;
  int threads = 0;
  int64_t context = 0;
  std::string cache_type;
  int64_t batch = 512;
  bool batch_invariant = false;
  int64_t steps_at_once = 0;
  bool quiet = false;
  bool shares_prefixes = true;
  int64_t draft_tokens = 0;
  std::string draft_model;
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// Those of a command that answers: the cache, the batch, speculation.
void add_engine_options(CLI::App& app, ModelOptions& options);

/// The device that was asked for, or the best one that works; says on standard error why another
/// one was not taken, unless `quiet`. Sets the number of threads.
Device choose_device(const ModelOptions& options);

/// Reads a model, with a progress bar where that takes a while.
struct LoadedModel {
  std::shared_ptr<llm::ResourceManager> resources;  // outlives the model
  std::shared_ptr<const llm::Model> model;
  llm::TokenizerPtr tokenizer;  // null if not asked for
  std::optional<llm::ChatTemplate> chat;
  llm::ModelSummary summary;
  std::string framework;  // "native-cpu"
  double seconds = 0;     // that loading took
};
LoadedModel load_model(const ModelOptions& options, bool with_tokenizer = true);

/// An engine for `sequences` requests at once.
std::unique_ptr<llm::Engine> make_engine(const LoadedModel& loaded, const ModelOptions& options,
                                         int64_t sequences = 1);

/// The dtype of a name such as f16, q8_0 or bfloat16.
DType dtype_named(const std::string& name);

}  // namespace tensora::cli
