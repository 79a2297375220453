#pragma once

#include <string>
#include <vector>

#include "tensora/serve/answer_grammar.h"

namespace tensora::serve {

/// A parameter of a tool, in a format that writes each in a tag of its own.
struct TagParameter {
  std::string name;
  bool is_required = false;
  /// The value is written as it is, not as JSON: a string without any constraint, or one of
  /// `choices`.
  bool is_text = false;
  std::vector<std::string> choices = {};
  std::string schema = {};  // of a value that is JSON
};

/// What stands behind a value.
inline constexpr const char* kTagEnd = "\n</parameter>";

/// The parameters of a tool, in the order of its schema. Throws ApiError 400 with path and keyword
/// for a schema that tags cannot express: anything but properties, of which some are required.
std::vector<TagParameter> tag_parameters(const Tool& tool);

}  // namespace tensora::serve
