#include "tensora/train/image_run.h"

#include <csignal>

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/train/run_history.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;
using testing::write_text;

std::string big_endian(uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

// Files in the format of MNIST: digit k is a bright row 2 k + 4 on noise.
void write_digits(const std::string& folder, const std::string& part, uint32_t count) {
  std::string images = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  std::string labels = big_endian(0x801) + big_endian(count);
  uint32_t state = count;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t pixel = 0; pixel < 28 * 28; ++pixel) {
      state = state * 1664525u + 1013904223u;
      images += pixel / 28 == 2 * (i % 10) + 4 ? '\xFF' : static_cast<char>(state >> 26);
    }
    labels += static_cast<char>(i % 10);
  }
  write_text(folder + "/" + part + "-images-idx3-ubyte", images);
  write_text(folder + "/" + part + "-labels-idx1-ubyte", labels);
}

ImageConfig config_for(const TemporaryFolder& folder) {
  return {.data = folder.path(),
          .model = "lenet",
          .epochs = 3,
          .batch = 20,
          .lr = 3e-3,
          .checkpoint_every = 4};
}

std::vector<double> curve(const std::string& folder, const std::string& name) {
  for (const Curve& one : read_run(folder).curves)
    if (one.name == name) return one.values;
  return {};
}

TEST(ImageRun, LearnsDigits) {
  TemporaryFolder folder;
  write_digits(folder.path(), "train", 200);
  write_digits(folder.path(), "t10k", 50);
  for (const char* model : {"mlp", "lenet"}) {
    ImageConfig config = config_for(folder);
    config.model = model;
    ImageRun run(config, {.folder = folder.path(std::string("run-") + model)});
    EXPECT_EQ(run.data().name, "MNIST");
    EXPECT_EQ(run.steps(), 30);
    const TrainerOutcome outcome = run.train();
    EXPECT_EQ(outcome.step, 30);
    EXPECT_GT(*outcome.validation, 0.9) << model;
  }
  EXPECT_EQ(curve(folder.path("run-mlp"), "accuracy/val").size(), 4u);
}

TEST(ImageRun, ResumesInTheMiddleOfAnEpoch) {
  TemporaryFolder folder;
  write_digits(folder.path(), "train", 200);
  write_digits(folder.path(), "t10k", 50);
  ImageConfig config = config_for(folder);
  config.model = "mlp";
  ImageRun(config, {.folder = folder.path("whole")}).train();
  {
    ImageConfig shorter = config;
    shorter.epochs = 3;
    // A checkpoint of step 24 remains, as after a crash at step 27.
    ImageRun run(shorter, {.folder = folder.path("cut")});
    run.train();
    for (const char* step : {"28", "30"})
      std::filesystem::remove(
          folder.path(std::string("cut/checkpoints/step-0000000000") + step + ".pt"));
  }
  ImageRun rest(config, {.folder = folder.path("cut"), .resume = true});
  rest.train();
  EXPECT_EQ(curve(folder.path("cut"), "loss/train"), curve(folder.path("whole"), "loss/train"));
}

TEST(ImageRun, BadDataIsNamed) {
  TemporaryFolder folder;
  const auto error = [&](const ImageConfig& config) {
    return error_of([&] { ImageRun(config, {.folder = folder.path("run")}); });
  };
  EXPECT_TRUE(contains(error({.data = folder.path("none")}), "none: is not a folder"));
  EXPECT_NE(error({.data = folder.path()}), "");
  EXPECT_TRUE(contains(error({.data = folder.path(), .model = "vgg"}), "there is no model 'vgg'"));
  EXPECT_TRUE(contains(error({.data = folder.path(), .epochs = 0}), "epochs must be at least 1"));
  EXPECT_TRUE(contains(error({.data = folder.path(), .clip_norm = -1}), "clip_norm must not be"));
  write_digits(folder.path(), "train", 3);
  EXPECT_NE(error({.data = folder.path()}), "");  // no test set
}

}  // namespace
}  // namespace tensora::train
