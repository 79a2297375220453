#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// For sources only: public headers do not include this.

namespace tensora::llm {

/// A JSON object of a file, read with types checked. Null counts as absent. Errors name the file
/// and the key.
class JsonObject {
 public:
  using Json = nlohmann::json;  // sorted: ordered ones search a list for every key

  JsonObject(Json json, std::string file) : json_(std::move(json)), file_(std::move(file)) {}
  /// Throws for what is not an object, or is nested more deeply than any real file.
  static JsonObject parse(std::string_view text, std::string file);
  static JsonObject read(const std::string& path);
  /// Nothing where there is no such file.
  static std::optional<JsonObject> read_if_there(const std::string& path);
  /// A file that holds a list.
  static Json read_list(const std::string& path);

  bool contains(const std::string& key) const { return find(key) != nullptr; }
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key) const;
  double number(const std::string& key, double otherwise) const;
  bool boolean(const std::string& key) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, std::string otherwise) const;
  std::vector<double> numbers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  /// An integer, or a list of them; empty where it is absent.
  std::vector<int64_t> integers(const std::string& key) const;
  std::optional<JsonObject> object(const std::string& key) const;
  /// The value of a key; null where it is absent.
  const Json* find(const std::string& key) const;
  const Json& json() const { return json_; }
  const std::string& file() const { return file_; }

 private:
  const Json& at(const std::string& key, std::string_view expected) const;
  [[noreturn]] void refuse(const std::string& key, std::string_view expected,
                           const Json& got) const;

  Json json_;
  std::string file_;
};

}  // namespace tensora::llm
