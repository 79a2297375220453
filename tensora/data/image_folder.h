#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensora/data/transforms.h"

namespace tensora::data {

struct ImageFolderOptions {
  /// Gets the image as uint8 [3, H, W]; without one it becomes float32 from 0 to 1.
  Transform transform = nullptr;
};

/// PNG and JPEG files in one folder per class: root/cat/1.png, root/dog/some/2.jpg. Classes are
/// numbered in the order of their names. An example is {image, label}; files are read when they are
/// asked for.
class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const std::string& root, ImageFolderOptions options = {});
  Example get(int64_t index) const override;
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }

  const std::vector<std::string>& classes() const { return classes_; }
  /// The path and the class of every example.
  const std::vector<std::pair<std::string, int64_t>>& samples() const { return samples_; }

 private:
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, int64_t>> samples_;
  ImageFolderOptions options_;
};

}  // namespace tensora::data
