#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "tensora/base/check.h"
#include "tensora/io/json_fields.h"

namespace tensora::train {

/// A configuration, a struct with `fields`, as a JSON object.
template <class Config>
std::string config_to_json(const Config& config) {
  nlohmann::ordered_json json;
  Config::fields(config,
                 [&](const char* name, const auto& value, const char*) { json[name] = value; });
  return json.dump(2) + "\n";
}

/// The settings that a JSON object names, on top of `config`. A name that is unknown, or a value of
/// another kind, is an error.
template <class Config>
Config config_from_json(Config config, std::string_view text, std::string_view what) {
  try {
    auto json = nlohmann::ordered_json::parse(text);
    check(json.is_object(), what, ": expected a JSON object");
    Config::fields(config, [&](const char* name, auto& value, const char*) {
      const auto found = json.find(name);
      if (found == json.end()) return;
      io::read_field(json, name, value, what);
      json.erase(found);
    });
    check(json.empty(), what, ": there is no setting '", json.empty() ? "" : json.begin().key(),
          "'");
    return config;
  } catch (const nlohmann::json::exception& error) {
    fail(what, ": ", error.what());
  }
}

}  // namespace tensora::train
