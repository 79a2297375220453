#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "tensora/base/check.h"

namespace tensora::cuda {

/// A shared library that is opened when it is first needed and stays open.
class DynamicLibrary {
 public:
  /// Tries the names in order; throws an Error that names `purpose` when none can be opened.
  DynamicLibrary(std::initializer_list<const char*> names, const char* purpose) {
    std::string reasons;
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
      reasons = dlerror();
    }
    fail("cuda: ", purpose, " needs ", *names.begin(), ", which could not be opened (", reasons,
         "); install the CUDA toolkit's libraries or add them to LD_LIBRARY_PATH");
  }

  /// Sets `function` to the symbol of that name.
  template <class Function>
  void load(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
    check(function != nullptr, "cuda: ", symbol, " is missing from a CUDA library");
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace tensora::cuda
