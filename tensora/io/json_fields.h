#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tensora/base/check.h"

// For sources only: public headers do not include this.

namespace tensora::io {

/// Reads `value` if a JSON object has an entry of this name that is not null; an entry of another
/// kind is an error that names `what` is being read.
template <class T>
void read_field(const nlohmann::ordered_json& object, const char* name, T& value,
                std::string_view what) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  try {
    value = found->template get<T>();
  } catch (const nlohmann::json::exception&) {
    fail(what, ": the value of '", name, "' is of the wrong kind: ", found->dump());
  }
}
template <class T>
void read_field(const nlohmann::ordered_json& object, const char* name, std::optional<T>& value,
                std::string_view what) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  read_field(object, name, value.emplace(), what);
}

}  // namespace tensora::io
