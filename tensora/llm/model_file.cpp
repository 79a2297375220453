#include "tensora/llm/model_file.h"

#include <filesystem>

#include "tensora/llm/gguf/gguf_reader.h"
#include "tensora/llm/hugging_face/folder_file.h"
#include "tensora/llm/model_file_contents.h"

namespace tensora::llm {

ModelFile ModelFile::open(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    const auto kind = std::filesystem::path(path).extension();
    check(kind != ".safetensors" && kind != ".json", "model: '", path,
          "' is a part of a Hugging Face folder; name the folder that it is in");
    return ModelFile(open_gguf(path));
  }
  check(std::filesystem::exists(path + "/config.json", ignored), "model: the folder '", path,
        "' has no config.json; expected a .gguf file or a folder with config.json and safetensors");
  return ModelFile(open_hugging_face(path));
}

const Metadata& ModelFile::metadata() const { return contents_->metadata; }
const std::string& ModelFile::architecture() const { return contents_->architecture; }
const std::vector<TensorInfo>& ModelFile::tensors() const { return contents_->tensors; }
const std::string& ModelFile::path() const { return contents_->path; }
const std::string& ModelFile::folder() const { return contents_->folder; }
bool ModelFile::rope_in_halves() const { return contents_->rope_in_halves; }
const std::vector<std::string>& ModelFile::ignored_fields() const {
  return contents_->ignored_fields;
}
uint64_t ModelFile::bytes() const { return contents_->bytes; }

std::vector<std::string> ModelFile::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : contents_->tensors) names.push_back(tensor.name);
  return names;
}

bool ModelFile::contains(std::string_view name) const {
  return contents_->places.find(name) != contents_->places.end();
}

const TensorInfo& ModelFile::info(std::string_view name) const {
  const auto place = contents_->places.find(name);
  check(place != contents_->places.end(), "'", contents_->path, "' has no tensor '", name, "'");
  return contents_->tensors[place->second];
}

Tensor ModelFile::tensor(std::string_view name) const {
  const TensorInfo& found = info(name);
  return contents_->load(static_cast<size_t>(&found - contents_->tensors.data()));
}

}  // namespace tensora::llm
