#include "tensora/data/labeled_images.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "tensora/base/thread_pool.h"
#include "tensora/data/collate.h"
#include "tensora/data/idx.h"
#include "tensora/io/mapped_file.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytesPerTask = 64 * 1024;

// The rows as float32 from 0 to 1, in one pass.
Tensor gather_scaled(const Tensor& images, std::span<const int64_t> rows, NewTensor new_tensor) {
  Shape sizes = images.sizes();
  sizes[0] = static_cast<int64_t>(rows.size());
  Tensor result = new_tensor(sizes, kFloat32);
  if (result.numel() == 0) return result;
  const int64_t count = result.numel() / sizes[0];
  const uint8_t* const from = images.data_ptr<uint8_t>();
  float* const to = result.data_ptr<float>();
  parallel_for(sizes[0], std::max<int64_t>(1, kBytesPerTask / count),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const uint8_t* const source = from + rows[static_cast<size_t>(i)] * count;
                   float* const target = to + i * count;
                   for (int64_t k = 0; k < count; ++k)
                     target[k] = static_cast<float>(source[k]) / 255.0f;
                 }
               });
  return result;
}

// The first of the places that exists.
fs::path find_file(std::string_view name, const std::vector<fs::path>& places) {
  std::error_code ignored;
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, ignored)) return place;
  std::string looked;
  for (const fs::path& place : places) looked += (looked.empty() ? "" : ", ") + place.string();
  fail(name, ": a file of the data set is missing; looked for ", looked);
}

Tensor read_mnist_file(const std::string& root, const std::string& name) {
  const fs::path base(root), raw = base / "MNIST" / "raw";
  return read_idx(
      find_file("MNIST", {base / name, base / (name + ".gz"), raw / name, raw / (name + ".gz")})
          .string());
}

struct ImagesAndLabels {
  Tensor images, labels;
};

ImagesAndLabels read_mnist(const std::string& root, bool train) {
  const std::string part = train ? "train" : "t10k";
  const Tensor images = read_mnist_file(root, part + "-images-idx3-ubyte");
  check(images.dtype() == kUInt8 && images.dim() == 3,
        "MNIST: expected uint8 images [N, H, W] in '", root, "', got ", images.dtype(),
        " of shape ", images.sizes());
  const Tensor labels = read_mnist_file(root, part + "-labels-idx1-ubyte");
  check(labels.dtype() == kUInt8 && labels.dim() == 1, "MNIST: expected uint8 labels [N] in '",
        root, "', got ", labels.dtype(), " of shape ", labels.sizes());
  return {images.unsqueeze(1), labels.to(kInt64)};
}

constexpr int64_t kCifarPixels = 3 * 32 * 32, kCifarRecord = 1 + kCifarPixels;

// One file: records of a label and an image.
void read_cifar_file(const std::string& path, TensorList& images, TensorList& labels) {
  io::reading("CIFAR10", path, [&] {
    const auto file = io::MappedFile::open(path);
    const auto bytes = static_cast<int64_t>(file->bytes().size());
    check(bytes > 0 && bytes % kCifarRecord == 0, "expected records of ", kCifarRecord,
          " bytes, got a file of ", bytes);
    const int64_t count = bytes / kCifarRecord;
    const Tensor image = empty({count, 3, 32, 32}, {.dtype = kUInt8});
    const Tensor label = empty({count}, {.dtype = kInt64});
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* const record = file->bytes().data() + i * kCifarRecord;
      check(record[0] < 10, "record ", i, " has the label ", static_cast<int>(record[0]),
            ", expected 0 to 9");
      label.data_ptr<int64_t>()[i] = record[0];
      std::memcpy(image.data_ptr<uint8_t>() + i * kCifarPixels, record + 1, kCifarPixels);
    }
    images.push_back(image);
    labels.push_back(label);
  });
}

ImagesAndLabels read_cifar(const std::string& root, bool train) {
  std::vector<std::string> names = {"test_batch.bin"};
  if (train) {
    names.clear();
    for (int i = 1; i <= 5; ++i) names.push_back(concat("data_batch_", i, ".bin"));
  }
  TensorList images, labels;
  for (const std::string& name : names) {
    const fs::path base(root);
    read_cifar_file(
        find_file("CIFAR10", {base / name, base / "cifar-10-batches-bin" / name}).string(), images,
        labels);
  }
  return {cat(images), cat(labels)};
}

LabeledImages labeled(ImagesAndLabels data, Transform transform) {
  return {std::move(data.images), std::move(data.labels), std::move(transform)};
}

}  // namespace

LabeledImages::LabeledImages(Tensor images, Tensor labels, Transform transform)
    : transform_(std::move(transform)) {
  check(images.defined() && images.dtype() == kUInt8 && images.dim() == 4 && images.is_cpu(),
        "LabeledImages: expected uint8 images [N, C, H, W] on the cpu, got ",
        images.defined() ? concat(images.dtype(), " of shape ", images.sizes())
                         : "an undefined tensor");
  check(labels.defined() && labels.dtype() == kInt64 && labels.dim() == 1 && labels.is_cpu(),
        "LabeledImages: expected int64 labels [N] on the cpu, got ",
        labels.defined() ? concat(labels.dtype(), " of shape ", labels.sizes())
                         : "an undefined tensor");
  check(images.size(0) == labels.size(0), "LabeledImages: there are ", images.size(0),
        " images and ", labels.size(0), " labels");
  images_ = images.contiguous();
  labels_ = labels.contiguous();
}

Example LabeledImages::get(int64_t index) const {
  const Tensor image = images_[index];
  return {transform_ ? transform_(image, current_generator()) : convert_image_dtype(image),
          labels_[index]};
}

std::optional<Batch> LabeledImages::get_batch(std::span<const int64_t> indices,
                                              NewTensor new_tensor) const {
  if (transform_) return {};
  return Batch{gather_scaled(images_, indices, new_tensor),
               gather_rows(labels_, indices, new_tensor)};
}

MNIST::MNIST(const std::string& root, ImageDatasetOptions options)
    : LabeledImages(labeled(read_mnist(root, options.train), std::move(options.transform))) {}

CIFAR10::CIFAR10(const std::string& root, ImageDatasetOptions options)
    : LabeledImages(labeled(read_cifar(root, options.train), std::move(options.transform))) {}

}  // namespace tensora::data
