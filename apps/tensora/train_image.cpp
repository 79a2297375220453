#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "config_options.h"
#include "files.h"
#include "tensora/train/image_run.h"
#include "tensora/train/number_text.h"

namespace tensora::cli {
namespace {

using train::ImageConfig;

struct ImageOptions {
  explicit ImageOptions(CLI::App& app) : settings(app) {}
  ConfigOptions<ImageConfig> settings;
  RunOptions run;
};

void train_image(const ImageOptions& options) {
  const ImageConfig config = configuration(options.settings, options.run);
  if (config.data.empty()) throw UsageError("--data is required: a folder of images");
  as_usage([&] { config.check_valid(); });
  const std::string& out = options.run.out;
  train::ImageRun run(config, {.folder = out, .resume = options.run.resume});
  std::fprintf(stderr,
               "%s with %s parameters; %s: %lld images in %zu classes to learn from, %lld to "
               "validate with; %lld steps\n",
               config.model.c_str(), train::figure_text(double(run.parameter_count())).c_str(),
               run.data().name.c_str(), static_cast<long long>(run.data().training->size()),
               run.data().classes.size(), static_cast<long long>(run.data().validation->size()),
               static_cast<long long>(run.steps()));
  const train::TrainerOutcome outcome = run.train();
  if (outcome.interrupted) stop_interrupted("tensora train image", options.run, outcome);
  std::fprintf(stderr, "%s", loss_text(outcome).c_str());
  if (outcome.validation)
    std::fprintf(stderr, ", %s %% of the other images right",
                 train::figure_text(100 * *outcome.validation).c_str());
  std::fprintf(stderr,
               "; the model is %s/model.safetensors; look at the curves with: tensora plot %s\n",
               out.c_str(), out.c_str());
}

}  // namespace

void add_train_image(CLI::App& app) {
  CLI::App* command = app.add_subcommand("image", "Train a classifier of images");
  auto options = std::make_shared<ImageOptions>(*command);
  add_run_options(*command, options->run);
  options->settings.option("model")->check(CLI::IsMember(train::image_models()));
  options->settings.option("amp")->check(CLI::IsMember({"none", "bf16", "f16"}));
  command->footer(
      "The kind of data is told by the folder: the four IDX files of MNIST or Fashion-MNIST "
      "(packed or\n"
      "not), the binary files of CIFAR-10, or PNG and JPEG files in one folder per class. The same "
      "run\n"
      "folder, Ctrl-C and --resume as with 'tensora train lm'.\n\n"
      "Examples:\n"
      "  tensora train image --data mnist --model lenet --epochs 3 --out digits\n"
      "  tensora train image --data cifar-10 --model resnet18 --device cuda --amp bf16 --epochs 30 "
      "--out "
      "cifar\n"
      "  tensora train image --data photos --image-size 128 --model resnet50 --workers 8 --out "
      "photos-run");
  command->callback([options] { train_image(*options); });
}

}  // namespace tensora::cli
