#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"

namespace tensora::cli {

/// How prompts are written and what happens where they do not fit: options of run and chat.
struct PromptFlags {
  std::string template_file, overflow = "refuse";
  std::vector<std::string> template_vars;  // NAME=VALUE
  int64_t keep = 0;
  bool shows_prompt = false;

  void add_to(CLI::App& app);
  bool changes_template() const { return !template_file.empty() || !template_vars.empty(); }
  /// The chat template's source; empty: the model's own.
  std::string template_source() const;
  /// Throws a UsageError for a mistake in the options: before a model is loaded for nothing.
  void validate() const;
  /// Sets what the options say.
  void apply(llm::Request& request) const;
  /// Writes the prompt to standard error as the model sees it, if that was asked for.
  void show(llm::FrameworkBackend& backend, const llm::Request& request) const;
};

/// Says on standard error which tokens were dropped, and that the context is full.
void tell_dropped(const llm::Completion& answer, int64_t context, const char* when_full = "");

}  // namespace tensora::cli
