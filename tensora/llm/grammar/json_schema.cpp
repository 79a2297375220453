#include "tensora/llm/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/llm/grammar/json_schema_merge.h"
#include "tensora/llm/grammar/json_schema_parts.h"
#include "tensora/llm/grammar/json_schema_rules.h"

namespace tensora::llm {
namespace {

using Json = nlohmann::ordered_json;
using Keywords = std::vector<std::string_view>;

constexpr int kMaxDepth = 64;

class Converter {
 public:
  Converter(const Json& root, JsonSchemaRules& rules) : root_(root), merger_(root), rules_(rules) {}

  std::string convert() { return visit(root_, "#"); }

 private:
  // Everything that is not understood is refused by name.
  static void allow_only(const Json& schema, const std::string& at, const Keywords& allowed) {
    for (const auto& [key, value] : schema.items())
      check(is_annotation(key) || std::find(allowed.begin(), allowed.end(), key) != allowed.end(),
            "json schema: ", at, ": the keyword ", key, " is not supported here");
  }

  std::string visit(const Json& schema, const std::string& at) {
    if (schema.is_boolean()) {
      check(schema.get<bool>(), "json schema: ", at, ": false allows nothing");
      return rules_.primitive("value");
    }
    check(schema.is_object(), "json schema: ", at, ": expected an object, got ",
          schema.type_name());
    check(++depth_ <= kMaxDepth, "json schema: ", at, ": nested deeper than ", kMaxDepth);
    std::string out = expression(schema, at);
    --depth_;
    // One rule per part keeps lines short and lets errors of the grammar be found.
    return out.find(' ') == std::string::npos ? out : rules_.add(std::move(out));
  }

  std::string expression(const Json& schema, const std::string& at) {
    if (schema.contains("allOf") || (schema.contains("$ref") && !is_alone(schema, "$ref")))
      return expression(merger_.flattened(schema, at), at);
    if (schema.contains("$ref")) return reference(schema, at);
    if (schema.contains("const")) {
      allow_only(schema, at, {"const", "type"});
      return gbnf_text(schema["const"].dump());
    }
    if (schema.contains("enum")) return enumeration(schema, at);
    for (const char* word : {"anyOf", "oneOf"})
      if (schema.contains(word)) return combination(schema, word, at);
    const std::vector<std::string> types = types_of(schema, at);
    if (types.empty()) {
      allow_only(schema, at, {});
      return rules_.primitive("value");
    }
    allow_only(schema, at, keywords(types));
    std::string out;
    for (const std::string& type : types)
      out += (out.empty() ? "" : " | ") + of_type(type, schema, at);
    return out;
  }

  static bool is_alone(const Json& schema, std::string_view keyword) {
    return std::all_of(schema.items().begin(), schema.items().end(), [&](const auto& item) {
      return item.key() == keyword || is_annotation(item.key());
    });
  }

  std::string reference(const Json& schema, const std::string& at) {
    const Json& place = merger_.target(schema["$ref"], at);
    const auto target = schema["$ref"].get<std::string>();
    const auto [found, added] = references_.try_emplace(target);
    if (!added) return found->second;
    const std::string name = rules_.fresh_name();
    found->second = name;
    const std::string body = visit(place, target);
    return rules_.add(name, body);
  }

  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  std::string enumeration(const Json& schema, const std::string& at) {
    allow_only(schema, at, {"enum", "type"});
    check(schema["enum"].is_array(), "json schema: ", at, ": expected enum to be a list");
    const std::vector<std::string> types =
        schema.contains("type") ? types_of(schema, at) : std::vector<std::string>{};
    std::string out;
    for (const Json& value : schema["enum"]) {
      const bool fits =
          types.empty() || std::any_of(types.begin(), types.end(),
                                       [&](const auto& t) { return has_type(value, t); });
      if (fits) out += (out.empty() ? "" : " | ") + gbnf_text(value.dump());
    }
    check(!out.empty(), "json schema: ", at, ": enum allows nothing");
    return out;
  }

  // What stands beside the alternatives holds for each of them.
  std::string combination(const Json& schema, const char* word, const std::string& at) {
    const Json& parts = schema[word];
    check(parts.is_array() && !parts.empty(), "json schema: ", at, ": expected ", word,
          " to be a list that is not empty");
    Json beside = Json::object();
    for (const auto& [key, value] : schema.items())
      if (key != word && !is_annotation(key)) beside[key] = value;
    std::string out;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Json one = beside.empty() ? parts[i] : Json{{"allOf", {beside, parts[i]}}};
      out += (out.empty() ? "" : " | ") + visit(one, concat(at, "/", word, "/", i));
    }
    return out;
  }

  // Without a type, the keywords of one tell it; without any, everything is allowed.
  static std::vector<std::string> types_of(const Json& schema, const std::string& at) {
    std::vector<std::string> out;
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      check(type.is_string() || (type.is_array() && !type.empty()), "json schema: ", at,
            ": expected type to be a text or a list of texts");
      for (const Json& one : type.is_array() ? type : Json::array({type})) {
        check(one.is_string(), "json schema: ", at, ": expected type to be texts");
        out.push_back(one.get<std::string>());
      }
      return out;
    }
    for (const char* type : {"object", "array", "string", "integer"})
      for (const std::string_view name : keywords({type}))
        if (schema.contains(name) && name != "type") {
          check(std::string_view(type) != "integer", "json schema: ", at,
                ": expected a type beside ", name);
          return {type};
        }
    return {};
  }

  static Keywords keywords(const std::vector<std::string>& types) {
    static const std::map<std::string, Keywords, std::less<>> of = {
        {"object", {"properties", "required", "additionalProperties", "propertyNames"}},
        {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
        {"string", {"minLength", "maxLength", "pattern", "format"}},
        // A number's format ("int32", "double") is a storage type, which constrains no JSON text.
        {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"}},
        {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"}}};
    Keywords out = {"type"};
    for (const std::string& type : types)
      if (const auto found = of.find(type); found != of.end())
        out.insert(out.end(), found->second.begin(), found->second.end());
    return out;
  }

  std::string of_type(const std::string& type, const Json& schema, const std::string& at) {
    if (type == "object") return object(schema, at);
    if (type == "array") return array(schema, at);
    if (type == "string") return string(schema, at);
    if (type == "integer") return integer(schema, at);
    if (type == "number") return number(schema, at);
    check(type == "boolean" || type == "null", "json schema: ", at,
          ": expected a type of JSON, got ", type);
    return rules_.primitive(type);
  }

  std::string number(const Json& schema, const std::string& at) {
    const auto bound = [&](const char* name, bool exclusive) -> std::optional<DecimalBound> {
      if (!schema.contains(name)) return std::nullopt;
      check(schema[name].is_number(), "json schema: ", at, ": expected ", name, " to be a number");
      return DecimalBound{schema[name].get<double>(), exclusive};
    };
    const auto tighter = [](std::optional<DecimalBound> open, std::optional<DecimalBound> closed,
                            double sign) {
      if (!open || !closed) return open ? open : closed;
      return sign * open->value >= sign * closed->value ? open : closed;
    };
    const auto least = tighter(bound("exclusiveMinimum", true), bound("minimum", false), 1);
    const auto most = tighter(bound("exclusiveMaximum", true), bound("maximum", false), -1);
    if (!least && !most) return rules_.primitive("number");
    const std::string out = gbnf_number(least, most, "json schema: " + at);
    check(!out.empty(), "json schema: ", at, ": no number is within the bounds");
    return rules_.add(out);
  }

  std::string integer(const Json& schema, const std::string& at) {
    const auto bound = [&](const char* name, bool up, int64_t beyond) -> std::optional<int64_t> {
      if (!schema.contains(name)) return std::nullopt;
      check(schema[name].is_number(), "json schema: ", at, ": expected ", name, " to be a number");
      const auto value = schema[name].get<double>();
      check(std::abs(value) < 1e18, "json schema: ", at, ": expected ", name,
            " to have up to 18 digits, got ", value);
      if (schema[name].is_number_integer()) return schema[name].get<int64_t>() + beyond;
      const double rounded = up ? std::ceil(value) : std::floor(value);
      return static_cast<int64_t>(rounded) + (rounded == value ? beyond : 0);
    };
    const auto tighter = [](std::optional<int64_t> a, std::optional<int64_t> b, bool higher) {
      if (!a || !b) return a ? a : b;
      return std::optional(higher ? std::max(*a, *b) : std::min(*a, *b));
    };
    const auto least = tighter(bound("minimum", true, 0), bound("exclusiveMinimum", true, 1), true);
    const auto most =
        tighter(bound("maximum", false, 0), bound("exclusiveMaximum", false, -1), false);
    return least || most ? gbnf_integer(least, most) : rules_.primitive("integer");
  }

  static int64_t count(const Json& schema, const char* name, const std::string& at) {
    const Json& value = schema[name];
    check(value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() <= 100'000,
          "json schema: ", at, ": expected ", name, " to be a count up to 100000, got ",
          value.dump());
    return value.get<int64_t>();
  }

  // {least,most} of GBNF from two keywords, of which either may be missing.
  static std::string repetition(const Json& schema, const char* least, const char* most,
                                const std::string& at) {
    const int64_t from = schema.contains(least) ? count(schema, least, at) : 0;
    if (!schema.contains(most)) return from == 0 ? "*" : concat("{", from, ",}");
    const int64_t to = count(schema, most, at);
    check(from <= to, "json schema: ", at, ": expected ", least, " <= ", most, ", got ", from,
          " and ", to);
    return concat("{", from, ",", to, "}");
  }

  std::string string(const Json& schema, const std::string& at) {
    const bool bounded = schema.contains("minLength") || schema.contains("maxLength");
    const int kinds = static_cast<int>(bounded) + static_cast<int>(schema.contains("pattern")) +
                      static_cast<int>(schema.contains("format"));
    if (kinds == 0) return rules_.primitive("string");
    check(kinds == 1, "json schema: ", at,
          ": of pattern, format and a length, only one at a time is supported");
    if (bounded)
      return concat(R"("\"" )", rules_.primitive("char"),
                    repetition(schema, "minLength", "maxLength", at), R"( "\"")");
    const char* word = schema.contains("pattern") ? "pattern" : "format";
    check(schema[word].is_string(), "json schema: ", at, ": expected ", word, " to be a text");
    const auto text = schema[word].get<std::string>();
    if (std::string(word) == "pattern")
      return concat(R"("\"" )", gbnf_pattern(text, rules_.primitive("char"), "json schema: " + at),
                    R"( "\"")");
    constexpr std::array known = {"date", "time",     "date-time", "uuid",
                                  "ipv4", "hostname", "email",     "uri"};
    check(std::find(known.begin(), known.end(), text) != known.end(), "json schema: ", at,
          ": expected format date, time, date-time, uuid, ipv4, hostname, email or uri, got ",
          text);
    return concat(R"("\"" )", rules_.primitive(text), R"( "\"")");
  }

  // Lists of different values out of few: a rule for each set of values that are left.
  std::string unique_items(const Json& schema, const std::string& at) {
    const Json items =
        schema.contains("items") ? merger_.flattened(schema["items"], at + "/items") : Json{};
    constexpr size_t kMost = 8;
    check(items.contains("enum") && items["enum"].is_array() && items["enum"].size() <= kMost &&
              !schema.contains("prefixItems") && is_alone(items, "enum"),
          "json schema: ", at, ": uniqueItems is supported for items that are an enum of up to ",
          kMost, " values");
    std::vector<std::string> values;
    for (const Json& value : items["enum"])
      if (const std::string text = gbnf_text(value.dump());
          std::find(values.begin(), values.end(), text) == values.end())
        values.push_back(text);
    const int64_t least = schema.contains("minItems") ? count(schema, "minItems", at) : 0;
    const int64_t most = schema.contains("maxItems") ? count(schema, "maxItems", at) : kMost;
    const int64_t longest = std::min(most, std::ssize(values));
    check(least <= longest, "json schema: ", at, ": expected minItems of up to ", longest,
          ", the different values that there are, got ", least);
    const size_t all = (size_t{1} << values.size()) - 1;
    std::vector<std::string> after(all + 1);  // by the values that were taken
    for (size_t taken = all + 1; taken-- > 0;) {
      const auto size = static_cast<int64_t>(std::popcount(taken));
      std::string next;
      for (size_t i = 0; i < values.size() && size < longest; ++i)
        if (!(taken >> i & 1))
          next += concat(next.empty() ? "" : " | ", values[i], " space ",
                         after[taken | size_t{1} << i]);
      if (next.empty()) continue;
      const std::string comma = taken == 0 ? "" : R"("," space )";
      after[taken] = rules_.add(concat(comma, "(", next, ")")) + (size >= least ? "?" : "");
    }
    return concat(R"("[" space )", after[0], R"( "]")");
  }

  std::string array(const Json& schema, const std::string& at) {
    rules_.primitive("space");
    if (schema.contains("uniqueItems")) {
      check(schema["uniqueItems"].is_boolean(), "json schema: ", at,
            ": expected uniqueItems to be true or false");
      const bool one = schema.contains("maxItems") && count(schema, "maxItems", at) <= 1;
      if (schema["uniqueItems"].get<bool>() && !one) return unique_items(schema, at);
    }
    std::vector<std::string> first;
    if (schema.contains("prefixItems")) {
      check(schema["prefixItems"].is_array(), "json schema: ", at,
            ": expected prefixItems to be a list");
      for (const Json& item : schema["prefixItems"])
        first.push_back(visit(item, concat(at, "/prefixItems/", first.size())));
    }
    const bool closed =
        schema.contains("items") && schema["items"].is_boolean() && !schema["items"].get<bool>();
    const std::string rest = closed                     ? ""
                             : schema.contains("items") ? visit(schema["items"], at + "/items")
                                                        : rules_.primitive("value");
    const auto fixed = static_cast<int64_t>(first.size());
    const int64_t least = schema.contains("minItems") ? count(schema, "minItems", at) : 0;
    int64_t most = schema.contains("maxItems") ? count(schema, "maxItems", at) : -1;
    if (closed) most = most < 0 ? fixed : std::min(most, fixed);
    check(most < 0 || least <= most, "json schema: ", at, ": expected minItems <= maxItems, got ",
          least, " and ", most);
    // From the back: what may follow after item i of those with schemas of their own.
    std::string out;
    if (most < 0 || most > fixed) {
      const int64_t from = std::max<int64_t>(least - fixed, 0);
      const std::string comma = R"("," space )";
      if (fixed > 0)
        out =
            concat("(", comma, rest, " space)",
                   most < 0 ? concat("{", from, ",}") : concat("{", from, ",", most - fixed, "}"));
      else
        out = items(rest, least, most);
    }
    for (int64_t i = std::min(fixed, most < 0 ? fixed : most) - 1; i >= 0; --i) {
      out = concat(i > 0 ? R"("," space )" : "", first[static_cast<size_t>(i)], " space ", out);
      if (i >= least) out = concat("(", out, ")?");
      if (out.size() > 200) out = rules_.add(std::move(out));
    }
    return concat(R"("[" space )", out, R"( "]")");
  }

  // A list of equal items with commas between them.
  static std::string items(const std::string& item, int64_t least, int64_t most) {
    if (most == 0) return "";
    const std::string limits = concat("{", std::max<int64_t>(least - 1, 0), ",",
                                      most < 0 ? "" : std::to_string(most - 1), "}");
    const std::string list = concat(item, R"( space ("," space )", item, " space)", limits);
    return least == 0 ? concat("(", list, ")?") : list;
  }

  std::string object(const Json& schema, const std::string& at) {
    const bool has_properties = schema.contains("properties");
    check(!has_properties || schema["properties"].is_object(), "json schema: ", at,
          ": expected properties to be an object");
    // Every name is a text.
    check(!schema.contains("propertyNames") || schema["propertyNames"] == true ||
              schema["propertyNames"] == Json{{"type", "string"}},
          "json schema: ", at, ": the keyword propertyNames is not supported here");
    const Json properties = has_properties ? schema["properties"] : Json::object();
    std::vector<std::string> required;
    if (schema.contains("required")) {
      check(schema["required"].is_array(), "json schema: ", at, ": expected required to be a list");
      for (const Json& name : schema["required"]) {
        check(name.is_string(), "json schema: ", at, ": expected required to be texts");
        required.push_back(name.get<std::string>());
      }
    }
    std::string others;  // the schema of further properties; empty: there are none
    if (schema.contains("additionalProperties")) {
      const Json& more = schema["additionalProperties"];
      if (!more.is_boolean() || more.get<bool>())
        others = visit(more, at + "/additionalProperties");
    } else if (!has_properties) {
      others = rules_.primitive("value");
    }
    if (properties.empty() && required.empty() && others == "value")
      return rules_.primitive("object");
    std::vector<JsonSchemaRules::Property> all;
    const auto is_in = [](const std::string& name, const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const auto& [name, value] : properties.items())
      all.push_back({name, visit(value, at + "/properties/" + name), is_in(name, required)});
    for (const std::string& name : required) {
      if (properties.contains(name)) continue;
      check(!others.empty(), "json schema: ", at, ": required names ", name,
            ", which is no property and may be no other");
      all.push_back({name, others, true});
    }
    return concat(R"("{" space )", rules_.members(all, others), R"( "}")");
  }

  const Json& root_;
  const JsonSchemaMerger merger_;
  JsonSchemaRules& rules_;
  std::map<std::string, std::string> references_;
  int depth_ = 0;
};

// Nesting is bounded while the text is read, before a tree of it exists.
Json parse_json(std::string_view text) {
  try {
    return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      check(depth <= 2 * kMaxDepth, "json schema: nested deeper than ", 2 * kMaxDepth);
      return true;
    });
  } catch (const Json::exception& error) {
    fail("json schema: expected JSON, got ", error.what());
  }
}

}  // namespace

std::string json_schema_to_grammar(std::string_view schema) {
  JsonSchemaRules rules;
  const std::string top = add_json_schema(rules, schema);
  return concat("root ::= ", top, "\n", rules.text());
}

std::string add_json_schema(JsonSchemaRules& rules, std::string_view schema) {
  const Json json = parse_json(schema);
  return Converter(json, rules).convert();
}

std::string json_grammar() { return json_schema_to_grammar(R"({"type": "object"})"); }

}  // namespace tensora::llm
