#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/helpers.h"

namespace tensora::testing {

/// The cases of a file that make_goldens.py wrote: numbers by name.
inline std::map<std::string, Values> read_goldens(const std::string& name) {
  std::ifstream file(std::string(TENSORA_TESTS) + "/optim/goldens/" + name);
  std::map<std::string, Values> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    for (double number; words >> number;) cases[key].push_back(number);
  }
  return cases;
}

/// Expects equal lists, up to a relative and absolute tolerance.
inline void expect_close(const Values& actual, const Values& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << ", number " << i;
}

}  // namespace tensora::testing
