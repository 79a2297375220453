#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"

namespace tensora::llm {

/// How a backend comes to be.
struct BackendEntry {
  std::string name;  // "native-cuda"
  bool uses_gpu = false;
  /// Throws, with the reason, where this machine cannot run it.
  std::function<std::unique_ptr<FrameworkBackend>()> make;
};

struct BackendChoice {
  /// Names, the best first; empty: all that are known, those that use a GPU first.
  std::vector<std::string> preference = {};
  bool require_gpu = false;  // an error instead of a backend without one
  bool self_test = true;     // each must first give the right answer of a tiny model
  /// Told why a backend was not taken, and which one was.
  std::function<void(const std::string& line)> log = nullptr;
};

/// Knows the backends, and finds one that works.
class BackendManager {
 public:
  /// With this library's own: native-cuda and native-cpu.
  BackendManager();

  /// Throws where the name is taken.
  void add(BackendEntry entry);
  std::vector<std::string> names() const;
  /// The first of the preferred ones that works. Throws, with the reasons, if none does.
  std::unique_ptr<FrameworkBackend> choose(const BackendChoice& choice = {}) const;

 private:
  std::vector<const BackendEntry*> candidates(const BackendChoice& choice) const;

  std::vector<BackendEntry> entries_;
};

}  // namespace tensora::llm
