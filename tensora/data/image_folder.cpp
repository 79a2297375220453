#include "tensora/data/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "tensora/data/image.h"
#include "tensora/io/mapped_file.h"
#include "tensora/ops/creation/tensor.h"

namespace tensora::data {
namespace {

namespace fs = std::filesystem;

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& letter : extension)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::vector<std::string> images_under(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
    if (entry.is_regular_file() && is_image_name(entry.path()))
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& root, ImageFolderOptions options)
    : options_(std::move(options)) {
  try {
    check(fs::is_directory(root), "ImageFolder: expected a folder, got '", root, "'");
    for (const fs::directory_entry& entry : fs::directory_iterator(root))
      if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
    check(!classes_.empty(), "ImageFolder: expected a folder per class in '", root,
          "', found none");
    std::sort(classes_.begin(), classes_.end());
    for (size_t label = 0; label < classes_.size(); ++label) {
      const std::vector<std::string> paths = images_under(fs::path(root) / classes_[label]);
      check(!paths.empty(), "ImageFolder: there is no .png, .jpg or .jpeg file in '",
            (fs::path(root) / classes_[label]).string(), "'");
      for (const std::string& path : paths)
        samples_.emplace_back(path, static_cast<int64_t>(label));
    }
  } catch (const fs::filesystem_error& error) {
    fail("ImageFolder: ", error.what());
  }
}

Example ImageFolder::get(int64_t index) const {
  check(index >= 0 && index < size(), "ImageFolder: index ", index, " is out of range for ", size(),
        " images");
  const std::string& path = samples_[static_cast<size_t>(index)].first;
  const int64_t label = samples_[static_cast<size_t>(index)].second;
  return io::reading("ImageFolder", path, [&]() -> Example {
    const Tensor image = decode_image(io::MappedFile::open(path)->bytes(), ImageMode::rgb);
    return {options_.transform ? options_.transform(image, current_generator())
                               : convert_image_dtype(image),
            tensor(label)};
  });
}

}  // namespace tensora::data
