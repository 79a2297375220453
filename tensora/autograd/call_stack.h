#pragma once

#include <string>
#include <vector>

namespace tensora {

/// A captured call stack, for anomaly mode and for reports of compiled functions.
class CallStack {
 public:
  /// The stack of the caller.
  static CallStack here();
  /// One line per function, innermost first, with names where the symbol tables have them.
  std::string to_string() const;
  /// The innermost function outside this library; empty where its name is not known.
  std::string caller() const;

 private:
  std::vector<void*> addresses_;
};

}  // namespace tensora
