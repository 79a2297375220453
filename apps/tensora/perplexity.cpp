#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"
#include "model_options.h"
#include "tensora/llm/perplexity.h"
#include "tensora/train/progress_bar.h"

namespace tensora::cli {
namespace {

struct PerplexitySettings {
  ModelOptions model;
  std::string file;
  int64_t context = 512, stride = 0, batch = 512;
  bool json = false;
  const CLI::Option* context_option = nullptr;
};

void run_perplexity(const PerplexitySettings& settings) {
  const std::string text = read_file(settings.file);
  const LoadedModel loaded = load_model(settings.model);
  const llm::TokenizerPtr tokenizer = loaded.backend->tokenizer();
  const std::vector<int32_t> tokens = tokenizer->encode(text);
  int64_t context = settings.context;
  const int64_t positions = loaded.info.positions;
  if (settings.context_option->count() == 0 && positions > 0)
    context = std::min(context, positions);
  llm::SessionOptions session{.context = context, .max_batch_tokens = settings.batch};
  if (!settings.model.cache_type.empty())
    session.cache_dtype = dtype_named(settings.model.cache_type);
  llm::PerplexityOptions options{.stride = settings.stride};
  if (tokenizer->adds_bos()) options.bos = tokenizer->bos();
  std::unique_ptr<train::ProgressBar> bar;
  options.progress = [&](int64_t done, int64_t total, double value) {
    if (settings.model.quiet || settings.json) return;
    if (!bar)
      bar = std::make_unique<train::ProgressBar>(
          total, train::ProgressBarOptions{.title = "perplexity", .unit = "window"});
    bar->set("ppl", value);
    bar->update(done);
  };
  const auto sequences = loaded.backend->open_sequences(session);
  const llm::PerplexityResult result = llm::perplexity(*sequences, tokens, options);
  bar.reset();
  if (!settings.json) {
    std::printf("perplexity %.4f +- %.4f over %lld tokens, %.4f bits per token, %.4f per byte\n",
                result.perplexity, result.error, static_cast<long long>(result.tokens),
                result.bits_per_token,
                result.bits_per_token * static_cast<double>(tokens.size()) /
                    static_cast<double>(text.size()));
    return;
  }
  const nlohmann::ordered_json out = {{"model", loaded.info.summary.name},
                                      {"perplexity", result.perplexity},
                                      {"error", result.error},
                                      {"bits_per_token", result.bits_per_token},
                                      {"tokens", result.tokens},
                                      {"context", context},
                                      {"stride", settings.stride}};
  std::printf("%s\n", out.dump().c_str());
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand("perplexity", "Compute the perplexity of a text");
  auto settings = std::make_shared<PerplexitySettings>();
  command->add_option("model,-m,--model", settings->model.model, "A GGUF file, a folder or a name")
      ->required()
      ->type_name("MODEL");
  command->add_option("-f,--file", settings->file, "The text; -: standard input")->required();
  settings->context_option =
      command
          ->add_option("-c,--context", settings->context,
                       "Context size (tokens of a window); at most the model's positions")
          ->check(CLI::Range(int64_t{2}, int64_t{1} << 24))
          ->capture_default_str();
  command
      ->add_option(
          "--stride", settings->stride,
          "Stride between windows, in tokens, of which the new tokens count. 0: windows do "
          "not overlap, and the second half of each counts")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("-b,--batch", settings->batch, "Batch size, in tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--cache-type", settings->model.cache_type,
                      "KV-cache data type: f32, f16, bf16, q8_0, fp8");
  command->add_flag("--json", settings->json, "Print a JSON object");
  command->add_flag("-q,--quiet", settings->model.quiet, "No progress bar");
  add_model_options(*command, settings->model);
  command->footer(
      "Lower is better: the exponential of the mean negative log-likelihood per token. Compare "
      "only models with the same\n"
      "tokenizer, or compare the bits per byte. Without --stride the figure is "
      "llama-perplexity's.\n\n"
      "Examples:\n"
      "  tensora perplexity model.gguf -f wiki.test.raw\n"
      "  tensora perplexity model.gguf -f wiki.test.raw --quantize q4_k_m    what quantizing "
      "costs");
  command->callback([settings] { run_perplexity(*settings); });
}

}  // namespace tensora::cli
