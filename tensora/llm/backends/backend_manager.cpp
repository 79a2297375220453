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
    return *error.what() ? error.what() : "it threw an exception without a message";
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

void append_unique(std::vector<std::string>& list, const std::string& name) {
  if (std::ranges::find(list, name) == list.end()) list.push_back(name);
}

// The list with "auto" replaced and without repetitions.
std::vector<std::string> expand(const std::vector<std::string>& frameworks) {
  std::vector<std::string> out;
  for (const std::string& name : frameworks) {
    if (name != "auto") {
      append_unique(out, name);
      continue;
    }
    const std::vector<std::string> installed = installed_frameworks();
    append_unique(out, "native");
    for (const char* known : {"hybrid", "libtorch"})
      if (std::ranges::find(installed, known) != installed.end()) append_unique(out, known);
    for (const std::string& each : installed) append_unique(out, each);
  }
  if (out.empty()) out.emplace_back("native");
  return out;
}

}  // namespace

bool FrameworkStatus::is_usable() const {
  return std::ranges::any_of(devices, [](const auto& device) { return device.reason.empty(); });
}

// What was refused, told as it happens and kept for the error or the result.
class BackendManager::Selection {
 public:
  explicit Selection(const BackendChoice& choice) : choice_(choice) {}

  void refuse(const std::string& what, const std::string& reason) {
    log(concat(what, " is not used: ", reason));
    reasons_.push_back(concat(what, ": ", reason));
  }
  std::unique_ptr<FrameworkBackend> take(std::unique_ptr<FrameworkBackend> backend) {
    log(concat(backend->label(), " is used"));
    backend->set_refusals(std::move(reasons_));
    return backend;
  }
  std::string text() const {
    std::string out;
    for (const std::string& reason : reasons_) out += (out.empty() ? "" : "; ") + reason;
    return out;
  }

 private:
  void log(const std::string& line) const {
    if (choice_.log) choice_.log(line);
  }
  const BackendChoice& choice_;
  std::vector<std::string> reasons_;
};

BackendManager::BackendManager() {
  add({.name = "native",
       .make = [](Device device) { return std::make_unique<NativeBackend>(device); },
       .is_own = true,
       .version = NativeBackend::version()});
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

const BackendEntry& BackendManager::obtain(const std::string& name) {
  if (const BackendEntry* known = find(name)) return *known;
  const size_t before = entries_.size();
  const std::string library = add_framework_library(name, *this);
  for (size_t i = before; i < entries_.size(); ++i) entries_[i]->library = library;
  return *find(name);
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

std::unique_ptr<FrameworkBackend> BackendManager::make(const Candidate& candidate,
                                                       const BackendChoice& choice,
                                                       const FrameworkStatus* status) const {
  const auto& [entry, device] = candidate;
  const std::string kind(tensora::name(device.type));
  check(!choice.require_gpu || !device.is_cpu(), "it uses no GPU, and one is required");
  check(std::ranges::find(entry->devices, kind) != entry->devices.end(),
        "the framework does not run on ", kind);
  if (status)
    for (const auto& known : status->devices)
      check(known.kind != kind || known.reason.empty(), known.reason);
  auto backend = entry->make(device);
  ensure(backend != nullptr, entry->name, ": no backend was made");
  const bool is_sure = status || (entry->is_own && (choice.device || device.is_cpu()));
  if (choice.self_test && !is_sure) self_test(*backend);
  return backend;
}

std::unique_ptr<FrameworkBackend> BackendManager::choose(const BackendChoice& choice) {
  Selection selection(choice);
  std::vector<std::string> wanted = expand(choice.frameworks);
  if (!choice.fallback) wanted.resize(1);
  for (const std::string& name : wanted) {
    const BackendEntry* found = nullptr;
    std::optional<FrameworkStatus> status;
    const std::string no_framework = reason_of([&] {
      const BackendEntry* known = find(name);
      if (choice.inspect && !(known && known->is_own)) status = choice.inspect(name);
      if (status) check(status->reason.empty(), status->reason);
      found = &obtain(name);
    });
    if (!found) {
      selection.refuse(name, no_framework);
      continue;
    }
    for (const Candidate& candidate : candidates(*found, choice)) {
      std::unique_ptr<FrameworkBackend> backend;
      const std::string reason =
          reason_of([&] { backend = make(candidate, choice, status ? &*status : nullptr); });
      if (!reason.empty()) {
        selection.refuse(concat(name, "-", tensora::name(candidate.device.type)), reason);
        continue;
      }
      if (!choice.prepare) return selection.take(std::move(backend));
      // Another framework may load what this one cannot; another device is for the user to choose.
      if (name == wanted.back()) {
        choice.prepare(*backend);
        return selection.take(std::move(backend));
      }
      const std::string cannot_load = reason_of([&] { choice.prepare(*backend); });
      if (cannot_load.empty()) return selection.take(std::move(backend));
      backend->cleanup();
      selection.refuse(backend->label(), cannot_load);
      break;
    }
  }
  fail("frameworks: none can be used: ", selection.text());
}

FrameworkStatus BackendManager::inspect(const std::string& name, std::optional<Device> device,
                                        bool all) {
  FrameworkStatus status;
  status.name = name;
  const BackendEntry* entry = nullptr;
  status.reason = reason_of([&] { entry = &obtain(name); });
  if (!entry) return status;
  status.version = entry->version;
  status.library = entry->library;
  for (const std::string& kind : entry->devices) {
    if (device && tensora::name(device->type) != kind) continue;
    status.devices.push_back({kind, reason_of([&] {
                                const auto backend = entry->make(device.value_or(Device(kind)));
                                ensure(backend != nullptr, name, ": no backend was made");
                                self_test(*backend);
                              })});
    if (!all && status.devices.back().reason.empty()) break;
  }
  if (status.devices.empty()) status.reason = concat("the framework does not run on ", *device);
  return status;
}

}  // namespace tensora::llm
