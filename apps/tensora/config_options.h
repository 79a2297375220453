#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>

#include "commands.h"
#include "files.h"
#include "tensora/train/config_json.h"
#include "tensora/train/trainer.h"

namespace tensora::cli {

/// Options for all settings of a configuration, a struct with `fields`: "grad_accum" becomes
/// --grad-accum.
template <class Config>
class ConfigOptions {
 public:
  explicit ConfigOptions(CLI::App& app) : app_(app) {
    Config::fields(given_, [&](const char* name, auto& member, const char* help) {
      add(app, name, member, help);
    });
  }

  CLI::Option* option(const std::string& name) const { return app_.get_option(flag_of(name)); }

  /// The settings of `base`, but for those that the command line gives.
  Config over(const Config& base) const {
    nlohmann::ordered_json chosen = nlohmann::ordered_json::object();
    Config::fields(given_, [&](const char* name, const auto& member, const char*) {
      if (option(name)->count() == 0) return;
      // JSON has no such numbers: the setting would be left out without a word.
      if constexpr (std::is_same_v<std::decay_t<decltype(member)>, double>)
        if (!std::isfinite(member))
          throw UsageError(concat(flag_of(name), ": expected a finite number, got ", member));
      chosen[name] = member;
    });
    return train::config_from_json(base, chosen.dump(), "the command line");
  }

 private:
  static std::string flag_of(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return "--" + name;
  }
  static void add(CLI::App& app, const std::string& name, bool& member, const char* help) {
    app.add_flag(flag_of(name) + ",!" + flag_of("no_" + name), member, help);
  }
  template <class T>
  static void add(CLI::App& app, const std::string& name, T& member, const char* help) {
    CLI::Option* option = app.add_option(flag_of(name), member, help);
    // 0, -1 and the empty text mean the preset's value, which says nothing.
    bool says_nothing = member == T{};
    if constexpr (std::is_arithmetic_v<T>) says_nothing = says_nothing || member == T(-1);
    if (!says_nothing) option->capture_default_str();
  }

  CLI::App& app_;
  Config given_;
};

/// Where a run is, and what it starts from.
struct RunOptions {
  std::string out, config;
  bool resume = false;
};

void add_run_options(CLI::App& app, RunOptions& options);
/// Throws if the folder of a run can neither be written to nor be made: asked before a text is
/// read and a vocabulary learned.
void check_folder(const std::string& out);
/// Tells how to go on with a run that a signal stopped, and throws Interrupted. `command` starts a
/// run like it.
[[noreturn]] void stop_interrupted(const std::string& command, const RunOptions& options,
                                   const train::TrainerOutcome& outcome);
/// "loss 5.41", for the last line of a run.
std::string loss_text(const train::TrainerOutcome& outcome);

/// Flags win over the file that --config names, which wins over what a resumed run was started
/// with.
template <class Config>
Config configuration(const ConfigOptions<Config>& settings, const RunOptions& options) {
  check_folder(options.out);
  Config base;
  const std::string kept = options.out + "/config.json";
  const bool there = std::filesystem::exists(kept);
  if (there && !options.resume)
    throw UsageError(options.out +
                     " already holds a run: continue it with --resume, or choose another --out");
  if (there) base = train::config_from_json(base, read_file(kept), kept);
  if (!options.config.empty()) {
    Config other = train::config_from_json(base, read_file(options.config), options.config);
    // The file may belong to a run on another text.
    if constexpr (requires { other.text_sha256; }) other.text_sha256 = base.text_sha256;
    base = std::move(other);
  }
  return settings.over(base);
}

}  // namespace tensora::cli
