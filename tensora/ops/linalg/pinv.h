#pragma once

#include <optional>
#include <string_view>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct PinvAttrs {
  std::optional<double> atol = {};
  std::optional<double> rtol = {};
  bool hermitian = false;
};
extern OpDef<PinvAttrs> pinv_op;

struct LstsqAttrs {
  std::optional<double> rcond = {};
  bool full_rank = false;  // as the driver "gels" takes for granted
};
/// A, B -> (solution, rank, singular values); the last two are empty if `full_rank`.
extern OpDef<LstsqAttrs> lstsq_op;

/// linalg::pinv under its older name.
Tensor pinverse(const Tensor& self, double rcond = 1e-15);

namespace linalg {

/// The pseudo-inverse. Singular values up to max(atol, rtol * the largest) count as zero; `rtol` is
/// the dtype's epsilon times the larger size, or 0 if `atol` is given. `hermitian` reads one
/// triangle of a symmetric matrix and uses its eigenvalues.
Tensor pinv(const Tensor& A, std::optional<double> atol = {}, std::optional<double> rtol = {},
            bool hermitian = false);
/// How many singular values exceed that limit.
Tensor matrix_rank(const Tensor& A, std::optional<double> atol = {},
                   std::optional<double> rtol = {}, bool hermitian = false);

/// (solution, residuals, rank, singular_values): X with the least |A X - B|, and the smallest of
/// these. `driver` is "gels", which takes full rank for granted, or "gelsy", "gelsd", "gelss",
/// which count singular values up to `rcond` times the largest as zero; the default is "gelsy" on
/// the CPU and "gels" on CUDA. Residuals are there if A has more rows than columns and full rank,
/// and the driver is not "gelsy"; the rank unless it is "gels"; the singular values with the last
/// two.
std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq(const Tensor& A, const Tensor& B,
                                                 std::optional<double> rcond = {},
                                                 std::optional<std::string_view> driver = {});

}  // namespace linalg
}  // namespace tensora
