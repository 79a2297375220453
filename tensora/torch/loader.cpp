// libtensora_framework_libtorch.so, also found as libtensora_framework_hybrid.so: finds LibTorch,
// checks its version and then opens libtensora_torch.so, which is linked with it. LibTorch's C++
// interface changes with every version, so that another one would end in missing symbols or worse.
#include <dlfcn.h>
#include <unistd.h>

#include <fstream>

#include "tensora/base/settings.h"
#include "tensora/llm/backends/backend_manager.h"

namespace {

using tensora::check;

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

/// The version of a wheel or of an unpacked LibTorch.
std::string version_in(const std::string& folder) {
  std::string text;
  if (std::ifstream plain(folder + "/build-version"); plain && std::getline(plain, text))
    return text;
  std::ifstream wheel(folder + "/version.py");
  while (std::getline(wheel, text)) {
    if (!text.starts_with("__version__")) continue;
    const size_t begin = text.find_first_of("'\""), end = text.find_last_of("'\"");
    if (begin < end) return text.substr(begin + 1, end - begin - 1);
  }
  tensora::fail("LibTorch: its version is in neither build-version nor version.py of ", folder);
}

/// The folder of PyTorch, with the version that this was compiled for.
std::string checked_folder() {
  const std::string given(tensora::path_setting("TENSORA_TORCH_DIR"));
  check(given.empty() || given.starts_with('/'),
        "TENSORA_TORCH_DIR: expected an absolute folder, got '", given, "'");
  const std::string folder = given.empty() ? TENSORA_TORCH_FOLDER : given;
  check(exists(folder + "/lib/libtorch_cpu.so"), "LibTorch: there is none in ", folder,
        "; install PyTorch " TENSORA_TORCH_BUILT_FOR
        " there, or let TENSORA_TORCH_DIR name the "
        "folder of the Python package torch");
  const std::string found = version_in(folder);
  check(found == TENSORA_TORCH_BUILT_FOR,
        "LibTorch: Tensora was compiled for PyTorch " TENSORA_TORCH_BUILT_FOR ", but ", folder,
        " has ", found,
        "; compile Tensora again with this one, or let TENSORA_TORCH_DIR name the "
        "folder of the other");
  return folder;
}

void* open_local(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "LibTorch: the library cannot be opened: ", dlerror());
  return library;
}

/// libtensora_torch.so lies beside this library.
std::string own_folder() {
  Dl_info info;
  check(dladdr(reinterpret_cast<void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr,
        "LibTorch: the folder of the framework's library is not known");
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

void* opened_torch() {
  const std::string folder = checked_folder();
  // Libraries that are open already are found by their names, wherever they lie.
  if (folder != TENSORA_TORCH_FOLDER)
    for (const char* name : {"libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"})
      if (const std::string path = folder + "/lib/" + name; exists(path)) open_local(path);
  return open_local(own_folder() + "/libtensora_torch.so");
}

}  // namespace

extern "C" int tensora_framework_abi() { return tensora::llm::kFrameworkAbi; }

extern "C" void tensora_add_frameworks(tensora::llm::BackendManager& manager) {
  static void* const library = opened_torch();
  const auto add = reinterpret_cast<void (*)(tensora::llm::BackendManager&)>(
      dlsym(library, "tensora_torch_add_frameworks"));
  check(add != nullptr, "LibTorch: libtensora_torch.so lacks tensora_torch_add_frameworks");
  add(manager);
}
