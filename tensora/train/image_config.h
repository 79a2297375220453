#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::train {

/// Everything that determines a run of image classification. A run keeps it in config.json.
struct ImageConfig {
  std::string data = "";
  std::string model = "resnet18";  // mlp, lenet, resnet18, resnet34 or resnet50
  int64_t image_size = 64;         // of a folder of images; MNIST and CIFAR-10 have their own
  bool augment = true;             // random crops and flips; not for digits

  std::string device = "cpu";
  std::string amp = "none";  // none, bf16 or f16
  int64_t epochs = 5, batch = 64, grad_accum = 1;
  double lr = 1e-3, weight_decay = 0.01, clip_norm = 1;
  int64_t warmup = 100;
  int64_t workers = 1;
  uint64_t seed = 1;

  double validation = 0.1;  // of a folder that has no part of its own for it
  int64_t checkpoint_every = 500, keep_checkpoints = 3;
  bool find_nan = false;

  /// What a resumed run cannot change.
  static constexpr const char* fixed[] = {"model", "image_size"};

  /// Calls visit(name, member, help) for every setting, as LanguageConfig::fields does.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(
        "data", self.data,
        "A folder: the files of MNIST or CIFAR-10 (binary), or images in a folder for each class, "
        "perhaps below train/ and val/");
    visit("model", self.model, "Network architecture");
    visit("image_size", self.image_size, "Height and width that images of a folder are resized to");
    visit("augment", self.augment, "Random crops and flips of coloured images in training");
    visit("device", self.device, "cpu, cuda, cuda:1");
    visit("amp", self.amp, "Mixed precision: bf16 or f16; none: float32");
    visit("epochs", self.epochs, "Number of epochs");
    visit("batch", self.batch, "Micro-batch size in images");
    visit("grad_accum", self.grad_accum, "Gradient accumulation: micro-batches per optimizer step");
    visit("lr", self.lr, "Peak learning rate");
    visit("weight_decay", self.weight_decay, "Weight decay of matrices (AdamW)");
    visit("clip_norm", self.clip_norm, "Clip the gradient norm to this. 0: off");
    visit("warmup", self.warmup, "Warmup steps of the learning rate");
    visit("workers", self.workers, "Data-loader threads, which read and augment images ahead");
    visit("seed", self.seed, "Random seed of weights, image order and augmentation");
    visit("validation", self.validation, "Validation share of a folder without val/");
    visit("checkpoint_every", self.checkpoint_every, "Steps between checkpoints");
    visit("keep_checkpoints", self.keep_checkpoints,
          "Number of checkpoints to keep besides the best. 0: all");
    visit("find_nan", self.find_nan,
          "Check the loss of every step; where it is not finite, name the op that made it so");
  }

  /// Throws if something is unknown or out of range.
  void check_valid() const;
  std::string to_json() const;
};

std::vector<std::string> image_models();

}  // namespace tensora::train
