#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/hugging_face/json_object.h"

// For sources only: public headers do not include this.

namespace tensora::llm {

/// What is done with the fields of a JSON file. A field is in one of three groups; anything else is
/// ignored, as transformers does, and reported.
struct ConfigFields {
  /// Fields that are read, with the values that transformers assumes where they are absent.
  std::string_view used = "{}";
  /// Fields that change the computation in a way that is not implemented: for each the list of the
  /// values that are accepted because they change nothing.
  std::string_view fixed = "{}";
  /// Names of fields that do not change what the model computes, separated by blanks.
  std::string_view irrelevant = "";
};

/// A kind of model, by config.json's `model_type`.
struct ConfigFamily {
  std::string_view model_type;
  std::string_view architecture;  // GGUF's name
  std::string_view model_class;   // of transformers
  ConfigFields fields;
  int64_t window_period = 0;  // without layer_types every n-th layer is global; 0: see config_keys
  bool qkv_bias = false;      // q, k and v have biases, whatever the fields say
};

/// The family of a `model_type`; throws for an unknown one, and lists the known ones.
const ConfigFamily& find_family(const std::string& model_type);
std::span<const ConfigFamily> config_families();
/// The fields that all families have in common; a family's own go first.
const ConfigFields& common_config_fields();
/// Whether the family, or all families, read this field.
bool is_used(const ConfigFamily& family, const std::string& field);

/// The object with the defaults of what it leaves out. Throws for a field whose value is not
/// accepted; appends the names of fields that are in no group to `ignored`, unless their value
/// (null, false, 0 or empty) says that they are off. `what` names the model in messages.
JsonObject checked_fields(const JsonObject& object, std::span<const ConfigFields> groups,
                          std::string_view what, std::vector<std::string>& ignored);

}  // namespace tensora::llm
