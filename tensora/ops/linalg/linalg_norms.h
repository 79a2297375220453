#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensora/dispatch/op_def.h"

namespace tensora::linalg {

/// Which norm: a number, or a name as in PyTorch.
class NormOrder {
 public:
  template <class Number>
    requires std::is_arithmetic_v<Number>
  NormOrder(Number number) : number_(static_cast<double>(number)) {}
  NormOrder(Scalar number) : number_(number.to<double>()) {}
  NormOrder(const char* name) : name_(name) {}
  NormOrder(std::string_view name) : name_(name) {}

  bool is_named() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  double number() const { return number_; }

 private:
  std::string name_;
  double number_ = 0;
};

/// The p-norm of the elements over `dim` (all dims if empty); see tensora::norm.
Tensor vector_norm(const Tensor& x, Scalar ord = 2, const Dims& dim = {}, bool keepdim = false,
                   std::optional<DType> dtype = {});
/// A norm of the matrices in two dims: "fro" or "nuc"; or the largest (with a minus sign, smallest)
/// singular value (2), sum of a column's (1) or of a row's (infinity) magnitudes.
Tensor matrix_norm(const Tensor& A, const NormOrder& ord = "fro", const Dims& dim = {-2, -1},
                   bool keepdim = false, std::optional<DType> dtype = {});
/// Without `ord` the 2-norm of the elements over `dim` (all dims if empty). With it a vector norm
/// if there is one dim, a matrix norm if there are two.
Tensor norm(const Tensor& A, const std::optional<NormOrder>& ord = {}, const Dims& dim = {},
            bool keepdim = false, std::optional<DType> dtype = {});

/// The norm of A times that of its inverse: infinite for a singular matrix. Without `p`, the ratio
/// of the largest and the smallest singular value, also of matrices that are not square.
Tensor cond(const Tensor& A, const std::optional<NormOrder>& p = {});

}  // namespace tensora::linalg
