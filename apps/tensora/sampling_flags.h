#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "tensora/llm/sampling/sampling_options.h"

namespace tensora::cli {

/// The options of a command by which tokens are chosen.
class SamplingFlags {
 public:
  explicit SamplingFlags(CLI::App& app);
  /// What was given; files of grammars and schemas have been read.
  llm::SamplingOptions options() const;
  /// Whether the seed was given as -1: then the user wants to know which one was drawn.
  bool asks_for_random_seed() const;

 private:
  struct Given;
  std::shared_ptr<Given> given_;
};

}  // namespace tensora::cli
