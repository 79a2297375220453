#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/llm/backends/framework_backend.h"

namespace tensora::llm {

/// How backends of a framework are made.
struct BackendEntry {
  std::string name;                                    // "native"
  std::vector<std::string> devices = {"cuda", "cpu"};  // kinds that it can use, the best first
  /// Throws, with the reason, where this machine cannot run it.
  std::function<std::unique_ptr<FrameworkBackend>(Device)> make;
  bool is_own = false;  // part of this library: needs no self-test on a device that was asked for
};

struct BackendChoice {
  /// Names of frameworks, the best first; empty: native.
  std::vector<std::string> frameworks = {};
  /// None: the first of a framework's kinds of devices that works.
  std::optional<Device> device = {};
  bool require_gpu = false;  // an error instead of a backend without one
  bool self_test = true;     // each must first give the right answer of a tiny model
  /// Told why a backend was not taken, and which one was.
  std::function<void(const std::string& line)> log = nullptr;
};

/// Knows the frameworks, and finds a backend that works.
class BackendManager {
 public:
  /// With this library's own framework: native.
  BackendManager();

  /// Throws where the name is taken.
  void add(BackendEntry entry);
  std::vector<std::string> names() const;
  /// The first of the preferred frameworks that works. A name that was not added is looked up as
  /// the library libtensora_framework_NAME.so. Throws, with the reasons, if none works.
  std::unique_ptr<FrameworkBackend> choose(const BackendChoice& choice = {});

 private:
  struct Candidate {
    const BackendEntry* entry;
    Device device;
  };
  const BackendEntry* find(const std::string& name) const;
  std::vector<Candidate> candidates(const BackendEntry& entry, const BackendChoice& choice) const;

  std::vector<std::unique_ptr<BackendEntry>> entries_;
};

/// The version of what a framework's library and libtensora share: FrameworkBackend and the types
/// in its functions. Raised with every change of their layout.
inline constexpr int kFrameworkAbi = 2;

/// Opens libtensora_framework_NAME.so, from the folders of TENSORA_FRAMEWORK_PATH or from beside
/// libtensora.so, and lets it add its entries. The library has two functions:
/// `extern "C" int tensora_framework_abi()` returns the kFrameworkAbi that it was compiled with,
/// and `extern "C" void tensora_add_frameworks(tensora::llm::BackendManager&)` adds its entries.
void add_framework_library(const std::string& name, BackendManager& manager);

}  // namespace tensora::llm
