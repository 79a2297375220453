#pragma once

#include <string>
#include <string_view>

namespace tensora::llm {

class JsonSchemaRules;

/// The grammar (GBNF) of the JSON texts that fit a schema. Properties come in the order of the
/// schema. An object with `properties` has no others unless `additionalProperties` says so. What
/// cannot be expressed is an error that names the keyword and where it stands: never a looser
/// grammar.
std::string json_schema_to_grammar(std::string_view schema);

/// Adds the rules of a schema to those of other schemas, for grammars that hold several. Returns
/// the expression that its texts fit, which may stand in a sequence.
std::string add_json_schema(JsonSchemaRules& rules, std::string_view schema);

/// The grammar of any JSON object, with any values in it.
std::string json_grammar();

}  // namespace tensora::llm
