#include "tensora/llm/grammar/json_schema_merge.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

using Json = JsonSchemaMerger::Json;

constexpr int kMaxDepth = 64;
constexpr int kMaxVisits = 20'000;
constexpr size_t kMaxAlternatives = 100;

template <size_t n>
bool is_in(const std::array<std::string_view, n>& names, std::string_view key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

Json list_of(const Json& value) { return value.is_array() ? value : Json::array({value}); }

bool contains(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json common_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json first = list_of(a), second = list_of(b);
  for (const Json& type : first)
    if (contains(second, type) || (type == "integer" && contains(second, "number")))
      out.push_back(type);
  if (contains(first, "number") && contains(second, "integer") && !contains(out, "integer"))
    out.push_back("integer");
  return out;
}

Json common_values(const Json& a, const Json& b) {
  Json out = Json::array();
  for (const Json& value : a)
    if (contains(b, value)) out.push_back(value);
  return out;
}

// Whether the properties of `a` are all among those of `b`.
bool properties_within(const Json& a, const Json& b) {
  if (!a.contains("properties")) return true;
  const Json known = b.contains("properties") ? b["properties"] : Json::object();
  return std::all_of(a["properties"].items().begin(), a["properties"].items().end(),
                     [&](const auto& item) { return known.contains(item.key()); });
}

// A schema that allows other properties as it likes says so of all but its own.
void check_additional(const Json& a, const Json& b, const std::string& at) {
  for (const auto& [own, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!own->contains("additionalProperties") || (*own)["additionalProperties"] == true) continue;
    check(properties_within(*other, *own), "json schema: ", at,
          ": allOf with additionalProperties beside properties of another schema is not supported");
  }
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  static constexpr std::array<std::string_view, 14> all = {
      "title", "description", "default",         "examples",        "$schema",
      "$id",   "$comment",    "deprecated",      "readOnly",        "writeOnly",
      "$defs", "definitions", "contentEncoding", "contentMediaType"};
  return is_in(all, keyword) || keyword.starts_with("x-");
}

const Json& JsonSchemaMerger::target(const Json& reference, const std::string& at) const {
  check(reference.is_string(), "json schema: ", at, ": expected $ref to be a text");
  const auto& text = reference.get_ref<const std::string&>();
  check(text.starts_with("#"), "json schema: ", at, ": $ref must begin with #, got ", text);
  try {
    return root_.at(Json::json_pointer(text.substr(1)));
  } catch (const Json::exception&) {
    fail("json schema: ", at, ": $ref leads nowhere: ", text);
  }
}

Json JsonSchemaMerger::flattened(const Json& schema, const std::string& at, int depth) const {
  check(depth <= kMaxDepth, "json schema: ", at, ": $ref and allOf are nested deeper than ",
        kMaxDepth, ", or lead back to themselves");
  check(++visits_ <= kMaxVisits, "json schema: ", at, ": $ref and allOf unfold to more than ",
        kMaxVisits, " schemas");
  if (!schema.is_object()) {
    check(schema == true, "json schema: ", at, ": expected a schema that allows something, got ",
          schema.is_boolean() ? "false" : schema.type_name());
    return Json::object();
  }
  Json out = Json::object();
  for (const auto& [key, value] : schema.items())
    if (key != "allOf" && key != "$ref" && !is_annotation(key)) out[key] = value;
  if (schema.contains("$ref"))
    out = both(flattened(target(schema["$ref"], at), at + "/$ref", depth + 1), out, at);
  if (!schema.contains("allOf")) return out;
  const Json& parts = schema["allOf"];
  check(parts.is_array() && !parts.empty(), "json schema: ", at,
        ": expected allOf to be a list that is not empty");
  for (size_t i = 0; i < parts.size(); ++i)
    out = both(out, flattened(parts[i], concat(at, "/allOf/", i), depth + 1), at);
  return out;
}

Json JsonSchemaMerger::both(const Json& a, const Json& b, const std::string& at) const {
  check_additional(a, b, at);
  Json out = a;
  for (const auto& [key, value] : b.items())
    if (!out.contains(key))
      out[key] = value;
    else if (out[key] != value)
      merge_keyword(out, key, value, at);
  return out;
}

void JsonSchemaMerger::merge_keyword(Json& out, const std::string& key, const Json& value,
                                     const std::string& at) const {
  static constexpr std::array<std::string_view, 4> least = {"minimum", "exclusiveMinimum",
                                                            "minLength", "minItems"};
  static constexpr std::array<std::string_view, 4> most = {"maximum", "exclusiveMaximum",
                                                           "maxLength", "maxItems"};
  Json& known = out[key];
  const auto all_are = [&](auto is) { return is(known) && is(value); };
  const auto is_number = [](const Json& json) { return json.is_number(); };
  const auto is_list = [](const Json& json) { return json.is_array(); };
  if (is_in(least, key) && all_are(is_number)) {
    known = known < value ? value : known;
  } else if (is_in(most, key) && all_are(is_number)) {
    known = value < known ? value : known;
  } else if (key == "type") {
    known = common_types(known, value);
    check(!known.empty(), "json schema: ", at, ": the types in allOf exclude one another");
  } else if (key == "enum" && all_are(is_list)) {
    known = common_values(known, value);
  } else if (key == "required" && all_are(is_list)) {
    for (const Json& name : value)
      if (!contains(known, name)) known.push_back(name);
  } else if (key == "properties" && known.is_object() && value.is_object()) {
    for (const auto& [name, schema] : value.items())
      known[name] = known.contains(name) ? Json{{"allOf", {known[name], schema}}} : schema;
  } else if (key == "items") {
    known = Json{{"allOf", {known, value}}};
  } else if (key == "uniqueItems") {
    known = known == true || value == true;
  } else if (key == "additionalProperties" && (known == true || value == true)) {
    known = known == true ? value : known;
  } else if ((key == "anyOf" || key == "oneOf") && all_are(is_list)) {
    Json pairs = Json::array();
    for (const Json& a : known)
      for (const Json& b : value) pairs.push_back(Json{{"allOf", {a, b}}});
    check(pairs.size() <= kMaxAlternatives, "json schema: ", at, ": ", key,
          " in several schemas of allOf gives more than ", kMaxAlternatives, " alternatives");
    known = std::move(pairs);
  } else {
    fail("json schema: ", at, ": allOf of schemas that differ in ", key, " is not supported");
  }
}

}  // namespace tensora::llm
