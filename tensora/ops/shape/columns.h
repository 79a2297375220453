#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Joins tensors side by side, vectors as columns.
Tensor column_stack(const std::vector<Tensor>& tensors);

/// Views of equal parts: of the columns (of a vector, its elements), of the rows, and in depth; the
/// number of parts must divide the size. Or of parts that end at `indices`.
std::vector<Tensor> hsplit(const Tensor& self, int64_t sections);
std::vector<Tensor> hsplit(const Tensor& self, const std::vector<int64_t>& indices);
std::vector<Tensor> vsplit(const Tensor& self, int64_t sections);
std::vector<Tensor> vsplit(const Tensor& self, const std::vector<int64_t>& indices);
std::vector<Tensor> dsplit(const Tensor& self, int64_t sections);
std::vector<Tensor> dsplit(const Tensor& self, const std::vector<int64_t>& indices);

/// The same as `cat`; an int would otherwise go to the function that joins text.
Tensor concat(const std::vector<Tensor>& tensors, int dim);

/// The matrix of x^0 to x^(N - 1) for each element of a vector; N is its length unless given. The
/// powers fall from left to right unless `increasing`.
Tensor vander(const Tensor& x, std::optional<int64_t> N = {}, bool increasing = false);
/// All combinations of one element of each vector, one per row; of one vector, that vector.
Tensor cartesian_prod(const std::vector<Tensor>& tensors);
/// All choices of `r` elements of a vector, one per row.
Tensor combinations(const Tensor& self, int64_t r = 2, bool with_replacement = false);

}  // namespace tensora
