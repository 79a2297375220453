#include <filesystem>
#include <system_error>

#include "tensora/data/image_folder.h"
#include "tensora/data/labeled_images.h"
#include "tensora/data/transforms.h"
#include "tensora/train/image_run.h"

namespace tensora::train {
namespace {

namespace fs = std::filesystem;

bool has_any(const fs::path& root, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names)
    if (fs::exists(root / name, ignored)) return true;
  return false;
}

std::vector<std::string> digits() {
  std::vector<std::string> out;
  for (int i = 0; i < 10; ++i) out.push_back(concat(i));
  return out;
}

ImageData open_mnist(const ImageConfig& config) {
  return {"MNIST",
          std::make_shared<data::MNIST>(config.data),
          std::make_shared<data::MNIST>(config.data, data::ImageDatasetOptions{.train = false}),
          {0.1307},
          {0.3081},
          28,
          digits()};
}

ImageData open_cifar10(const ImageConfig& config) {
  data::Transform transform;
  if (config.augment)
    transform = data::Compose({data::RandomCrop(32, {.padding = 4}), data::RandomHorizontalFlip{},
                               data::ConvertImageDtype{}});
  return {
      "CIFAR-10",
      std::make_shared<data::CIFAR10>(config.data,
                                      data::ImageDatasetOptions{.transform = transform}),
      std::make_shared<data::CIFAR10>(config.data, data::ImageDatasetOptions{.train = false}),
      {0.4914, 0.4822, 0.4465},
      {0.247, 0.2435, 0.2616},
      32,
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}};
}

ImageData open_folder(const ImageConfig& config) {
  const int64_t side = config.image_size;
  const data::Transform plain =
      data::Compose({data::Resize(side), data::CenterCrop(side), data::ConvertImageDtype{}});
  const data::Transform changed =
      config.augment ? data::Transform(
                           data::Compose({data::RandomResizedCrop(side, {.scale = {0.4, 1.0}}),
                                          data::RandomHorizontalFlip{}, data::ConvertImageDtype{}}))
                     : plain;
  ImageData out{"images", nullptr, nullptr, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, side, {}};
  const fs::path root = config.data;
  if (has_any(root, {"train"})) {
    const fs::path other = has_any(root, {"val"}) ? root / "val" : root / "test";
    const auto training = std::make_shared<data::ImageFolder>((root / "train").string(),
                                                              data::ImageFolderOptions{changed});
    const auto validation =
        std::make_shared<data::ImageFolder>(other.string(), data::ImageFolderOptions{plain});
    check(training->classes() == validation->classes(), config.data,
          ": the folders for training and validation have different classes");
    out.training = training;
    out.validation = validation;
    out.classes = training->classes();
    return out;
  }
  // The same split for both, so that an image is in one part only.
  const auto training =
      std::make_shared<data::ImageFolder>(config.data, data::ImageFolderOptions{changed});
  const auto validation =
      std::make_shared<data::ImageFolder>(config.data, data::ImageFolderOptions{plain});
  Generator split(config.seed);
  const auto parts =
      data::random_split(training, {1 - config.validation, config.validation}, &split);
  out.training = std::make_shared<data::Subset>(parts[0]);
  out.validation = std::make_shared<data::Subset>(validation, parts[1].indices());
  out.classes = training->classes();
  return out;
}

}  // namespace

ImageData open_images(const ImageConfig& config) {
  const fs::path root = config.data;
  std::error_code ignored;
  check(fs::is_directory(root, ignored), config.data, ": is not a folder");
  ImageData out = has_any(root, {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
                                 "train-images.idx3-ubyte", "MNIST"})
                      ? open_mnist(config)
                  : has_any(root, {"data_batch_1.bin", "cifar-10-batches-bin"})
                      ? open_cifar10(config)
                      : open_folder(config);
  check(out.training->size() > 0 && out.validation->size() > 0, config.data, ": there are ",
        out.training->size(), " images to learn from and ", out.validation->size(),
        " to validate with; both are needed");
  check(out.classes.size() >= 2, config.data, ": expected at least two classes, got ",
        out.classes.size());
  return out;
}

}  // namespace tensora::train
