#pragma once

#include <string>
#include <vector>

namespace tensora {

/// The functions that were being executed at one moment, for anomaly mode.
class CallStack {
 public:
  /// Of the caller.
  static CallStack here();
  /// One line per function, innermost first, by name where the program's files tell it.
  std::string to_string() const;

 private:
  std::vector<void*> addresses_;
};

}  // namespace tensora
