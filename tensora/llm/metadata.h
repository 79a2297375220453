#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace tensora::llm {

/// The types of GGUF's values, with the numbers that stand in the files. An array has one of them
/// as the type of its elements; arrays of arrays do not exist.
enum class MetadataType : uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};
std::string_view name(MetadataType type);

/// A value and the type that it has in a file. Integers of any width are int64_t here, floating
/// numbers double; an array of booleans is one of the integers 0 and 1. A uint64 beyond int64_t is
/// kept as its bits, and asking for it as a number throws.
class MetadataValue {
 public:
  using Contents = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                                std::vector<double>, std::vector<std::string>>;

  /// Throws where the contents are not of this type or do not fit into it.
  MetadataValue(Contents contents, MetadataType type);
  /// The usual type: uint32 (int32 if negative, 64 bits if needed), float32 (float64 beyond its
  /// range), bool, string.
  explicit MetadataValue(Contents contents);

  const Contents& contents() const { return contents_; }
  /// Of an array, the type of its elements.
  MetadataType type() const { return type_; }
  bool is_array() const { return contents_.index() >= 4; }
  size_t size() const;  // of an array; 1 of anything else
  /// "uint32", "array of 3 string", …: for messages.
  std::string kind() const;
  /// The value as people read it; an array's first few elements.
  std::string to_string() const;

 private:
  Contents contents_;
  MetadataType type_;
};

/// The type that stores a number or a text given as `T`: int64_t for any integer, and so on.
template <class T>
using metadata_t = std::conditional_t<
    std::is_same_v<T, bool>, bool,
    std::conditional_t<std::is_integral_v<T>, int64_t,
                       std::conditional_t<std::is_floating_point_v<T>, double,
                                          std::conditional_t<std::is_convertible_v<T, std::string>,
                                                             std::string, T>>>>;

/// What a model file says beside its tensors: values by key, in the file's order. Reading is
/// strict: a value of another type is an error that names the key, what was expected and what is
/// there. `T` is one of the alternatives of MetadataValue::Contents.
class Metadata {
 public:
  using Entry = std::pair<std::string, MetadataValue>;

  /// The value of `key`; throws where it is absent.
  template <class T>
  const T& get(std::string_view key) const;
  /// The value of `key`, or `fallback` where it is absent; a value of another type still throws.
  template <class T>
  metadata_t<T> get_or(std::string_view key, T fallback) const {
    if (!contains(key)) return metadata_t<T>(std::move(fallback));
    return get<metadata_t<T>>(key);
  }
  /// Null where the key is absent.
  const MetadataValue* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Adds the value, or replaces it where the key is there.
  void set(std::string_view key, MetadataValue value);
  template <class T>
  void set(std::string_view key, T value) {
    set(key, MetadataValue(metadata_t<T>(std::move(value))));
  }
  template <class T>
  void set(std::string_view key, T value, MetadataType type) {
    set(key, MetadataValue(metadata_t<T>(std::move(value)), type));
  }
  /// False where there is no such key.
  bool erase(std::string_view key);

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> places_;
};

extern template const bool& Metadata::get<bool>(std::string_view) const;
extern template const int64_t& Metadata::get<int64_t>(std::string_view) const;
extern template const double& Metadata::get<double>(std::string_view) const;
extern template const std::string& Metadata::get<std::string>(std::string_view) const;
extern template const std::vector<int64_t>& Metadata::get<std::vector<int64_t>>(
    std::string_view) const;
extern template const std::vector<double>& Metadata::get<std::vector<double>>(
    std::string_view) const;
extern template const std::vector<std::string>& Metadata::get<std::vector<std::string>>(
    std::string_view) const;

}  // namespace tensora::llm
