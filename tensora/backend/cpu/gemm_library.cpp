#include "tensora/backend/cpu/gemm_library.h"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/base/check.h"
#include "tensora/base/interrupt.h"
#include "tensora/base/settings.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // of the CBLAS interface

/// out (m n, row-major) = alpha * op(a) @ op(b) + beta * out, on the calling thread alone. `a_ld`
/// and `b_ld` are the distances between rows of a and b as they are stored.
template <class T>
struct LibraryProduct {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t a_ld = 0;
  bool a_transposed = false;
  const T* b = nullptr;
  int64_t b_ld = 0;
  bool b_transposed = false;
  T* out = nullptr;
  int64_t out_ld = 0;
  T alpha = 1, beta = 0;
};

template <class T>
using LibraryGemm = void (*)(const LibraryProduct<T>&);

int narrow(int64_t value) { return static_cast<int>(value); }

template <class T>
void run_openblas(const LibraryProduct<T>& p) {
  const auto function = [] {
    if constexpr (std::is_same_v<T, float>)
      return openblas().sgemm;
    else
      return openblas().dgemm;
  }();
  const OpenBlasOnThisThread scope;
  function(kRowMajor, p.a_transposed ? kTranspose : kNoTranspose,
           p.b_transposed ? kTranspose : kNoTranspose, narrow(p.m), narrow(p.n), narrow(p.k),
           p.alpha, p.a, narrow(p.a_ld), p.b, narrow(p.b_ld), p.beta, p.out, narrow(p.out_ld));
}

void run_onednn(const LibraryProduct<float>& p) {
  const OneDnnOnThisThread scope;
  const int status =
      onednn().sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
                     p.a, p.a_ld, p.b, p.b_ld, p.beta, p.out, p.out_ld);
  check(status == 0, "matmul: oneDNN could not multiply ", p.m, " by ", p.k, " with ", p.k, " by ",
        p.n, " (status ", status, ")");
}

// ---- which one ----

bool may_use(GemmLibraries library) {
  const GemmLibraries allowed = allowed_gemm_libraries();
  return allowed == library || allowed == GemmLibraries::automatic;
}
bool has_openblas() { return may_use(GemmLibraries::openblas) && openblas().sgemm; }
bool has_onednn() { return may_use(GemmLibraries::onednn) && onednn().sgemm; }

void require(GemmLibraries library) {
  if (library == GemmLibraries::openblas)
    check(openblas().sgemm != nullptr,
          "TENSORA_BLAS: OpenBLAS was asked for and cannot be used: ", openblas().refusal);
  if (library == GemmLibraries::onednn)
    check(onednn().sgemm != nullptr,
          "TENSORA_BLAS: oneDNN was asked for and cannot be used: ", onednn().refusal);
}

std::atomic<GemmLibraries>& allowed_slot() {
  static std::atomic<GemmLibraries> slot = [] {
    const auto chosen = static_cast<GemmLibraries>(
        choice_setting("TENSORA_BLAS", {"auto", "off", "openblas", "onednn"}, 0));
    require(chosen);
    return chosen;
  }();
  return slot;
}

// Where libraries win, as bench/gemm_workbench shows. With AVX-512 it is OpenBLAS's path for tiny
// matrices, unless b is transposed; from about 96 cubed on our kernels are at 84 to 94 % of the
// processor's peak, OpenBLAS's at 73 to 88 % (and its parts round differently for other numbers of
// threads). With AVX2 oneDNN falls behind at sizes that need packing, and OpenBLAS takes those.
constexpr int64_t kLibraryRows = 48;  // fewer: our thin kernels read b only once
constexpr int64_t kTinyWork = 40 * 40 * 40;
constexpr int64_t kLibraryWork = 96 * 96 * 96;
constexpr int64_t kPackedWork = 384 * 384 * 384;
constexpr int64_t kLargeWork =
    1024 * 1024 * 1024;  // its parts are large enough to be split further
constexpr int64_t kUninterruptedWork = int64_t{6} << 32;  // of a part: about a second

template <class T>
bool worth_it(const Product<T>& p, int64_t least_work) {
  return p.m >= kLibraryRows && p.n >= kLibraryRows && p.k >= 32 && p.work() >= least_work &&
         std::max({p.m, p.n, p.k}) < int64_t{1} << 30;
}

LibraryGemm<float> library_for(const Product<float>& p) {
  if (!worth_it(p, kTinyWork)) return nullptr;
  const LibraryGemm<float> openblas = has_openblas() ? run_openblas<float> : nullptr;
  const LibraryGemm<float> onednn = has_onednn() ? run_onednn : nullptr;
  const bool b_transposed = p.b.col_stride != 1;
  if (cpu_isa() == Isa::avx512)
    return p.work() < kLibraryWork && !b_transposed ? openblas : nullptr;
  if (p.work() < kLibraryWork) return nullptr;
  const bool packing_pays =
      p.work() >= kPackedWork && !(b_transposed && p.work() < 8 * kPackedWork);
  return (packing_pays && openblas) || !onednn ? openblas : onednn;
}

LibraryGemm<double> library_for(const Product<double>& p) {
  return cpu_isa() != Isa::avx512 && worth_it(p, kLibraryWork) && has_openblas()
             ? run_openblas<double>
             : nullptr;
}

// ---- in parts ----

/// Whether a library can read the matrix in place, and how: rows or columns are contiguous.
template <class T>
bool as_stored(const MatrixView<const T>& x, int64_t rows, int64_t cols, int64_t& ld,
               bool& transposed) {
  transposed = x.col_stride != 1;
  ld = transposed ? x.col_stride : x.row_stride;
  return (transposed ? x.row_stride == 1 : true) &&
         ld >= std::max<int64_t>(transposed ? rows : cols, 1) && ld < int64_t{1} << 30;
}

template <class T>
bool multiply_in_pieces(const Product<T>& p) {
  const LibraryGemm<T> library = library_for(p);
  LibraryProduct<T> whole = {.m = p.m, .n = p.n, .k = p.k};
  if (!library || p.out.col_stride != 1 || p.out.row_stride < p.n ||
      !as_stored<T>(p.a, p.m, p.k, whole.a_ld, whole.a_transposed) ||
      !as_stored<T>(p.b, p.k, p.n, whole.b_ld, whole.b_transposed))
    return false;
  whole.out_ld = p.out.row_stride;
  whole.alpha = p.alpha;
  whole.beta = p.beta;
  // Each part packs the operand that is not split, so there are as few parts as threads allow.
  const bool cut_rows = p.m >= p.n;
  const int64_t extent = cut_rows ? p.m : p.n;
  const int64_t most = std::max(
      p.library_pieces > 1 && p.work() >= kLargeWork ? 2 * p.library_pieces : p.library_pieces,
      ceil_div(p.work(), kUninterruptedWork));
  const int64_t size = round_up(ceil_div(extent, std::clamp<int64_t>(extent / 48, 1, most)), 16);
  // A library's kernels round differently at the edges of a part, so the parts stay the same
  // even where one thread gets several.
  InterruptibleParts parts(p.work() >= kLargeWork);
  parallel_for(ceil_div(extent, size), 1, [&](int64_t first, int64_t last) {
    for (int64_t begin = first * size; begin < std::min(last * size, extent); begin += size) {
      LibraryProduct<T> part = whole;
      (cut_rows ? part.m : part.n) = std::min(size, extent - begin);
      part.a = cut_rows ? p.a.at(begin, 0) : p.a.data;
      part.b = cut_rows ? p.b.data : p.b.at(0, begin);
      part.out = cut_rows ? p.out.at(begin, 0) : p.out.at(0, begin);
      if (!parts.run([&] { library(part); })) return;
    }
  });
  return true;
}

}  // namespace

GemmLibraries allowed_gemm_libraries() { return allowed_slot().load(std::memory_order_relaxed); }

void set_gemm_libraries(GemmLibraries allowed) {
  require(allowed);
  allowed_slot().store(allowed, std::memory_order_relaxed);
}

std::string gemm_libraries() {
  std::string names = has_openblas() ? openblas().version : "";
  if (has_onednn()) names += concat(names.empty() ? "" : ", ", onednn().version);
  return names.empty() ? "none" : names;
}

std::string refused_gemm_libraries() {
  std::string reasons;
  if (may_use(GemmLibraries::openblas) && !openblas().sgemm)
    reasons = concat("OpenBLAS: ", openblas().refusal, ". ");
  if (may_use(GemmLibraries::onednn) && !onednn().sgemm)
    reasons += concat("oneDNN: ", onednn().refusal, ".");
  return reasons;
}

bool multiply_by_library(const Product<float>& p) { return multiply_in_pieces(p); }
bool multiply_by_library(const Product<double>& p) { return multiply_in_pieces(p); }

}  // namespace tensora::cpu
