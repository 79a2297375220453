#include "tensora/llm/backends/backend_manager.h"

#include <algorithm>

#include "tensora/core/backend.h"
#include "tensora/llm/backends/native_backend.h"

namespace tensora::llm {
namespace {

// Runs `work`; the message of what it throws, empty if nothing.
template <class Work>
std::string reason_of(const Work& work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

}  // namespace

BackendManager::BackendManager() {
  add({.name = "native",
       .make = [](Device device) { return std::make_unique<NativeBackend>(device); },
       .is_own = true});
}

void BackendManager::add(BackendEntry entry) {
  check(!entry.name.empty() && entry.make != nullptr && !entry.devices.empty(),
        "frameworks: an entry needs a name, kinds of devices and a function that makes a backend, ",
        "got the name '", entry.name, "'");
  check(find(entry.name) == nullptr, "frameworks: there is a framework '", entry.name, "' already");
  entries_.push_back(std::make_unique<BackendEntry>(std::move(entry)));
}

std::vector<std::string> BackendManager::names() const {
  std::vector<std::string> out;
  for (const auto& entry : entries_) out.push_back(entry->name);
  return out;
}

const BackendEntry* BackendManager::find(const std::string& name) const {
  for (const auto& entry : entries_)
    if (entry->name == name) return entry.get();
  return nullptr;
}

std::vector<BackendManager::Candidate> BackendManager::candidates(
    const BackendEntry& entry, const BackendChoice& choice) const {
  if (choice.device) return {{&entry, *choice.device}};
  std::vector<Candidate> out;
  for (const std::string& kind : entry.devices) {
    // A device whose backend was not built is no candidate, so nothing is said about it.
    const Device device(kind);
    if (device.is_cpu() || choice.require_gpu || has_backend_library(kind))
      out.push_back({&entry, device});
  }
  return out;
}

std::unique_ptr<FrameworkBackend> BackendManager::choose(const BackendChoice& choice) {
  std::string reasons;
  const auto log = [&](const std::string& line) {
    if (choice.log) choice.log(line);
  };
  const auto refuse = [&](const std::string& what, const std::string& reason) {
    log(concat(what, " is not used: ", reason));
    reasons += concat(reasons.empty() ? "" : "; ", what, ": ", reason);
  };
  std::vector<std::string> wanted = choice.frameworks;
  if (wanted.empty()) wanted = {"native"};
  for (const std::string& name : wanted) {
    if (!find(name)) {
      const std::string reason = reason_of([&] { add_framework_library(name, *this); });
      if (!reason.empty()) {
        refuse(name, reason);
        continue;
      }
    }
    for (const auto& [entry, device] : candidates(*find(name), choice)) {
      const std::string label = concat(name, "-", tensora::name(device.type));
      const std::string kind(tensora::name(device.type));
      std::unique_ptr<FrameworkBackend> backend;
      const std::string reason = reason_of([&, entry = entry, device = device] {
        check(!choice.require_gpu || !device.is_cpu(), "it uses no GPU, and one is required");
        check(std::ranges::find(entry->devices, kind) != entry->devices.end(),
              "the framework does not run on ", kind);
        backend = entry->make(device);
        ensure(backend != nullptr, name, ": no backend was made");
        const bool is_sure = entry->is_own && (choice.device || device.is_cpu());
        if (choice.self_test && !is_sure) self_test(*backend);
      });
      if (reason.empty()) {
        log(concat(label, " is used"));
        return backend;
      }
      refuse(label, reason);
    }
  }
  fail("frameworks: none can be used: ", reasons);
}

}  // namespace tensora::llm
