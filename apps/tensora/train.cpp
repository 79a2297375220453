#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "config_options.h"
#include "tensora/base/check.h"
#include "tensora/base/settings.h"
#include "tensora/train/number_text.h"

namespace tensora::cli {

void add_train(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model: of text (lm) or of images (image)");
  command->require_subcommand(1);
  add_train_lm(*command);
  add_train_image(*command);
  command->footer(
      "Examples:\n"
      "  tensora train lm --text stories.txt --out run\n"
      "  tensora train image --data mnist --model lenet --out digits\n"
      "  tensora train lm --help                      presets, settings, resuming");
}

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--out", options.out, "The folder of the run")->required();
  // 'tensora launch --restarts' gives the words of the first attempt to every further one.
  options.resume = number_setting("TENSORA_RESTART", 0, int64_t{1} << 31, 0) > 0;
  app.add_flag("--resume", options.resume,
               "Continue from the newest checkpoint in --out, or start if there is none. Other "
               "options change the run's settings; the model and the tokenizer cannot change");
  app.add_option("--config", options.config,
                 "A JSON file of settings, such as the config.json of another run");
}

void check_folder(const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path folder = fs::absolute(out, ignored);
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  check(fs::is_directory(folder, ignored), out, ": cannot be created: ", folder.string(),
        " is not a folder");
  const bool is_writable = access(folder.c_str(), W_OK) == 0;
  check(is_writable, out, ": cannot be written to: ", std::strerror(errno));
}

void stop_interrupted(const std::string& command, const RunOptions& options,
                      const train::TrainerOutcome& outcome) {
  std::fprintf(stderr, "stopped after step %lld; continue with: %s --out %s --resume\n",
               static_cast<long long>(outcome.step), command.c_str(), options.out.c_str());
  throw Interrupted(outcome.signal);
}

std::string loss_text(const train::TrainerOutcome& outcome) {
  if (std::isnan(outcome.loss)) return "no step was left to do";
  return "loss " + train::figure_text(outcome.loss);
}

}  // namespace tensora::cli
