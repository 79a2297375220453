#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "tensora/base/check.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/json_fields.h"
#include "tensora/io/mapped_file.h"

namespace tensora::train {

/// A configuration, a struct with `fields`, as a JSON object.
template <class Config>
std::string config_to_json(const Config& config) {
  nlohmann::ordered_json json;
  Config::fields(config,
                 [&](const char* name, const auto& value, const char*) { json[name] = value; });
  return json.dump(2) + "\n";
}

/// Writes config.json into the folder of a run.
template <class Config>
void write_config(const Config& config, const std::string& folder) {
  io::AtomicFile file(folder + "/config.json");
  file.write(config_to_json(config));
  file.commit();
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

/// The settings in config.json of a run's folder.
template <class Config>
Config read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return io::reading("read_config", path, [&] {
    const auto file = io::MappedFile::open(path);
    const io::ConstBytes bytes = file->bytes();
    return config_from_json(Config(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                            "settings");
  });
}

/// Throws if a setting that `Config::fixed` lists differs from the one that a run began with.
template <class Config>
void check_unchanged(const Config& config, const Config& kept, std::string_view folder) {
  const auto now = nlohmann::ordered_json::parse(config_to_json(config));
  const auto before = nlohmann::ordered_json::parse(config_to_json(kept));
  for (const char* name : Config::fixed)
    check(now[name] == before[name], name, " must stay ", before[name].dump(),
          ", with which the run in ", folder, " began, got ", now[name].dump(),
          "; another value needs a run in another folder");
}

}  // namespace tensora::train
