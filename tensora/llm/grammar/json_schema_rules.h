#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tensora::llm {

/// The rules of a grammar that is being made from a JSON schema.
class JsonSchemaRules {
 public:
  /// Adds a rule and returns its name.
  std::string add(const std::string& name, std::string body);
  /// The same with a name that is not used yet.
  std::string add(std::string body);
  /// A name for a rule that is added later.
  std::string fresh_name();
  /// A rule that is not particular to a schema ("string", "value", "date", …), with what it needs.
  std::string primitive(const std::string& name);

  struct Property {
    std::string name;
    std::string value;  // an expression
    bool required;
  };
  /// The inside of an object's braces: properties in this order, then others, whose values are the
  /// expression `others`; if that is empty, there are none.
  std::string members(const std::vector<Property>& properties, const std::string& others);

  /// All rules, one per line.
  std::string text() const;

 private:
  std::string other_name(const std::vector<Property>& properties);
  std::string unlike(const std::vector<std::u32string>& names, size_t depth);

  std::vector<std::pair<std::string, std::string>> rules_;
  std::set<std::string> primitives_;
  int fresh_ = 0;
};

}  // namespace tensora::llm
