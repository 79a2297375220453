#pragma once

#include <memory>
#include <optional>

#include "tensora/llm/tokenizer/bpe_tokenizer.h"
#include "tensora/models/generate.h"
#include "tensora/train/language_config.h"
#include "tensora/train/token_windows.h"
#include "tensora/train/trainer.h"

namespace tensora::train {

struct LanguageRunOptions {
  std::string folder;
  bool resume = false;
  /// What the model learns from, instead of the files of the configuration.
  std::string text = "";
  /// The ranks that train together; null: this process alone. The settings' batch is that of a
  /// rank.
  Parallel* parallel = nullptr;
};

/// A language model that is trained on text, in the folder of a run: config.json, tokenizer.json,
/// the logs, checkpoints/, and at the end model/, which Hugging Face's programs can read.
class LanguageRun {
 public:
  /// Reads the text, learns or loads the tokenizer and makes the model. Nothing is written yet.
  LanguageRun(const LanguageConfig& config, LanguageRunOptions options);
  ~LanguageRun();

  TrainerOutcome train();
  /// What the model writes after the prompt, as valid UTF-8; ends where the model ends it.
  std::string write(std::string_view prompt, const models::GenerateOptions& options) const;
  /// The mean loss over the text that is not trained on; none if there is no such text.
  std::optional<double> validation_loss() const;

  const LanguageConfig& config() const { return config_; }
  const llm::BpeTokenizer& tokenizer() const { return tokenizer_; }
  int64_t parameter_count() const;
  int64_t training_tokens() const { return training_->size(); }
  /// Bytes of text per token.
  double bytes_per_token() const { return bytes_per_token_; }

 private:
  class Network;
  llm::BpeTokenizer make_tokenizer(std::string_view text) const;
  Tensor loss(const TokenWindows::Pair& pair) const;
  void pin_text(std::string_view text);
  void start();
  void write_model() const;

  LanguageConfig config_;
  LanguageRunOptions options_;
  llm::BpeTokenizer tokenizer_;
  std::unique_ptr<TokenWindows> training_, validation_;
  double bytes_per_token_ = 1;
  Device device_;
  std::unique_ptr<Network> network_;
};

}  // namespace tensora::train
