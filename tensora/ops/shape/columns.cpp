// Registers nothing: functions of other ops.
#include "tensora/ops/shape/columns.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/split.h"

namespace tensora {
namespace {

// The dim that hsplit, vsplit and dsplit divide, for a tensor that has as many dims as they need.
int64_t split_dim(const Tensor& self, std::string_view op, int least, int64_t dim) {
  check(self.dim() >= least, op, ": expected a tensor of at least ", least, " dims, got ",
        self.dim());
  return dim;
}

std::vector<Tensor> equal_parts(const Tensor& self, std::string_view op, int64_t sections,
                                int64_t dim) {
  check(sections > 0, op, ": the number of sections must be positive, got ", sections);
  check(self.size(dim) % sections == 0, op, ": dimension ", dim, " of size ", self.size(dim),
        " cannot be divided into ", sections, " equal parts");
  return tensor_split(self, sections, dim);
}

int64_t horizontal_dim(const Tensor& self) {
  return split_dim(self, "hsplit", 1, self.dim() == 1 ? 0 : 1);
}

// The next choice of indices in lexicographic order; false after the last.
bool advance(std::vector<int64_t>& chosen, int64_t n, bool with_replacement) {
  const auto r = static_cast<int64_t>(chosen.size());
  for (int64_t i = r - 1; i >= 0; --i) {
    const int64_t last = with_replacement ? n - 1 : n - r + i;
    if (chosen[static_cast<size_t>(i)] == last) continue;
    int64_t next = chosen[static_cast<size_t>(i)] + 1;
    for (int64_t k = i; k < r; ++k, next += with_replacement ? 0 : 1)
      chosen[static_cast<size_t>(k)] = next;
    return true;
  }
  return false;
}

}  // namespace

Tensor column_stack(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "column_stack: expected at least one tensor");
  std::vector<Tensor> columns;
  for (const Tensor& tensor : tensors)
    columns.push_back(tensor.dim() <= 1 ? reshape(tensor, {tensor.numel(), 1}) : tensor);
  return hstack(columns);
}

std::vector<Tensor> hsplit(const Tensor& self, int64_t sections) {
  return equal_parts(self, "hsplit", sections, horizontal_dim(self));
}
std::vector<Tensor> hsplit(const Tensor& self, const std::vector<int64_t>& indices) {
  return tensor_split(self, indices, horizontal_dim(self));
}
std::vector<Tensor> vsplit(const Tensor& self, int64_t sections) {
  return equal_parts(self, "vsplit", sections, split_dim(self, "vsplit", 2, 0));
}
std::vector<Tensor> vsplit(const Tensor& self, const std::vector<int64_t>& indices) {
  return tensor_split(self, indices, split_dim(self, "vsplit", 2, 0));
}
std::vector<Tensor> dsplit(const Tensor& self, int64_t sections) {
  return equal_parts(self, "dsplit", sections, split_dim(self, "dsplit", 3, 2));
}
std::vector<Tensor> dsplit(const Tensor& self, const std::vector<int64_t>& indices) {
  return tensor_split(self, indices, split_dim(self, "dsplit", 3, 2));
}

Tensor concat(const std::vector<Tensor>& tensors, int dim) { return cat(tensors, dim); }

Tensor vander(const Tensor& x, std::optional<int64_t> N, bool increasing) {
  check(x.dim() == 1, "vander: expected a vector, got shape ", x.sizes());
  const int64_t columns = N.value_or(x.size(0));
  check(columns >= 0, "vander: N must not be negative, got ", columns);
  const DType dtype = is_differentiable(x.dtype()) ? x.dtype() : kInt64;
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  if (columns == 0) return empty({x.size(0), 0}, options);
  const Tensor first = ones({x.size(0), 1}, options);
  const Tensor factors = expand(unsqueeze(to(x, dtype), 1), {x.size(0), columns - 1});
  const Tensor powers = cumprod(cat({first, factors}, 1), 1);
  return increasing ? powers : flip(powers, {1});
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors) {
  check(!tensors.empty(), "cartesian_prod: expected at least one tensor");
  for (const Tensor& tensor : tensors)
    check(tensor.dim() == 1, "cartesian_prod: expected vectors, got shape ", tensor.sizes());
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> grids = meshgrid(tensors);
  for (Tensor& grid : grids) grid = ravel(grid);
  return stack(grids, 1);
}

Tensor combinations(const Tensor& self, int64_t r, bool with_replacement) {
  check(self.dim() == 1, "combinations: expected a vector, got shape ", self.sizes());
  check(r >= 0, "combinations: r must not be negative, got ", r);
  if (r == 0) return empty({0}, {.dtype = self.dtype(), .device = self.device()});
  const int64_t n = self.size(0);
  std::vector<int64_t> chosen(static_cast<size_t>(r)), all;
  for (int64_t i = 0; i < r; ++i) chosen[static_cast<size_t>(i)] = with_replacement ? 0 : i;
  if (with_replacement ? n > 0 : n >= r) {
    do {
      all.insert(all.end(), chosen.begin(), chosen.end());
    } while (advance(chosen, n, with_replacement));
  }
  const auto rows = static_cast<int64_t>(all.size()) / r;
  const Tensor index = to(tensor(all, {.dtype = kInt64}), self.device());
  return reshape(index_select(self, 0, index), {rows, r});
}

}  // namespace tensora
