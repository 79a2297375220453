#pragma once

#include <cstdlib>
#include <string>

namespace tensora::testing {

/// A variable of the environment that has a value as long as this object exists, and none after.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

}  // namespace tensora::testing
