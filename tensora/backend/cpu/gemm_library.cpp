#include "tensora/backend/cpu/gemm_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "tensora/backend/cpu/isa.h"

// Note [Libraries on request]
// Large products are the one place where decades of tuning per processor pay, so OpenBLAS and
// oneDNN run them where they are installed. They are opened when first needed, not linked: a
// program that multiplies nothing large starts without their 70 MB, and one on a machine without
// them still works, on our own kernels. TENSORA_BLAS=off does without them on purpose. They are
// always called from our own pool's threads and never start threads of their own.

namespace tensora::cpu {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // of the CBLAS interface

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int,
                       double, double*, int);
using DnnlSgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
using SetThreads = void (*)(int);

struct Libraries {
  Sgemm sgemm = nullptr;
  Dgemm dgemm = nullptr;
  DnnlSgemm dnnl_sgemm = nullptr;
  SetThreads omp_set_num_threads = nullptr;

  Libraries() {
    const char* choice = std::getenv("TENSORA_BLAS");
    if (choice && std::string_view(choice) == "off") return;
    if (void* blas = open({"libopenblas.so.0", "libopenblas.so"})) {
      sgemm = find<Sgemm>(blas, "cblas_sgemm");
      dgemm = find<Dgemm>(blas, "cblas_dgemm");
      // Harmless in the serial build; keeps a threaded one from starting its pool.
      if (auto set = find<SetThreads>(blas, "openblas_set_num_threads")) set(1);
    }
    if (void* dnnl = open({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"})) {
      dnnl_sgemm = find<DnnlSgemm>(dnnl, "dnnl_sgemm");
      omp_set_num_threads = find<SetThreads>(dnnl, "omp_set_num_threads");
      // Without a way to keep it on one thread it would fight with our pool.
      if (!omp_set_num_threads) dnnl_sgemm = nullptr;
    }
  }

  static void* open(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return library;
    return nullptr;
  }
  template <class F>
  static F find(void* library, const char* symbol) {
    return reinterpret_cast<F>(dlsym(library, symbol));
  }
};

const Libraries& libraries() {
  static const Libraries found;
  return found;
}

int narrow(int64_t value) { return static_cast<int>(value); }

template <class T, class Function>
void run_cblas(Function function, const LibraryProduct<T>& p) {
  function(kRowMajor, p.a_transposed ? kTranspose : kNoTranspose,
           p.b_transposed ? kTranspose : kNoTranspose, narrow(p.m), narrow(p.n), narrow(p.k),
           p.alpha, p.a, narrow(p.a_ld), p.b, narrow(p.b_ld), p.beta, p.out, narrow(p.out_ld));
}

void run_openblas_f32(const LibraryProduct<float>& p) { run_cblas(libraries().sgemm, p); }
void run_openblas_f64(const LibraryProduct<double>& p) { run_cblas(libraries().dgemm, p); }

void run_onednn_f32(const LibraryProduct<float>& p) {
  // OpenMP keeps its thread count per thread, so each of ours says so once.
  static thread_local const bool single = [] {
    libraries().omp_set_num_threads(1);
    return true;
  }();
  static_cast<void>(single);
  libraries().dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k,
                         p.alpha, p.a, p.a_ld, p.b, p.b_ld, p.beta, p.out, p.out_ld);
}

bool fits_int(int64_t m, int64_t n, int64_t k) { return std::max({m, n, k}) < int64_t{1} << 30; }

// Where libraries win, as bench/gemm_workbench shows. With AVX-512 oneDNN is ahead from about 96
// cubed on, and OpenBLAS's path for tiny matrices below that unless b is transposed; with AVX2
// oneDNN falls behind at sizes that want packing, and OpenBLAS takes those.
constexpr int64_t kLibraryRows = 48;  // fewer: our thin kernels read b only once
constexpr int64_t kTinyWork = 40 * 40 * 40;
constexpr int64_t kLibraryWork = 96 * 96 * 96;
constexpr int64_t kPackedWork = 384 * 384 * 384;

bool worth_it(int64_t m, int64_t n, int64_t k, int64_t least_work) {
  return m >= kLibraryRows && n >= kLibraryRows && k >= 32 && m * n * k >= least_work &&
         fits_int(m, n, k);
}

}  // namespace

LibraryGemm<float> library_gemm_f32(int64_t m, int64_t n, int64_t k, bool b_transposed) {
  if (!worth_it(m, n, k, kTinyWork)) return nullptr;
  const Libraries& found = libraries();
  const LibraryGemm<float> openblas = found.sgemm ? run_openblas_f32 : nullptr;
  const LibraryGemm<float> onednn = found.dnnl_sgemm ? run_onednn_f32 : nullptr;
  const int64_t work = m * n * k;
  if (cpu_isa() == Isa::avx512) {
    if (work < kLibraryWork) return b_transposed ? nullptr : openblas;
    return onednn ? onednn : openblas;
  }
  if (work < kLibraryWork) return nullptr;
  const bool packing_pays = work >= kPackedWork && !(b_transposed && work < 8 * kPackedWork);
  return (packing_pays && openblas) || !onednn ? openblas : onednn;
}

LibraryGemm<double> library_gemm_f64(int64_t m, int64_t n, int64_t k) {
  return worth_it(m, n, k, kLibraryWork) && libraries().dgemm ? run_openblas_f64 : nullptr;
}

const char* gemm_libraries() {
  const Libraries& found = libraries();
  if (found.sgemm && found.dnnl_sgemm) return "OpenBLAS, oneDNN";
  if (found.sgemm) return "OpenBLAS";
  return found.dnnl_sgemm ? "oneDNN" : "none";
}

}  // namespace tensora::cpu
