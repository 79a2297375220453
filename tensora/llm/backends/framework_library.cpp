#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "tensora/base/settings.h"
#include "tensora/llm/backends/backend_manager.h"

namespace tensora::llm {
namespace {

constexpr std::string_view kPrefix = "libtensora_framework_", kSuffix = ".so";

bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_' ||
           letter == '-';
  });
}

// The folders that are searched, in order. Never the working directory.
std::vector<std::string> folders() {
  std::vector<std::string> out;
  const std::string_view list = path_setting("TENSORA_FRAMEWORK_PATH");
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    const std::string folder(list.substr(begin, end - begin));
    check(folder.starts_with('/'),
          "TENSORA_FRAMEWORK_PATH: expected absolute folders separated by ':', got '", list, "'");
    out.push_back(folder);
    begin = end + 1;
  }
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&add_framework_library), &info) != 0) {
    const std::string self = info.dli_fname;
    if (const size_t slash = self.rfind('/'); slash != self.npos)
      out.push_back(self.substr(0, slash));
  }
  return out;
}

std::string library_path(const std::string& name, const BackendManager& manager) {
  check(is_plain(name), "a framework's name has letters a to z, digits, '-' and '_', got '", name,
        "'");
  const std::string file = concat(kPrefix, name, kSuffix);
  std::string tried, known;
  for (const std::string& folder : folders()) {
    const std::string path = folder + "/" + file;
    if (access(path.c_str(), F_OK) == 0) return path;
    tried += (tried.empty() ? "" : " and ") + folder;
  }
  for (const std::string& each : manager.names()) known += (known.empty() ? "" : ", ") + each;
  fail("there is no framework '", name, "'; built in: ", known, "; no ", file, " in ", tried,
       " (TENSORA_FRAMEWORK_PATH names other folders)");
}

}  // namespace

std::vector<std::string> installed_frameworks() {
  std::vector<std::string> out;
  for (const std::string& folder : folders()) {
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
      const std::string name =
          file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
      if (is_plain(name)) out.push_back(name);
    }
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

std::string add_framework_library(const std::string& name, BackendManager& manager) {
  const std::string path = library_path(name, manager);
  // It stays open: its code may be needed as long as the program runs.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "the framework's library cannot be opened: ", dlerror());
  const auto abi = reinterpret_cast<int (*)()>(dlsym(library, "tensora_framework_abi"));
  const auto add =
      reinterpret_cast<void (*)(BackendManager&)>(dlsym(library, "tensora_add_frameworks"));
  check(abi != nullptr && add != nullptr, path, " is no framework for Tensora: it lacks ",
        abi ? "tensora_add_frameworks" : "tensora_framework_abi");
  check(abi() == kFrameworkAbi, path, " was built for version ", abi(),
        " of the interface to frameworks, but this Tensora has version ", kFrameworkAbi,
        "; compile it with this Tensora's headers");
  add(manager);
  const auto names = manager.names();
  check(std::ranges::find(names, name) != names.end(), path, " adds no framework '", name, "'");
  return path;
}

}  // namespace tensora::llm
