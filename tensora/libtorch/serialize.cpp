#include "tensora/libtorch/serialize.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tensora/io/load.h"

namespace torch {

namespace {

// Streams go through a file: PyTorch's format is a zip archive, which is mapped to read it.
class TemporaryFile {
 public:
  TemporaryFile() {
    static std::atomic<int64_t> made = 0;
    path_ = (std::filesystem::temp_directory_path() /
             tensora::concat("tensora-archive-", getpid(), "-", made++, ".pt"))
                .string();
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

namespace serialize {

void OutputArchive::write(const std::string& key, const c10::IValue& value) {
  content_[key] = value;
}
void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) {
  content_[key] = tensor;
}
void OutputArchive::write(const std::string& key, OutputArchive& archive) {
  if (!archive.content_.is_dict()) {
    content_[key] = archive.content_;
    return;
  }
  for (const auto& [name, value] : archive.content_.to_dict())
    content_[key + "." + std::get<std::string>(name)] = value;
}

void OutputArchive::save_to(const std::string& path) { tensora::io::save_pytorch(content_, path); }

void OutputArchive::save_to(std::ostream& stream) {
  save_to([&](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    return stream.good() ? size : 0;
  });
}

void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& function) {
  const TemporaryFile file;
  save_to(file.path());
  const std::vector<char> bytes = bytes_of(file.path());
  tensora::check(function(bytes.data(), bytes.size()) == bytes.size(), "save: the archive of ",
                 bytes.size(), " bytes could not be written");
}

bool InputArchive::try_read(const std::string& key, c10::IValue& value) {
  const tensora::Value* found = content_.is_dict() ? content_.find(key) : nullptr;
  if (found) value = *found;
  return found != nullptr;
}
void InputArchive::read(const std::string& key, c10::IValue& value) {
  tensora::check(try_read(key, value), "No such serialized value '", place_, key, "'");
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  c10::IValue value;
  if (!try_read(key, value)) return false;
  const Tensor& read = value.to_tensor();
  if (!tensor.defined()) {
    tensor = read.clone();
    return true;
  }
  const NoGradGuard no_grad;
  const bool wanted_grad = tensor.requires_grad();
  const Tensor placed = read.to(tensor.device()).clone();
  if (tensor.sizes() == placed.sizes() && tensor.dtype() == placed.dtype())
    tensor.detach().copy_(placed);
  else if (tensor.is_leaf())
    tensor.set_data(placed);
  else
    tensor = placed;
  if (wanted_grad && !tensor.requires_grad()) tensor.requires_grad_();
  return true;
}
void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  tensora::check(try_read(key, tensor, is_buffer), "No such serialized tensor '", place_, key, "'");
}

bool InputArchive::try_read(const std::string& key, InputArchive& archive) {
  archive.content_ = tensora::Value::dict();
  const std::string prefix = key + ".";
  archive.place_ = place_ + prefix;
  if (!content_.is_dict()) return false;
  bool found = false;
  for (const auto& [name, value] : content_.to_dict()) {
    const auto* text = std::get_if<std::string>(&name);
    if (!text || !text->starts_with(prefix)) continue;
    archive.content_[text->substr(prefix.size())] = value;
    found = true;
  }
  return found;
}
void InputArchive::read(const std::string& key, InputArchive& archive) {
  try_read(key, archive);  // a module without parameters has left nothing
}

std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> result;
  if (!content_.is_dict()) return result;
  for (const auto& [name, value] : content_.to_dict()) {
    if (const auto* text = std::get_if<std::string>(&name)) {
      const std::string first = text->substr(0, text->find('.'));
      if (std::find(result.begin(), result.end(), first) == result.end()) result.push_back(first);
    }
  }
  return result;
}

std::vector<Tensor> InputArchive::tensors() const {
  std::vector<Tensor> result;
  if (content_.is_dict())
    for (const auto& [key, value] : content_.to_dict()) result.push_back(value.to_tensor());
  else
    for (const tensora::Value& value : content_.to_list()) result.push_back(value.to_tensor());
  return result;
}

void InputArchive::load_from(const std::string& path, std::optional<Device> device) {
  content_ = tensora::io::load(path, {.device = device.value_or(Device()), .copy = true});
}
void InputArchive::load_from(const char* data, size_t size, std::optional<Device> device) {
  const TemporaryFile file;
  std::ofstream(file.path(), std::ios::binary).write(data, static_cast<std::streamsize>(size));
  load_from(file.path(), device);
}
void InputArchive::load_from(std::istream& stream, std::optional<Device> device) {
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream),
                                std::istreambuf_iterator<char>()};
  load_from(bytes.data(), bytes.size(), device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                             const std::function<size_t()>& size, std::optional<Device> device) {
  std::vector<char> bytes(size());
  tensora::check(read(0, bytes.data(), bytes.size()) == bytes.size(), "load: the reader gave less ",
                 "than the ", bytes.size(), " bytes that it announced");
  load_from(bytes.data(), bytes.size(), device);
}

}  // namespace serialize

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor) {
  archive.set_content(tensor);
  return archive;
}

serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor) {
  const tensora::Value& content = archive.content();
  tensor = content.is_tensor() ? content.to_tensor() : content.at("0").to_tensor();
  return archive;
}

std::vector<char> pickle_save(const c10::IValue& value) {
  const TemporaryFile file;
  tensora::io::save_pytorch(value, file.path());
  return bytes_of(file.path());
}

c10::IValue pickle_load(const std::vector<char>& data) {
  serialize::InputArchive archive;
  archive.load_from(data.data(), data.size());
  return archive.content();
}

}  // namespace torch
