#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "config_options.h"
#include "files.h"
#include "tensora/distributed/init.h"
#include "tensora/distributed/pipeline_ranks.h"
#include "tensora/distributed/training_ranks.h"
#include "tensora/train/language_run.h"
#include "tensora/train/number_text.h"

namespace tensora::cli {
namespace {

using train::LanguageConfig;

struct LmOptions {
  explicit LmOptions(CLI::App& app) : settings(app) {}
  ConfigOptions<LanguageConfig> settings;
  RunOptions run;
  std::string parallel = "none";
};

void print_summary(const train::LanguageRun& run) {
  const LanguageConfig& used = run.config();
  std::fprintf(stderr,
               "%s with %s parameters, %lld tokens of vocabulary; %s tokens to learn from (%s "
               "bytes each)\n",
               used.model.c_str(), train::figure_text(double(run.parameter_count())).c_str(),
               static_cast<long long>(used.vocab_size),
               train::figure_text(double(run.training_tokens())).c_str(),
               train::figure_text(run.bytes_per_token()).c_str());
}

void print_outcome(const train::TrainerOutcome& outcome, const std::string& out) {
  std::fprintf(stderr, "%s", loss_text(outcome).c_str());
  if (outcome.validation)
    std::fprintf(stderr, ", of held-out text %s", train::figure_text(*outcome.validation).c_str());
  std::fprintf(stderr, "; the model is in %s/model; look at the curves with: tensora plot %s\n",
               out.c_str(), out.c_str());
}

// What --parallel says: a ZeRO stage, or how many ranks have one model and how many models there
// are.
struct Layout {
  int zero_stage = 0;
  int tensor = 1;
  int pipeline = 0;  // 0: the layers are not divided
  std::string schedule = "1f1b";
  int data = 0;  // 0: what the number of ranks gives
  bool sequence = false;
};

Layout parse_layout(const std::string& text) {
  const auto wrong = [&] {
    return UsageError(
        "--parallel: expected dp, zero1, zero2, zero3, tp=N[,dp=M][,sp] or "
        "pp=N[,gpipe|,1f1b|,zero-bubble], got '" +
        text + "'");
  };
  if (text == "dp") return {};
  if (text == "zero1" || text == "zero2" || text == "zero3")
    return {.zero_stage = text.back() - '0'};
  Layout layout{.tensor = 0};
  const bool pipeline = text.starts_with("pp=");
  for (const std::string& part : split_list(text)) {
    int* const number = part.starts_with("tp=") && !pipeline   ? &layout.tensor
                        : part.starts_with("dp=") && !pipeline ? &layout.data
                        : part.starts_with("pp=") && pipeline  ? &layout.pipeline
                                                               : nullptr;
    if (!number && pipeline && (part == "gpipe" || part == "1f1b" || part == "zero-bubble")) {
      layout.schedule = part;
      continue;
    }
    if (!number && (part != "sp" || pipeline)) throw wrong();
    if (!number) {
      layout.sequence = true;
      continue;
    }
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data() + 3, end, *number);
    if (stop != end || error != std::errc() || *number < 1) throw wrong();
  }
  if (pipeline) layout.tensor = 1;
  if (layout.tensor < 1) throw wrong();
  return layout;
}

void check_layout(const Layout& layout, const ProcessGroup& world) {
  check(layout.pipeline == 0 || layout.pipeline == world.size(), "--parallel pp=", layout.pipeline,
        " needs ", layout.pipeline, " ranks, got ", world.size(),
        ": start the job with 'tensora launch -n ", layout.pipeline, "'");
  const int models = layout.data > 0 ? layout.data : std::max(1, world.size() / layout.tensor);
  check(layout.tensor * models == world.size(), "--parallel tp=", layout.tensor, ",dp=", models,
        " needs ", layout.tensor * models, " ranks, got ", world.size(),
        ": start the job with 'tensora launch -n ", layout.tensor * models, "'");
}

std::unique_ptr<train::Parallel> ranks_of(const Layout& layout) {
  if (layout.pipeline > 0) return std::make_unique<distributed::PipelineRanks>(layout.schedule);
  return std::make_unique<distributed::TrainingRanks>(
      distributed::DataParallelOptions{.zero_stage = layout.zero_stage},
      distributed::TensorRanks{.count = layout.tensor, .sequence_parallel = layout.sequence});
}

// On every rank of a job.
void train_on_ranks(LanguageConfig config, const LmOptions& options) {
  const Layout layout = parse_layout(options.parallel);
  train::TrainerOutcome outcome;
  bool first = true;
  std::string command = "tensora train lm --parallel " + options.parallel;
  const int status = distributed::run([&](ProcessGroup& world) {
    first = world.rank() == 0;
    if (world.size() > 1) command = concat("tensora launch -n ", world.size(), " -- ", command);
    check_layout(layout, world);
    const std::unique_ptr<train::Parallel> ranks = ranks_of(layout);
    if (config.device == "cuda") config.device += ":" + std::to_string(distributed::local_rank());
    train::LanguageRun run(
        config, {.folder = options.run.out, .resume = options.run.resume, .parallel = ranks.get()});
    if (first) print_summary(run);
    outcome = run.train();
  });
  if (status != 0) throw EndWith{status};
  if (outcome.interrupted && first) stop_interrupted(command, options.run, outcome);
  if (outcome.interrupted) throw EndWith{128 + outcome.signal};
  if (first) print_outcome(outcome, options.run.out);
}

void check_can_be_divided(const Layout& layout, const LanguageConfig& config) {
  const char* const by = layout.tensor > 1 ? "tp" : layout.pipeline > 0 ? "pp" : nullptr;
  if (by && config.model != "llama")
    throw UsageError(concat("--parallel ", by, ": only models of type llama can be divided, got ",
                            config.model));
  if (layout.pipeline > 0 && config.amp != "none")
    throw UsageError("--parallel pp: expected --amp none, got " + config.amp);
  if (layout.pipeline > 0 && config.find_nan)
    throw UsageError("--parallel pp: --find-nan needs the whole model on one rank");
}

void train_lm(const LmOptions& options) {
  const LanguageConfig config = configuration(options.settings, options.run);
  if (config.text.empty())
    throw UsageError(
        "--text is required: files to learn from ('tensora stories --out stories.txt' "
        "writes one)");
  const LanguageConfig resolved = as_usage([&] { return config.resolved(); });
  if (options.parallel != "none") check_can_be_divided(parse_layout(options.parallel), resolved);
  if (options.parallel != "none") return train_on_ranks(config, options);
  train::LanguageRun run(config, {.folder = options.run.out, .resume = options.run.resume});
  print_summary(run);
  const train::TrainerOutcome outcome = run.train();
  if (outcome.interrupted) stop_interrupted("tensora train lm", options.run, outcome);
  print_outcome(outcome, options.run.out);
}

}  // namespace

void add_train_lm(CLI::App& app) {
  CLI::App* command = app.add_subcommand("lm", "Train a language model on text files");
  auto options = std::make_shared<LmOptions>(*command);
  add_run_options(*command, options->run);
  command
      ->add_option("--parallel", options->parallel,
                   "Train on all ranks of a job that 'tensora launch' starts, with --batch "
                   "sequences on each: dp (data parallel), or ZeRO, which also divides the "
                   "optimizer's state (zero1), the gradients (zero2) and the parameters (zero3); "
                   "or tp=N,dp=M: N ranks have one model together (tensor parallel), and M such "
                   "models learn together; with ,sp also sequence parallel; or pp=N: N ranks have "
                   "some of the layers each, and the --grad-accum micro-batches of a step pass "
                   "through them (pipeline parallel; pp=N,gpipe or pp=N,zero-bubble for another "
                   "schedule than 1f1b)")
      ->capture_default_str();
  options->settings.option("preset")->check(CLI::IsMember(train::language_presets()));
  options->settings.option("amp")->check(CLI::IsMember({"none", "bf16", "f16"}));
  options->settings.option("model")->check(CLI::IsMember({"llama", "gpt2"}));
  command->footer(
      "A run keeps its settings (config.json), its tokenizer, its logs (metrics.csv, "
      "metrics.jsonl,\n"
      "an event file for TensorBoard), its checkpoints and, at the end, the model in the format "
      "of\n"
      "Hugging Face. Ctrl-C, SIGTERM and SIGHUP save a checkpoint and stop with the exit code 128 "
      "+ "
      "the\n"
      "signal's number (130 for Ctrl-C). A run that was stopped or killed and then resumed gives "
      "the "
      "same\n"
      "losses as one that was not, bit for bit.\n\n"
      "Examples:\n"
      "  tensora stories --out stories.txt\n"
      "  tensora train lm --text stories.txt --out run            a first model, on the CPU\n"
      "  tensora train lm --out run --resume                      go on after a stop\n"
      "  tensora train lm --out run --resume --steps 5000         and for longer\n"
      "  tensora train lm --text *.txt --preset small --device cuda --amp bf16 --out small\n"
      "  tensora train lm --text a.txt --preset gpt2 --device cuda --amp bf16 --batch 16 "
      "--grad-accum 4 "
      "--out gpt2\n"
      "  tensora train lm --text a.txt --width 192 --heads 6 --layers 8 --context 512 --out mine\n"
      "  tensora train lm --config run/config.json --seed 2 --out again\n"
      "  tensora launch -n 4 -- tensora train lm --text a.txt --out run --parallel zero1\n"
      "  tensora launch -n 4 -- tensora train lm --text a.txt --out run --parallel tp=2,dp=2\n"
      "  tensora launch -n 4 -- tensora train lm --text a.txt --out run --parallel pp=4 "
      "--grad-accum 16");
  command->callback([options] { train_lm(*options); });
}

}  // namespace tensora::cli
