// Registers nothing: unique is composed of sorting, comparing neighbours and compaction.
#include "tensora/ops/sort/unique.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/index/nonzero.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/sort.h"
#include "tensora/ops/sort/sort_values_op.h"

namespace tensora {
namespace {

struct Wanted {
  bool inverse, counts;
};
using Distinct = std::tuple<Tensor, Tensor, Tensor>;

void check_dtype(const Tensor& self, std::string_view op) {
  check(!is_complex(self.dtype()) && contains(kRealDTypes, self.dtype()), op,
        ": expected a real dtype that computes, got ", self.dtype());
}

// Where runs of equal slices of dim 0 begin.
Tensor run_starts(const Tensor& rows) {
  const int64_t n = rows.size(0);
  Tensor differs = ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1));
  if (differs.dim() > 1) differs = any(flatten(differs, 1), {1});
  return cat({ones({1}, {.dtype = kBool, .device = rows.device()}), differs}, 0);
}

// The runs of `rows`, which are the slices of a tensor in the order `order`, or as they are if that
// is undefined.
Distinct runs_of(const Tensor& rows, const Tensor& order, Wanted wanted) {
  const int64_t n = rows.size(0);
  const TensorOptions integers{.dtype = kInt64, .device = rows.device()};
  const Tensor none = zeros({0}, integers);
  if (n == 0) return {rows, wanted.inverse ? none : Tensor(), wanted.counts ? none : Tensor()};
  const Tensor starts = run_starts(rows);
  const Tensor places = ravel(nonzero(starts));
  Distinct result;
  std::get<0>(result) = index_select(rows, 0, places);
  if (wanted.inverse) {
    const Tensor run = cumsum(starts, 0) - 1;
    std::get<1>(result) = order.defined() ? scatter(empty_like(run), 0, order, run) : run;
  }
  if (wanted.counts) {
    const Tensor ends = cat({narrow(places, 0, 1, places.numel() - 1), full({1}, n, integers)}, 0);
    std::get<2>(result) = ends - places;
  }
  return result;
}

// The order of the rows of a matrix: sorted by the last column first; the sort is stable.
Tensor lexicographic_order(const Tensor& rows /* N M */) {
  Tensor order;
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    const Tensor keys = select(rows, 1, column);
    const Tensor next = argsort(order.defined() ? index_select(keys, 0, order) : keys, 0);
    order = order.defined() ? index_select(order, 0, next) : next;
  }
  return order;
}

// As runs_of, for slices along a dim of `self`.
template <class Body>
Distinct along_dim(const Tensor& self, int64_t dim, std::string_view op, const Body& body) {
  check(self.dim() > 0, op, ": dim ", dim, " was given, but the tensor has no dimensions");
  const int at = wrap_dim(dim, self.dim(), op);
  for (int d = 0; d < self.dim(); ++d)
    check(d == at || self.sizes()[d] > 0, op, ": dimension ", d,
          " has size 0 and is not the one whose slices are compared");
  Distinct result = body(contiguous(movedim(self, {at}, {0})));
  std::get<0>(result) = contiguous(movedim(std::get<0>(result), {0}, {at}));
  return result;
}

}  // namespace

Distinct unique(const Tensor& self, bool, bool return_inverse, bool return_counts,
                std::optional<int64_t> dim) {
  check_dtype(self, "unique");
  const Tensor x = self.detach();
  const Wanted wanted{return_inverse, return_counts};
  if (dim)
    return along_dim(x, *dim, "unique", [&](const Tensor& slices) {
      if (slices.size(0) == 0) return runs_of(slices, {}, wanted);
      const Tensor order = lexicographic_order(flatten(unsqueeze(slices, 1), 1));
      return runs_of(index_select(slices, 0, order), order, wanted);
    });
  const Tensor elements = contiguous(ravel(x));
  if (!return_inverse) return runs_of(apply(sort_values_op, {elements}), {}, wanted);
  const auto [values, order] = sort(elements, 0);
  Distinct result = runs_of(values, order, wanted);
  std::get<1>(result) = reshape(std::get<1>(result), self.sizes());
  return result;
}

Distinct unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts,
                            std::optional<int64_t> dim) {
  check_dtype(self, "unique_consecutive");
  const Tensor x = self.detach();
  const Wanted wanted{return_inverse, return_counts};
  if (dim)
    return along_dim(x, *dim, "unique_consecutive",
                     [&](const Tensor& slices) { return runs_of(slices, {}, wanted); });
  Distinct result = runs_of(ravel(x), {}, wanted);
  if (return_inverse) std::get<1>(result) = reshape(std::get<1>(result), self.sizes());
  return result;
}

}  // namespace tensora
