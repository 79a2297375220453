#include "tensora/backend/cpu/lapack.h"

#include <type_traits>

#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/base/check.h"

namespace tensora::cpu {
namespace {

template <class Function>
void load(Function& function, const char* single, const char* wide, bool is_single) {
  function = reinterpret_cast<Function>(openblas_function(is_single ? single : wide));
}

template <class T>
Lapack<T> opened() {
  constexpr bool kSingle = std::is_same_v<T, float>;
  Lapack<T> result;
  load(result.geqrf, "sgeqrf_", "dgeqrf_", kSingle);
  load(result.orgqr, "sorgqr_", "dorgqr_", kSingle);
  load(result.gesdd, "sgesdd_", "dgesdd_", kSingle);
  load(result.syevd, "ssyevd_", "dsyevd_", kSingle);
  return result;
}

}  // namespace

template <class T>
const Lapack<T>& lapack(std::string_view op) {
  static const Lapack<T> functions = opened<T>();
  if (functions.geqrf && functions.orgqr && functions.gesdd && functions.syevd) return functions;
  const std::string& reason = openblas().refusal;
  fail(op, ": needs LAPACK, which OpenBLAS contains (Debian, Ubuntu: libopenblas0-pthread): ",
       reason.empty() ? "the library found was built without it" : reason);
}

template const Lapack<float>& lapack<float>(std::string_view op);
template const Lapack<double>& lapack<double>(std::string_view op);

}  // namespace tensora::cpu
