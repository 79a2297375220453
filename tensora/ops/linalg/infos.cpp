// Registers nothing: a helper of the kernels.

#include "tensora/ops/linalg/infos.h"

#include "tensora/base/check.h"

namespace tensora {
namespace {

std::string meaning(std::string_view function, int32_t info) {
  if (function.starts_with("linalg.cholesky") || function == "cholesky")
    return concat(
        "The factorization could not be completed because the input is not positive-definite (the "
        "leading minor of order ",
        info, " is not positive-definite).");
  if (function.starts_with("linalg.inv") || function == "inverse")
    return concat("The diagonal element ", info,
                  " is zero, the inversion could not be completed because the input matrix is "
                  "singular.");
  if (function.starts_with("linalg.solve"))
    return "The solver failed because the input matrix is singular.";
  if (function.starts_with("linalg.lu"))
    return concat(
        "U[", info, ",", info,
        "] is zero and using it on lu_solve would result in a division by zero. If you "
        "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)");
  if (function.starts_with("linalg.ldl"))
    return concat("D[", info, ",", info, "] is zero, and ldl_solve would divide by it.");
  return concat(
      "The algorithm failed to converge because the input matrix is ill-conditioned, has too many "
      "repeated ",
      function.starts_with("linalg.eig") ? "eigenvalues" : "singular values",
      " or contains non-finite values (error code: ", info, ").");
}

}  // namespace

void check_infos(std::string_view function, std::span<const int32_t> infos, bool batched) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i] == 0) continue;
    ensure(infos[i] > 0, function, ": argument ", -infos[i], " of the library's call is wrong");
    fail(function, ": ", batched ? concat("(Batch element ", i, "): ") : "",
         meaning(function, infos[i]));
  }
}

}  // namespace tensora
