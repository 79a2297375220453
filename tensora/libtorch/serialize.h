#pragma once

// Archives, torch::save and torch::load. The files are PyTorch's: Python's `torch.load` reads a
// tensor, a list of tensors, a state_dict.

#include <functional>
#include <iosfwd>

#include "tensora/libtorch/nn/module.h"

namespace torch {

namespace serialize {

/// Values by name, to be saved. The names of an archive within another one are joined by dots, so
/// that a module's archive is its state_dict.
class OutputArchive {
 public:
  void write(const std::string& key, const c10::IValue& value);
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, OutputArchive& archive);
  void save_to(const std::string& path);
  void save_to(std::ostream& stream);
  void save_to(const std::function<size_t(const void*, size_t)>& function);
  template <class... T>
  void operator()(T&&... values) {
    write(std::forward<T>(values)...);
  }
  /// A tensor, or what `operator()` with a key gave.
  const tensora::Value& content() const { return content_; }
  void set_content(tensora::Value value) { content_ = std::move(value); }

 private:
  tensora::Value content_ = tensora::Value::dict();
};

/// Values by name, as they were saved.
class InputArchive {
 public:
  void read(const std::string& key, c10::IValue& value);
  bool try_read(const std::string& key, c10::IValue& value);
  /// Writes to the tensor's place: every handle to it sees the new contents.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, InputArchive& archive);
  bool try_read(const std::string& key, InputArchive& archive);
  std::vector<std::string> keys() const;
  void load_from(const std::string& path, std::optional<Device> device = {});
  void load_from(std::istream& stream, std::optional<Device> device = {});
  void load_from(const char* data, size_t size, std::optional<Device> device = {});
  void load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                 const std::function<size_t()>& size, std::optional<Device> device = {});
  template <class... T>
  void operator()(T&&... values) {
    read(std::forward<T>(values)...);
  }
  const tensora::Value& content() const { return content_; }
  /// The tensors of a list, which LibTorch writes as values by number.
  std::vector<Tensor> tensors() const;

 private:
  tensora::Value content_ = tensora::Value::dict();
  std::string place_;  // "a.b." of an archive that was read from others; for messages
};

}  // namespace serialize

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor);

/// Saves a tensor, a module, an optimizer, or anything else that `archive << value` takes, to a
/// path, a stream or a function.
template <class Value, class... To>
void save(const Value& value, To&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
template <class... To>
void save(const std::vector<Tensor>& tensors, To&&... to) {
  serialize::OutputArchive archive;
  archive.set_content(tensora::Value::List(tensors.begin(), tensors.end()));
  archive.save_to(std::forward<To>(to)...);
}
template <class Value, class... From>
void load(Value& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}
template <class... From>
void load(std::vector<Tensor>& tensors, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  for (const Tensor& tensor : archive.tensors()) tensors.push_back(tensor);
}

/// The bytes of a file that Python's `torch.load` reads, and what such a file holds.
std::vector<char> pickle_save(const c10::IValue& value);
c10::IValue pickle_load(const std::vector<char>& data);

}  // namespace torch
