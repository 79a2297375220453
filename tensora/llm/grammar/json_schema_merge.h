#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tensora::llm {

/// Keywords that say nothing about which values are allowed.
bool is_annotation(std::string_view keyword);

/// Makes one schema of several that must all hold. What cannot be put together is refused, by path
/// and keyword.
class JsonSchemaMerger {
 public:
  using Json = nlohmann::ordered_json;
  explicit JsonSchemaMerger(const Json& root) : root_(root) {}

  /// The schema without `allOf` and without `$ref` beside other keywords.
  Json flattened(const Json& schema, const std::string& at) const {
    return flattened(schema, at, 0);
  }
  /// What `$ref` names.
  const Json& target(const Json& reference, const std::string& at) const;

 private:
  Json flattened(const Json& schema, const std::string& at, int depth) const;
  Json both(const Json& a, const Json& b, const std::string& at) const;
  void merge_keyword(Json& out, const std::string& key, const Json& value,
                     const std::string& at) const;

  const Json& root_;
  mutable int visits_ = 0;  // bounded: references may be unfolded again and again
};

}  // namespace tensora::llm
