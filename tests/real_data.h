#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tensora::testing {

/// A real file or data set: $TENSORA_TEST_DATA, or ../shared/data beside the repository; empty
/// where there is none.
inline std::string real_data(const std::string& name) {
  const char* const given = std::getenv("TENSORA_TEST_DATA");
  const std::string folder = given ? given : TENSORA_TESTS "/../../shared/data";
  const std::string path = folder + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace tensora::testing
