#include "tensora/backend/cpu/gemm_installed.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <vector>

#include "tensora/backend/cpu/address_space.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/base/check.h"
#include "tensora/base/fork.h"
#include "tensora/base/settings.h"
#include "tensora/base/thread_pool.h"

// Note [Libraries on request]
// Large products are the one place where decades of tuning per processor pay, so OpenBLAS and
// oneDNN run them where they are installed. They are opened when first needed, not linked: a
// program that multiplies nothing large starts without their 70 MB, and one on a machine without
// them still works, with our own kernels. TENSORA_BLAS=off disables them.
//
// Note [Libraries and threads]
// They are called from several of our pool's threads at once, and must not start threads of their
// own meanwhile.
//   OpenBLAS: only the pthreads build works. The serial build has no locks around its buffers: two
//   threads inside it give wrong products. The OpenMP build rearranges its buffers whenever
//   the calling thread's OpenMP setting differs from that of the call before.
//   oneDNN: dnnl_sgemm holds no state between calls but kernels that are made once, under a lock;
//   its buffers belong to the call.
// If the program itself has loaded a library with global symbols, these would take precedence over
// those of any other build that we open. Then it is that build or none.
//
// Note [Products that a signal destroys]
// oneDNN's products by AVX-512 use the stack pointer as one more register. The kernel writes a
// signal's frame where that points: into somebody's memory. A program that receives signals (Ctrl-C
// in Python, a profiler's timer) dies of it later. They are not used; its convolutions are.
//
// Note [A processor that OpenBLAS does not know]
// OpenBLAS chooses its kernels by the processor's model number as it is loaded. A release that is
// older than the processor (0.3.21 of Debian 12 on Intel's Emerald Rapids) takes those of 2004,
// which are many times slower. It is then loaded once more with OPENBLAS_CORETYPE set, the only
// way to tell it; what the user has set stays as it is.

namespace tensora::cpu {
namespace {

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

/// The folder of the C library; a distribution's other libraries are found from there.
std::string system_folder() {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (!libc) return {};
  const link_map* map = nullptr;
  const bool known = dlinfo(libc, RTLD_DI_LINKMAP, &map) == 0;
  const std::string path = known ? map->l_name : "";
  dlclose(libc);
  return path.substr(0, path.rfind('/') + 1);
}

std::string file_of(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "it";
}

struct ThreadCount {
  void (*set)(int) = nullptr;
  int (*get)() = nullptr;
};

// ---- OpenBLAS ----

/// The kernels that the library should have chosen, by its own name for them, or null if it may
/// keep its choice. See Note [A processor that OpenBLAS does not know].
const char* better_kernels(void* library) {
  const char* (*chosen)() = nullptr;
  if (cpu_isa() == Isa::baseline || !setting("OPENBLAS_CORETYPE").empty() ||
      !find(library, "openblas_get_corename", chosen) || std::string_view(chosen()) != "Prescott")
    return nullptr;
  return cpu_isa() == Isa::avx512 ? "SkylakeX" : "Haswell";
}

void* open_openblas(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const kernels = library ? better_kernels(library) : nullptr;
  if (!kernels) return library;
  dlclose(library);
  setenv("OPENBLAS_CORETYPE", kernels, 0);
  library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  unsetenv("OPENBLAS_CORETYPE");
  return library;
}

// See Note [Libraries under a memory limit].
constexpr auto kNoRoom =
    "the limit of the address space (ulimit -v) leaves no room for its buffers";

struct OpenedOpenBlas : OpenBlas {
  ThreadCount threads;
  void* handle = nullptr;

  OpenedOpenBlas() {
    if (dlsym(RTLD_DEFAULT, "openblas_get_parallel")) {
      take(RTLD_DEFAULT);
      return;
    }
    if (!has_address_space(openblas_address_space(get_num_threads()))) {
      refusal = kNoRoom;
      return;
    }
    // Debian installs its builds in separate folders, and libopenblas.so.0 is the one that the
    // administrator chose; Fedora distinguishes them by a letter.
    const std::string folder = system_folder();
    for (const std::string& name :
         {folder + "openblas-pthread/libopenblas.so.0", std::string("libopenblasp.so.0"),
          std::string("libopenblas.so.0"), std::string("libopenblas.so")}) {
      void* const library = open_openblas(name);
      if (!library) continue;
      if (take(library)) return;
      dlclose(library);
    }
    if (refusal.empty()) refusal = "no libopenblas.so.0 was found";
  }

  bool take(void* library) {
    int (*parallel)() = nullptr;
    const char* (*config)() = nullptr;
    if (!find(library, "openblas_get_parallel", parallel) ||
        !find(library, "openblas_get_config", config) ||
        !find(library, "openblas_set_num_threads", threads.set) ||
        !find(library, "openblas_get_num_threads", threads.get)) {
      refusal = "the library found does not say how it was built";
      return false;
    }
    constexpr int kPthreads = 1, kOpenMp = 2;
    if (const int build = parallel(); build != kPthreads) {
      refusal = concat(file_of(reinterpret_cast<void*>(parallel)), " is built ",
                       build == kOpenMp ? "with OpenMP" : "without threads",
                       " and gives wrong results when several threads call it at once; install the "
                       "build with pthreads (Debian, Ubuntu: libopenblas0-pthread)");
      return false;
    }
    if (!map_openblas_buffers(library, get_num_threads())) {
      refusal = kNoRoom;
      return false;
    }
    Sgemm s = nullptr;
    Dgemm d = nullptr;
    if (!find(library, "cblas_sgemm", s) || !find(library, "cblas_dgemm", d)) {
      refusal = "the library found has no CBLAS interface";
      return false;
    }
    sgemm = s;
    dgemm = d;
    handle = library;
    refusal.clear();
    const std::string_view text = config();  // OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …
    version = text.substr(0, text.find(' ', text.find(' ') + 1));
    return true;
  }
};

const OpenedOpenBlas& opened_openblas() {
  static constinit MadeOnce<OpenedOpenBlas> opened;
  return opened.get();
}

struct OpenBlasScopes {
  Mutex mutex;
  int count = 0;
  int previous = 1;

  OpenBlasScopes() { hold_over_fork(mutex); }
};

OpenBlasScopes& openblas_scopes() {
  static constinit MadeOnce<OpenBlasScopes> scopes;
  return scopes.get();
}

// ---- oneDNN ----

struct OpenedOneDnn : OneDnn {
  ThreadCount threads;

  bool multiplies_by_avx512() const {
    int (*effective_isa)() = nullptr;
    constexpr int kAvx512 = 0x20;  // a bit of dnnl_cpu_isa_avx512_core and what extends it
    return find(library, "dnnl_get_effective_cpu_isa", effective_isa)
               ? (effective_isa() & kAvx512) != 0
               : cpu_isa() == Isa::avx512;
  }

  OpenedOneDnn() {
    library = RTLD_DEFAULT;
    if (!dlsym(RTLD_DEFAULT, "dnnl_sgemm")) {
      if (!has_address_space(2 * kOneDnnAddressSpace)) {
        refusal = kNoRoom;
        return;
      }
      for (const char* name : {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"})
        if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
      if (!library) {
        refusal = "no libdnnl.so was found";
        return;
      }
    }
    // The OpenMP that it meets is the program's, if that has one.
    for (void* place : {RTLD_DEFAULT, library})
      if (find(place, "omp_set_num_threads", threads.set) &&
          find(place, "omp_get_max_threads", threads.get))
        break;
    if (!threads.set || !threads.get) {
      refusal = "it does not use OpenMP, so it cannot be restricted to the calling thread";
      return;
    }
    has_primitives = find(library, "dnnl_sgemm", sgemm);
    if (!has_primitives) refusal = "it has no function dnnl_sgemm";
    if (multiplies_by_avx512()) {  // see Note [Products that a signal destroys]
      sgemm = nullptr;
      refusal = "its products by AVX-512 overwrite memory when the process receives a signal";
    }
    version = "oneDNN";
    struct Version {
      int major, minor, patch;
    };
    if (const Version* (*function)() = nullptr; find(library, "dnnl_version", function))
      version =
          concat("oneDNN ", function()->major, ".", function()->minor, ".", function()->patch);
  }
};

const OpenedOneDnn& opened_onednn() {
  static constinit MadeOnce<OpenedOneDnn> opened;
  return opened.get();
}

}  // namespace

const OpenBlas& openblas() { return opened_openblas(); }

void* openblas_function(const char* name) {
  const OpenedOpenBlas& opened = opened_openblas();
  return opened.sgemm ? dlsym(opened.handle, name) : nullptr;
}

const OneDnn& onednn() { return opened_onednn(); }

OpenBlasOnThisThread::OpenBlasOnThisThread() {
  OpenBlasScopes& scopes = openblas_scopes();
  const ThreadCount& threads = opened_openblas().threads;
  const std::lock_guard lock(scopes.mutex);
  if (scopes.count++ > 0) return;
  scopes.previous = threads.get();
  if (scopes.previous != 1) threads.set(1);
}

OpenBlasOnThisThread::~OpenBlasOnThisThread() {
  OpenBlasScopes& scopes = openblas_scopes();
  const ThreadCount& threads = opened_openblas().threads;
  const std::lock_guard lock(scopes.mutex);
  // A number other than 1 was set by the program in the meantime and is kept.
  if (--scopes.count == 0 && scopes.previous != 1 && threads.get() == 1)
    threads.set(scopes.previous);
}

OneDnnOnThisThread::OneDnnOnThisThread() : previous_(opened_onednn().threads.get()) {
  if (previous_ != 1) opened_onednn().threads.set(1);
}

OneDnnOnThisThread::~OneDnnOnThisThread() {
  if (previous_ != 1) opened_onednn().threads.set(previous_);
}

}  // namespace tensora::cpu
