#pragma once

// LAPACK's decompositions, from the installed OpenBLAS. Matrices are stored by columns.

#include <cstdint>
#include <string_view>

namespace tensora::cpu {

/// Its functions for float or double; see Note [Libraries on request] in gemm_installed.cpp. Calls
/// belong into a scope of OpenBlasOnThisThread; several threads may call at once.
template <class T>
struct Lapack {
  using Length = size_t;  // of a text argument, at the end
  using Geqrf = void (*)(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,
                         const int* lwork, int* info);
  using Orgqr = void (*)(const int* m, const int* n, const int* k, T* a, const int* lda,
                         const T* tau, T* work, const int* lwork, int* info);
  using Gesdd = void (*)(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s,
                         T* u, const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork,
                         int* iwork, int* info, Length);
  using Syevd = void (*)(const char* jobz, const char* uplo, const int* n, T* a, const int* lda,
                         T* w, T* work, const int* lwork, int* iwork, const int* liwork, int* info,
                         Length, Length);
  Geqrf geqrf = nullptr;
  Orgqr orgqr = nullptr;
  Gesdd gesdd = nullptr;
  Syevd syevd = nullptr;
};

/// Throws an Error that names `op` and says what to install where there is none.
template <class T>
const Lapack<T>& lapack(std::string_view op);

}  // namespace tensora::cpu
