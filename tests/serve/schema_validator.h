#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace tensora::serve::testing {

/// Says whether a value fits a JSON schema: the keywords of schemas.json, written anew from the
/// specification so that the grammar can be checked against it.
class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaValidator(Json root) : root_(std::move(root)) {}
  bool fits(const Json& value) const { return fits(value, root_); }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  static size_t letters(const std::string& text) {
    size_t count = 0;
    for (const char c : text) count += (c & 0xC0) != 0x80;
    return count;
  }

  bool fits(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [key, rule] : schema.items())
      if (!holds(key, rule, value, schema)) return false;
    return true;
  }

  bool holds(const std::string& key, const Json& rule, const Json& value,
             const Json& schema) const {
    if (key == "$ref")
      return fits(value, root_.at(Json::json_pointer(rule.get<std::string>().substr(1))));
    if (key == "const") return value == rule;
    if (key == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (key == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      return std::any_of(types.begin(), types.end(),
                         [&](const Json& type) { return has_type(value, type); });
    }
    const auto fits_one = [&](const Json& part) { return fits(value, part); };
    if (key == "anyOf") return std::any_of(rule.begin(), rule.end(), fits_one);
    if (key == "oneOf") return std::count_if(rule.begin(), rule.end(), fits_one) == 1;
    if (key == "allOf") return std::all_of(rule.begin(), rule.end(), fits_one);
    if (value.is_number())
      return number_holds(key, rule.is_number() ? rule.get<double>() : 0, value);
    if (value.is_string()) return text_holds(key, rule, value.get<std::string>());
    if (value.is_array()) return list_holds(key, rule, value, schema);
    if (value.is_object()) return object_holds(key, rule, value, schema);
    return true;
  }

  static bool number_holds(const std::string& key, double bound, const Json& value) {
    const auto x = value.get<double>();
    if (key == "minimum") return x >= bound;
    if (key == "maximum") return x <= bound;
    if (key == "exclusiveMinimum") return x > bound;
    if (key == "exclusiveMaximum") return x < bound;
    return true;
  }

  static bool text_holds(const std::string& key, const Json& rule, const std::string& value) {
    if (key == "minLength") return letters(value) >= rule.get<size_t>();
    if (key == "maxLength") return letters(value) <= rule.get<size_t>();
    const auto matches = [&](const char* pattern) {
      return std::regex_search(value, std::regex(pattern));
    };
    if (key == "pattern") return matches(rule.get<std::string>().c_str());
    if (key != "format") return true;
    if (rule == "date") return matches("^\\d{4}-\\d{2}-\\d{2}$");
    if (rule == "date-time") return matches("^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}");
    if (rule == "time") return matches("^\\d{2}:\\d{2}:\\d{2}");
    if (rule == "uuid") return matches("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$");
    if (rule == "ipv4") return matches("^\\d{1,3}(\\.\\d{1,3}){3}$");
    if (rule == "email") return matches("^[^@]+@[^@]+\\.[^@]+$");
    return true;
  }

  bool list_holds(const std::string& key, const Json& rule, const Json& value,
                  const Json& schema) const {
    if (key == "minItems") return value.size() >= rule.get<size_t>();
    if (key == "maxItems") return value.size() <= rule.get<size_t>();
    if (key == "uniqueItems") {
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (value[i] == value[j]) return false;
      return true;
    }
    const size_t first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    if (key == "prefixItems")
      for (size_t i = 0; i < std::min(first, value.size()); ++i)
        if (!fits(value[i], rule[i])) return false;
    if (key == "items")
      for (size_t i = first; i < value.size(); ++i)
        if (!fits(value[i], rule)) return false;
    return true;
  }

  bool object_holds(const std::string& key, const Json& rule, const Json& value,
                    const Json& schema) const {
    if (key == "required")
      return std::all_of(rule.begin(), rule.end(),
                         [&](const Json& name) { return value.contains(name.get<std::string>()); });
    for (const auto& [name, item] : value.items()) {
      const bool is_known = schema.contains("properties") && schema["properties"].contains(name);
      if (key == "properties" && is_known && !fits(item, rule[name])) return false;
      if (key == "additionalProperties" && !is_known && !fits(item, rule)) return false;
    }
    return true;
  }

  Json root_;
};

}  // namespace tensora::serve::testing
