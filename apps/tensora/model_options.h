#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/embed.h"
#include "tensora/llm/resource_manager.h"

namespace tensora::cli {

/// Which model, where and how; the same for every command that runs one.
struct ModelOptions {
  std::string model;
  std::string framework = "native";
  std::string device = "auto";
  bool require_gpu = false;
  bool require = false;           // the first framework of the list, or an error
  double framework_seconds = 60;  // that the self-test of a framework may take in another process
  std::string level;              // optimization level; empty: the framework's best
  std::vector<std::string> framework_settings;  // KEY=VALUE
  std::string quantize;
  int shard = 1;  // ranks that the model is divided over
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
  std::string chat_template;  // Jinja source; empty: the model's own
};

/// Which framework, on which device.
void add_framework_options(CLI::App& app, ModelOptions& options);
/// These, and how the model is loaded.
void add_model_options(CLI::App& app, ModelOptions& options);
/// Those of a command that answers: the cache, the batch, speculation.
void add_engine_options(CLI::App& app, ModelOptions& options);

/// A backend of the first framework of the list that works and, where `prepare` is given, can load
/// the model by it; on the device that was asked for or the best one that works. Says on standard
/// error why another one was not taken, unless `quiet`. Sets the number of threads.
std::unique_ptr<llm::FrameworkBackend> choose_backend(
    const ModelOptions& options,
    const std::function<void(llm::FrameworkBackend&)>& prepare = nullptr);

/// What the options ask of a backend that runs `sequences` requests at once.
llm::BackendOptions backend_options(const ModelOptions& options, int64_t sequences = 1);

/// A model that a framework has loaded.
struct LoadedModel {
  std::shared_ptr<llm::ResourceManager> resources;  // outlives the model
  std::shared_ptr<llm::FrameworkBackend> backend;
  llm::ModelInfo info;
  double seconds = 0;  // that loading took
};
/// Loads a model for `sequences` requests at once, with a progress bar where that takes a while.
/// Without a backend, one is chosen.
LoadedModel load_model(const ModelOptions& options, bool with_tokenizer = true,
                       std::shared_ptr<llm::FrameworkBackend> backend = nullptr,
                       int64_t sequences = 1);

/// The pooling of embeddings: as named, or else the model's own, or else the mean.
llm::Pooling chosen_pooling(const std::string& name, const std::string& model);

/// The dtype of a name such as f16, q8_0 or bfloat16.
DType dtype_named(const std::string& name);

}  // namespace tensora::cli
