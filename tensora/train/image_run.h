#pragma once

#include <memory>

#include "tensora/data/dataset.h"
#include "tensora/train/image_config.h"
#include "tensora/train/trainer.h"

namespace tensora::data {
class DataLoader;
}

namespace tensora::train {

/// Images to learn from and to validate with.
struct ImageData {
  std::string name;  // MNIST, CIFAR-10 or images
  std::shared_ptr<data::Dataset> training, validation;
  std::vector<double> mean, std;  // by channel, of values from 0 to 1
  int64_t size = 0;               // height and width
  std::vector<std::string> classes;
};
/// What the folder holds; throws if it is neither of the kinds that ImageConfig describes.
ImageData open_images(const ImageConfig& config);

struct ImageRunOptions {
  std::string folder;
  bool resume = false;
};

/// A classifier of images that is trained, in the folder of a run: config.json, the logs,
/// checkpoints/ and, at the end, model.safetensors.
class ImageRun {
 public:
  ImageRun(const ImageConfig& config, ImageRunOptions options);
  ~ImageRun();

  TrainerOutcome train();
  /// {"accuracy/val", "loss/val"} of the images that are not trained on.
  Scalars validate() const;

  const ImageData& data() const { return data_; }
  int64_t parameter_count() const { return model_->parameter_count(); }
  int64_t steps() const { return steps_; }

 private:
  Tensor normalised(const Tensor& images) const;
  Tensor loss(int64_t step, int64_t part);

  ImageConfig config_;
  ImageRunOptions options_;
  Device device_;
  ImageData data_;
  std::shared_ptr<nn::Module> model_;
  std::unique_ptr<data::DataLoader> loader_;
  int64_t steps_ = 0;
  Tensor mean_, std_;  // 1 C 1 1
  // The batch of the last call, for a second look at it.
  std::pair<int64_t, int64_t> last_{-1, -1};
  data::Batch batch_;
};

}  // namespace tensora::train
