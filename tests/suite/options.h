#pragma once

#include "tests/suite/cases.h"

namespace tensora::suite {

/// The command line of tensora-ops.
struct Options {
  Device device;
  std::vector<Mode> modes;
  std::vector<std::string> filters;  // substrings or globs of "op" or "op/case"
  std::vector<DType> dtypes;         // empty: those of the cases
  std::string json_path;
  std::string support_path = "support.md";
  uint64_t seed = 0;
  bool quick = false;
  bool definitions = false;  // ops run their definitions in other ops instead of their kernels
  bool list = false;
  bool help = false;
};

/// Throws Error for what it does not understand.
Options parse_options(std::span<const char* const> arguments);
std::string usage();

std::string_view name(Mode mode);
/// Whether the filters let an op's case through.
bool selects(const Options& options, const std::string& op, const std::string& sample);

}  // namespace tensora::suite
