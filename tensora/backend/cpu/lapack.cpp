#include "tensora/backend/cpu/lapack.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/base/check.h"
#include "tensora/base/fork.h"

namespace tensora::cpu {

// The functions differ in their types of elements, and those for complex matrices take room for
// real numbers in addition.
struct Lapack::Functions {
  using Length = size_t;  // of a text argument, at the end
  using Geqrf = void (*)(const int* m, const int* n, void* a, const int* lda, void* tau, void* work,
                         const int* lwork, int* info);
  using Orgqr = void (*)(const int* m, const int* n, const int* k, void* a, const int* lda,
                         const void* tau, void* work, const int* lwork, int* info);
  using Gesdd = void (*)(const char* jobz, const int* m, const int* n, void* a, const int* lda,
                         void* s, void* u, const int* ldu, void* vt, const int* ldvt, void* work,
                         const int* lwork, int* iwork, int* info, Length);
  using ComplexGesdd = void (*)(const char* jobz, const int* m, const int* n, void* a,
                                const int* lda, void* s, void* u, const int* ldu, void* vt,
                                const int* ldvt, void* work, const int* lwork, void* rwork,
                                int* iwork, int* info, Length);
  using Syevd = void (*)(const char* jobz, const char* uplo, const int* n, void* a, const int* lda,
                         void* w, void* work, const int* lwork, int* iwork, const int* liwork,
                         int* info, Length, Length);
  using Heevd = void (*)(const char* jobz, const char* uplo, const int* n, void* a, const int* lda,
                         void* w, void* work, const int* lwork, void* rwork, const int* lrwork,
                         int* iwork, const int* liwork, int* info, Length, Length);
  using Geev = void (*)(const char* jobvl, const char* jobvr, const int* n, void* a, const int* lda,
                        void* wr, void* wi, void* vl, const int* ldvl, void* vr, const int* ldvr,
                        void* work, const int* lwork, int* info, Length, Length);
  using ComplexGeev = void (*)(const char* jobvl, const char* jobvr, const int* n, void* a,
                               const int* lda, void* w, void* vl, const int* ldvl, void* vr,
                               const int* ldvr, void* work, const int* lwork, void* rwork,
                               int* info, Length, Length);
  using Sytrf = void (*)(const char* uplo, const int* n, void* a, const int* lda, int* ipiv,
                         void* work, const int* lwork, int* info, Length);
  using Sytrs = void (*)(const char* uplo, const int* n, const int* nrhs, const void* a,
                         const int* lda, const int* ipiv, void* b, const int* ldb, int* info,
                         Length);
  void *geqrf, *orgqr, *gesdd, *syevd, *geev, *sytrf, *sytrs, *hetrf, *hetrs;

  explicit Functions(DType dtype) {
    const bool complex = is_complex(dtype);
    const bool wide = real_dtype(dtype) == kFloat64;
    const auto load = [&](const char* name) {
      const char letter = complex ? (wide ? 'z' : 'c') : wide ? 'd' : 's';
      return openblas_function((letter + std::string(name)).c_str());
    };
    geqrf = load("geqrf_");
    orgqr = load(complex ? "ungqr_" : "orgqr_");
    gesdd = load("gesdd_");
    syevd = load(complex ? "heevd_" : "syevd_");
    geev = load("geev_");
    sytrf = load("sytrf_");
    sytrs = load("sytrs_");
    hetrf = complex ? load("hetrf_") : sytrf;
    hetrs = complex ? load("hetrs_") : sytrs;
  }
};

const Lapack::Functions& Lapack::functions_of(DType dtype) {
  static constinit MadeOnce<Functions> single, wide, complex_single, complex_wide;
  return (dtype == kFloat32     ? single
          : dtype == kFloat64   ? wide
          : dtype == kComplex64 ? complex_single
                                : complex_wide)
      .get(dtype);
}

Lapack::Lapack(DType dtype, std::string_view op) : functions_(functions_of(dtype)), dtype_(dtype) {
  const Functions& f = functions_;
  if (f.geqrf && f.orgqr && f.gesdd && f.syevd && f.geev && f.sytrf && f.sytrs && f.hetrf &&
      f.hetrs)
    return;
  const std::string& reason = openblas().refusal;
  fail(op, ": needs LAPACK, which OpenBLAS contains (Debian, Ubuntu: libopenblas0-pthread): ",
       reason.empty() ? "the library found was built without it" : reason);
}

namespace {

// Note [A column to spare]
// For some counts of rows, complex products of a matrix and a vector in OpenBLAS (0.3.21) read the
// vector one step past its end, and do not use what they read. A vector that is a row of a matrix
// has steps of a column, so the read lands up to a column behind the matrix: mostly in somebody
// else's memory, rarely in none at all. All memory for complex functions therefore has a column to
// spare.

/// Room for elements, and `spare` more. A function that is given the count -1 only writes how many
/// it wants to the first one.
class Room {
 public:
  explicit Room(DType dtype, int64_t spare = 0)
      : dtype_(dtype), spare_(is_complex(dtype) ? spare + 1 : 0), bytes_(element_size(dtype)) {}
  void* data() { return bytes_.data(); }
  const int* count() const { return &count_; }
  void fit() {
    const void* const first = bytes_.data();
    const double wanted = real_dtype(dtype_) == kFloat64
                              ? *static_cast<const double*>(first)
                              : static_cast<double>(*static_cast<const float*>(first));
    resize(static_cast<int64_t>(wanted) + 1);
  }
  void resize(int64_t count) {
    count_ = static_cast<int>(count);
    bytes_.resize(static_cast<size_t>(count + spare_) * element_size(dtype_));
  }

 private:
  DType dtype_;
  int64_t spare_;
  int count_ = -1;
  std::vector<char> bytes_;
};

/// A matrix for a function to work on: the caller's where elements are real, a copy of it with a
/// column to spare where they are complex. See Note [A column to spare].
class Matrix {
 public:
  Matrix(DType dtype, int rows, int columns, void* callers)
      : callers_(static_cast<char*>(callers)),
        size_(static_cast<size_t>(rows) * static_cast<size_t>(columns) * element_size(dtype)) {
    if (!is_complex(dtype) || !callers) return;
    copy_.reserve(size_ + (static_cast<size_t>(rows) + 1) * element_size(dtype));
    copy_.assign(callers_, callers_ + size_);
    copy_.resize(copy_.capacity());
  }
  void* data() { return copy_.empty() ? callers_ : copy_.data(); }
  /// Gives the caller what the function wrote.
  void give_back() const {
    if (!copy_.empty()) std::memcpy(callers_, copy_.data(), size_);
  }

 private:
  char* callers_;
  size_t size_;
  std::vector<char> copy_;
};

void transpose(float* matrix, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) std::swap(matrix[i * n + j], matrix[j * n + i]);
}

}  // namespace

int Lapack::factorise_qr(int m, int n, void* A, void* tau) const {
  const auto call = reinterpret_cast<Functions::Geqrf>(functions_.geqrf);
  const int ld = std::max(m, 1);
  int info = 0;
  Room work(dtype_, ld);
  Matrix a(dtype_, m, n, A);
  call(&m, &n, a.data(), &ld, tau, work.data(), work.count(), &info);
  work.fit();
  call(&m, &n, a.data(), &ld, tau, work.data(), work.count(), &info);
  a.give_back();
  return info;
}

int Lapack::form_q(int m, int n, int reflectors, void* Q, const void* tau) const {
  const auto call = reinterpret_cast<Functions::Orgqr>(functions_.orgqr);
  const int ld = std::max(m, 1);
  int info = 0;
  Room work(dtype_, ld);
  Matrix q(dtype_, m, n, Q);
  call(&m, &n, &reflectors, q.data(), &ld, tau, work.data(), work.count(), &info);
  work.fit();
  call(&m, &n, &reflectors, q.data(), &ld, tau, work.data(), work.count(), &info);
  q.give_back();
  return info;
}

int Lapack::decompose_svd(char job, int m, int n, void* A, void* S, void* U, void* Vh) const {
  const int k = std::min(m, n), ld_v = job == 'S' ? k : n;
  const int64_t small = k, large = std::max(m, n);
  std::vector<int> integers(static_cast<size_t>(8 * k));
  Room work(dtype_, large), reals(real_dtype(dtype_));
  Matrix a(dtype_, m, n, A), u(dtype_, m, job == 'S' ? k : m, U), vh(dtype_, ld_v, n, Vh);
  // What LAPACK asks for; without vectors older versions want 7 in place of 5.
  if (is_complex(dtype_))
    reals.resize(job == 'N' ? 7 * small
                            : small * std::max(5 * small + 5, 2 * large + 2 * small + 1));
  int info = 0;
  const auto call = [&] {
    if (!is_complex(dtype_))
      reinterpret_cast<Functions::Gesdd>(functions_.gesdd)(&job, &m, &n, a.data(), &m, S, u.data(),
                                                           &m, vh.data(), &ld_v, work.data(),
                                                           work.count(), integers.data(), &info, 1);
    else
      reinterpret_cast<Functions::ComplexGesdd>(functions_.gesdd)(
          &job, &m, &n, a.data(), &m, S, u.data(), &m, vh.data(), &ld_v, work.data(), work.count(),
          reals.data(), integers.data(), &info, 1);
  };
  call();
  work.fit();
  call();
  u.give_back();
  vh.give_back();
  return info;
}

int Lapack::decompose_symmetric(char job, char triangle, int n, void* A, void* values) const {
  // OpenBLAS's kernels for processors before 2009 compute with what an earlier call left in its
  // buffer when they multiply by the lower triangle of a float32 matrix. It is the upper one of the
  // transpose.
  if (dtype_ == kFloat32 && triangle == 'L') {
    transpose(static_cast<float*>(A), n);
    triangle = 'U';
  }
  Room work(dtype_, n), reals(real_dtype(dtype_));
  Matrix a(dtype_, n, n, A);
  std::vector<int> integers(1);
  int integer_count = -1, info = 0;
  const auto call = [&] {
    if (!is_complex(dtype_))
      reinterpret_cast<Functions::Syevd>(functions_.syevd)(
          &job, &triangle, &n, a.data(), &n, values, work.data(), work.count(), integers.data(),
          &integer_count, &info, 1, 1);
    else
      reinterpret_cast<Functions::Heevd>(functions_.syevd)(
          &job, &triangle, &n, a.data(), &n, values, work.data(), work.count(), reals.data(),
          reals.count(), integers.data(), &integer_count, &info, 1, 1);
  };
  call();
  work.fit();
  if (is_complex(dtype_)) reals.fit();
  integer_count = integers[0];
  integers.resize(static_cast<size_t>(integer_count));
  call();
  a.give_back();
  return info;
}

namespace {

/// The values and vectors of a real matrix as complex numbers. A pair of conjugate values shares
/// two columns, the vectors' real and imaginary parts.
template <class T>
void join_parts(int64_t n, const T* real_parts, const T* imaginary_parts, const T* columns,
                Complex<T>* values, Complex<T>* vectors) {
  for (int64_t j = 0; j < n; ++j) values[j] = Complex<T>(real_parts[j], imaginary_parts[j]);
  if (!vectors) return;
  for (int64_t j = 0; j < n; ++j) {
    const bool paired = imaginary_parts[j] != T(0) && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      const T re = columns[j * n + i], im = paired ? columns[(j + 1) * n + i] : T(0);
      vectors[j * n + i] = Complex<T>(re, im);
      if (paired) vectors[(j + 1) * n + i] = Complex<T>(re, -im);
    }
    if (paired) ++j;
  }
}

}  // namespace

int Lapack::decompose_general(int n, void* A, void* values, void* V) const {
  const char none = 'N', job = V ? 'V' : 'N';
  const int one = 1;
  int info = 0;
  Room work(dtype_, n);
  Matrix a(dtype_, n, n, A);
  if (is_complex(dtype_)) {
    Room reals(real_dtype(dtype_));
    reals.resize(2 * int64_t{n});
    Matrix vectors(dtype_, n, n, V);
    const auto call = [&] {
      reinterpret_cast<Functions::ComplexGeev>(functions_.geev)(
          &none, &job, &n, a.data(), &n, values, nullptr, &one, vectors.data(), &n, work.data(),
          work.count(), reals.data(), &info, 1, 1);
    };
    call();
    work.fit();
    call();
    vectors.give_back();
    return info;
  }
  Room real_parts(dtype_), imaginary_parts(dtype_), columns(dtype_);
  real_parts.resize(n);
  imaginary_parts.resize(n);
  if (V) columns.resize(int64_t{n} * n);
  const auto call = [&] {
    reinterpret_cast<Functions::Geev>(functions_.geev)(
        &none, &job, &n, a.data(), &n, real_parts.data(), imaginary_parts.data(), nullptr, &one,
        columns.data(), &n, work.data(), work.count(), &info, 1, 1);
  };
  call();
  work.fit();
  call();
  const auto join = [&]<class T>(T) {
    join_parts(n, static_cast<const T*>(real_parts.data()),
               static_cast<const T*>(imaginary_parts.data()), static_cast<const T*>(columns.data()),
               static_cast<Complex<T>*>(values), static_cast<Complex<T>*>(V));
  };
  dtype_ == kFloat64 ? join(double{}) : join(float{});
  return info;
}

int Lapack::factorise_ldl(bool hermitian, int n, void* A, int* pivots) const {
  const auto call =
      reinterpret_cast<Functions::Sytrf>(hermitian ? functions_.hetrf : functions_.sytrf);
  const char lower = 'L';
  int info = 0;
  Room work(dtype_, n);
  Matrix a(dtype_, n, n, A);
  call(&lower, &n, a.data(), &n, pivots, work.data(), work.count(), &info, 1);
  work.fit();
  call(&lower, &n, a.data(), &n, pivots, work.data(), work.count(), &info, 1);
  a.give_back();
  return info;
}

int Lapack::solve_ldl(bool hermitian, int n, int columns, void* LD, const int* pivots,
                      void* B) const {
  const auto call =
      reinterpret_cast<Functions::Sytrs>(hermitian ? functions_.hetrs : functions_.sytrs);
  const char lower = 'L';
  int info = 0;
  Matrix ld(dtype_, n, n, LD), b(dtype_, n, columns, B);
  call(&lower, &n, &columns, ld.data(), &n, pivots, b.data(), &n, &info, 1);
  b.give_back();
  return info;
}

}  // namespace tensora::cpu
