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

 private:
  struct Given;
  std::shared_ptr<Given> given_;
};

}  // namespace tensora::cli
