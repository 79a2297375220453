#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// A scan along one dim, from its beginning, or in `reverse` from its end.
struct CumulativeAttrs {
  int64_t dim = 0;
  bool reverse = false;
  std::optional<DType> dtype = {};
};
extern OpDef<CumulativeAttrs> cumsum_op, cumprod_op;

struct LinearScanAttrs {
  int64_t dim = 0;
  bool reverse = false;
};
extern OpDef<LinearScanAttrs> linear_scan_op;

/// Element i of the result is the sum of elements 0 … i along `dim`. Integers and bools are summed
/// as int64; `dtype`, if given, is what the elements are cast to first.
Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
const Tensor& cumsum_(const Tensor& self, int64_t dim);
/// The same with products.
Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype = {});
const Tensor& cumprod_(const Tensor& self, int64_t dim);

/// result[i] = a[i] * result[i - 1] + b[i] along `dim`, where result[-1] is 0; in `reverse`,
/// result[i] = a[i] * result[i + 1] + b[i]. Both operands have one shape and floating dtype.
Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t dim, bool reverse = false);

/// Element i of the result is the product of all elements along `dim` but element i.
Tensor product_of_others(const Tensor& x, int64_t dim);

}  // namespace tensora
