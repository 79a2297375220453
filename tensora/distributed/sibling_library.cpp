#include "tensora/distributed/sibling_library.h"

#include <dlfcn.h>

#include "tensora/base/check.h"

namespace tensora::distributed {
namespace {

std::string beside_this(const std::string& file) {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&beside_this), &info) || !info.dli_fname) return file;
  const std::string own = info.dli_fname;
  const size_t slash = own.rfind('/');
  return slash == std::string::npos ? file : own.substr(0, slash + 1) + file;
}

}  // namespace

SiblingLibrary::SiblingLibrary(const std::string& file, std::string_view given,
                               std::string_view advice)
    : path_(given.empty() ? beside_this(file) : std::string(given)) {
  // MPI's own modules look for its symbols in the global scope.
  handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle_) return;
  const char* const reason = ::dlerror();
  fail(advice, ": ", reason ? reason : "it could not be opened");
}

void* SiblingLibrary::function(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  check(found, path_, " has no function ", name, ": it is not a library of Tensora");
  return found;
}

}  // namespace tensora::distributed
