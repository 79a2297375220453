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
  std::string version = {};  // of the framework: "2.15.0+cu132"
  std::string library = {};  // where it was found; BackendManager fills it in
};

/// A framework on this machine.
struct FrameworkStatus {
  struct DeviceStatus {
    std::string kind;    // "cuda"
    std::string reason;  // why it cannot be used; empty: it can
  };
  std::string name, version, library;  // library: empty for those built in
  std::string reason;                  // why there is none of it at all; empty: see the devices
  std::vector<DeviceStatus> devices;

  bool is_usable() const;
};

struct BackendChoice {
  /// Names of frameworks, the best first; empty: native. "auto" stands for native, hybrid,
  /// libtorch and then whatever else is installed.
  std::vector<std::string> frameworks = {};
  /// None: the first of a framework's kinds of devices that works.
  std::optional<Device> device = {};
  bool require_gpu = false;  // an error instead of a backend without one
  bool fallback = true;      // off: the first framework of the list, or an error
  bool self_test = true;     // each must first give the right answer of a tiny model
  /// Inspects a framework from outside before its library is opened here, instead of the self-test:
  /// a program can do that in another process.
  std::function<FrameworkStatus(const std::string& name)> inspect = nullptr;
  /// Loads the model into the backend that was chosen. Where that throws, the next framework of
  /// the list is tried; it is the caller's error if there is none.
  std::function<void(FrameworkBackend&)> prepare = nullptr;
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
  /// the library libtensora_framework_NAME.so. Throws, with the reasons, if none works;
  /// FrameworkBackend::refusals has those of the ones before it.
  std::unique_ptr<FrameworkBackend> choose(const BackendChoice& choice = {});
  /// Makes a backend of a framework on each kind of device, or the one that is given, and lets it
  /// run its self-test; ends at the first that works unless `all`. Does not throw.
  FrameworkStatus inspect(const std::string& name, std::optional<Device> device = {},
                          bool all = true);

 private:
  struct Candidate {
    const BackendEntry* entry;
    Device device;
  };
  class Selection;
  const BackendEntry* find(const std::string& name) const;
  /// A backend that passed its test; `status` is what was found out elsewhere.
  std::unique_ptr<FrameworkBackend> make(const Candidate& candidate, const BackendChoice& choice,
                                         const FrameworkStatus* status) const;
  /// Opens its library where it was not added; throws where there is none.
  const BackendEntry& obtain(const std::string& name);
  std::vector<Candidate> candidates(const BackendEntry& entry, const BackendChoice& choice) const;

  std::vector<std::unique_ptr<BackendEntry>> entries_;
};

/// The version of what a framework's library and libtensora share: FrameworkBackend and the types
/// in its functions. Raised with every change of their layout.
inline constexpr int kFrameworkAbi = 4;

/// Opens libtensora_framework_NAME.so, from the folders of TENSORA_FRAMEWORK_PATH or from beside
/// libtensora.so, and lets it add its entries; returns where it was. The library has two functions:
/// `extern "C" int tensora_framework_abi()` returns the kFrameworkAbi that it was compiled with,
/// and `extern "C" void tensora_add_frameworks(tensora::llm::BackendManager&)` adds its entries.
std::string add_framework_library(const std::string& name, BackendManager& manager);
/// The names of all such libraries in those folders, sorted. None of them is opened.
std::vector<std::string> installed_frameworks();

}  // namespace tensora::llm
