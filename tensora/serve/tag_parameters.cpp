#include "tensora/serve/tag_parameters.h"

#include <algorithm>
#include <set>

#include "tensora/base/check.h"
#include "tensora/serve/json_fields.h"

namespace tensora::serve {
namespace {

// Keywords that say nothing about which values fit.
const std::set<std::string> kNotes = {
    "title", "description", "default",   "examples", "$comment",    "deprecated", "$schema",
    "$id",   "readOnly",    "writeOnly", "$defs",    "definitions", "strict"};

[[noreturn]] void refuse(const Tool& tool, const std::string& below, const std::string& keyword) {
  refuse_schema(concat("#", below, ": the keyword ", keyword,
                       " is not supported by this model's format of tool calls"),
                tool.path);
}

// Whether tags can hold the text: it must not be taken for the end of the value.
bool is_writable(const Json& value) {
  return value.is_string() &&
         value.get_ref<const std::string&>().find("</parameter>") == std::string::npos;
}

TagParameter read_parameter(const std::string& name, const Json& given, const Json& root) {
  TagParameter parameter{.name = name};
  Json schema = given;
  if (!schema.is_object()) {
    parameter.schema = schema.dump();
    return parameter;
  }
  Json rest = Json::object();
  for (const auto& [keyword, value] : schema.items())
    if (!kNotes.contains(keyword)) rest[keyword] = value;
  const bool is_string = rest.value("type", Json()) == "string";
  const bool has_type = rest.contains("type");
  if (is_string && rest.size() == 1) {
    parameter.is_text = true;
  } else if (rest.contains("enum") && (is_string || !has_type) &&
             rest.size() == (has_type ? 2u : 1u) && rest["enum"].is_array() &&
             !rest["enum"].empty() &&
             std::all_of(rest["enum"].begin(), rest["enum"].end(), is_writable)) {
    parameter.is_text = true;
    parameter.choices = rest["enum"].get<std::vector<std::string>>();
  } else {
    // References point into the schema that the parameter was taken from.
    for (const char* definitions : {"$defs", "definitions"})
      if (root.contains(definitions) && !schema.contains(definitions))
        schema[definitions] = root[definitions];
    parameter.schema = schema.dump();
  }
  return parameter;
}

}  // namespace

std::vector<TagParameter> tag_parameters(const Tool& tool) {
  const Json root = Json::parse(tool.schema);
  std::set<std::string> required;
  for (const auto& [keyword, value] : root.items()) {
    // Tags for other properties are never written, whatever additionalProperties allows.
    if (kNotes.contains(keyword) || keyword == "type" || keyword == "additionalProperties")
      continue;
    if (keyword == "required" && value.is_array()) {
      for (const Json& name : value)
        if (name.is_string()) required.insert(name.get<std::string>());
    } else if (keyword != "properties" || !value.is_object()) {
      refuse(tool, "", keyword);
    }
  }
  std::vector<TagParameter> parameters;
  const auto properties = root.find("properties");
  if (properties != root.end())
    for (const auto& [name, schema] : properties->items()) {
      const std::string below = concat("/properties/", name);
      if (name.empty() || name.find_first_of(">\n") != name.npos) refuse(tool, below, "properties");
      // A reference to the whole schema would miss it.
      if (schema.dump().find("\"#\"") != std::string::npos ||
          schema.dump().find("\"#/properties") != std::string::npos)
        refuse(tool, below, "$ref");
      parameters.push_back(read_parameter(name, schema, root));
      parameters.back().is_required = required.erase(name) > 0;
    }
  if (!required.empty()) refuse(tool, "", concat("required (", *required.begin(), ")"));
  return parameters;
}

}  // namespace tensora::serve
