#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <system_error>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/temporary_folder.h"

namespace tensora::testing {

inline std::string read_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}
inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace tensora::testing
