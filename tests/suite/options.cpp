#include "tests/suite/options.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tensora::suite {
namespace {

struct NamedMode {
  std::string_view name;
  Mode mode;
};
constexpr NamedMode kModes[] = {
    {"value", Mode::value},       {"grad", Mode::grad},       {"view", Mode::view},
    {"inplace", Mode::inplace},   {"error", Mode::error},     {"determinism", Mode::determinism},
    {"perf", Mode::perf},         {"support", Mode::support}, {"meta", Mode::meta},
    {"coverage", Mode::coverage}, {"jit", Mode::jit},         {"ulp", Mode::ulp},
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma != 0) parts.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parts;
}

Mode parse_mode(const std::string& text) {
  for (const NamedMode& known : kModes)
    if (known.name == text) return known.mode;
  std::string names;
  for (const NamedMode& known : kModes) names += concat(names.empty() ? "" : ", ", known.name);
  fail("--mode: there is no mode '", text, "'; expected some of ", names,
       text == "vmap" ? "; vmap is of the Python package: tests/suite/vmap_mode.py" : "");
}

uint64_t parse_number(std::string_view option, const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  check(error == std::errc() && end == text.data() + text.size(), option,
        ": expected a number, got '", text, "'");
  return number;
}

// Sets an option that takes a value. False if there is none of that name.
bool set_option(Options& options, const std::string& option, const std::string& value) {
  if (option == "--device")
    options.device = Device(value);
  else if (option == "--filter")
    options.filters = split(value);
  else if (option == "--json")
    options.json_path = value;
  else if (option == "--output")
    options.support_path = value;
  else if (option == "--seed")
    options.seed = parse_number(option, value);
  else if (option == "--mode")
    for (const std::string& part : split(value)) options.modes.push_back(parse_mode(part));
  else if (option == "--dtype")
    for (const std::string& part : split(value)) options.dtypes.push_back(parse_dtype(part));
  else
    return false;
  return true;
}

bool set_flag(Options& options, const std::string& option) {
  if (option == "--quick")
    options.quick = true;
  else if (option == "--definitions")
    options.definitions = true;
  else if (option == "--list")
    options.list = true;
  else if (option == "--help" || option == "-h")
    options.help = true;
  else
    return false;
  return true;
}

bool matches(const std::string& filter, const std::string& text) {
  return text.find(filter) != std::string::npos || fnmatch(filter.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

std::string_view name(Mode mode) {
  for (const NamedMode& known : kModes)
    if (known.mode == mode) return known.name;
  return "unknown";
}

Options parse_options(std::span<const char* const> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string option = arguments[i], value;
    if (set_flag(options, option)) continue;
    if (const size_t equals = option.find('='); equals != std::string::npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
    } else {
      check(i + 1 < arguments.size(), "'", option,
            "' is no option, or lacks its value; see --help");
      value = arguments[++i];
    }
    check(set_option(options, option, value), "there is no option '", option, "'; see --help");
  }
  if (options.modes.empty())
    for (const NamedMode& known : kModes)
      if (known.mode != Mode::perf && known.mode != Mode::support)
        options.modes.push_back(known.mode);
  return options;
}

std::string usage() {
  return "usage: tensora-ops [options]\n"
         "Runs the sample cases of the ops and closes with 'N passed, N failed'.\n"
         "  --device cpu|cuda[:N]  where the ops run (cpu)\n"
         "  --mode LIST            of value, grad, view, inplace, error, determinism, meta,\n"
         "                         jit, ulp, coverage, perf, support (all but the last two)\n"
         "  --filter LIST          only ops, or op/case pairs, that contain or match one of these\n"
         "  --dtype LIST           only these dtypes\n"
         "  --seed N               of the sample values (0)\n"
         "  --quick                a deterministic subsample, for slow builds\n"
         "  --definitions          ops that have a definition in other ops run it in place of "
         "their\n"
         "                         kernel, as on a device that has kernels for primitives only\n"
         "  --json FILE            writes every check with its outcome\n"
         "  --output FILE          where `support` writes its table (support.md)\n"
         "  --list                 names the cases and runs nothing\n";
}

bool selects(const Options& options, const std::string& op, const std::string& sample) {
  if (options.filters.empty()) return true;
  return std::any_of(options.filters.begin(), options.filters.end(),
                     [&](const std::string& filter) {
                       return matches(filter, op) || matches(filter, op + "/" + sample);
                     });
}

}  // namespace tensora::suite
