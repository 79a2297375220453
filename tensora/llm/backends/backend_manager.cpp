#include "tensora/llm/backends/backend_manager.h"

#include <algorithm>

#include "tensora/llm/backends/native_backend.h"

namespace tensora::llm {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

BackendManager::BackendManager() {
  for (const char* device : {"cuda", "cpu"})
    add({.name = concat("native-", device), .uses_gpu = !Device(device).is_cpu(), .make = [device] {
           return std::make_unique<NativeBackend>(Device(device));
         }});
}

void BackendManager::add(BackendEntry entry) {
  check(entry.make != nullptr, "backends: ", entry.name, " has no function that makes it");
  for (const BackendEntry& other : entries_)
    check(other.name != entry.name, "backends: there is a backend '", entry.name, "' already");
  entries_.push_back(std::move(entry));
}

std::vector<std::string> BackendManager::names() const {
  std::vector<std::string> out;
  for (const BackendEntry& entry : entries_) out.push_back(entry.name);
  return out;
}

std::vector<const BackendEntry*> BackendManager::candidates(const BackendChoice& choice) const {
  std::vector<const BackendEntry*> out;
  for (const std::string& name : choice.preference) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const BackendEntry& entry) { return entry.name == name; });
    check(found != entries_.end(), "backends: expected one of ", joined(names()), ", got '", name,
          "'");
    out.push_back(&*found);
  }
  if (!choice.preference.empty()) return out;
  for (const BackendEntry& entry : entries_) out.push_back(&entry);
  std::stable_partition(out.begin(), out.end(),
                        [](const BackendEntry* entry) { return entry->uses_gpu; });
  return out;
}

std::unique_ptr<FrameworkBackend> BackendManager::choose(const BackendChoice& choice) const {
  const auto log = [&](const std::string& line) {
    if (choice.log) choice.log(line);
  };
  std::string reasons;
  for (const BackendEntry* entry : candidates(choice)) {
    std::string reason;
    if (choice.require_gpu && !entry->uses_gpu) {
      reason = "it uses no GPU, and one is required";
    } else {
      try {
        auto backend = entry->make();
        if (choice.self_test) self_test(*backend);
        log(concat(entry->name, " is used"));
        return backend;
      } catch (const std::exception& error) {
        reason = error.what();
      }
    }
    log(concat(entry->name, " is not used: ", reason));
    reasons += concat(reasons.empty() ? "" : "; ", entry->name, ": ", reason);
  }
  fail("backends: none can be used: ", reasons);
}

}  // namespace tensora::llm
