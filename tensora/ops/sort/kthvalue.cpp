#include "tensora/ops/sort/kthvalue.h"

#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/pick.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/chosen.h"
#include "tensora/ops/sort/sort.h"

namespace tensora {

constexpr auto describe(std::type_identity<MedianAttrs>) {
  return fields(field("dim", &MedianAttrs::dim), field("keepdim", &MedianAttrs::keepdim));
}
constexpr auto describe(std::type_identity<KthvalueAttrs>) {
  using A = KthvalueAttrs;
  return fields(field("k", &A::k), field("dim", &A::dim), field("keepdim", &A::keepdim));
}

namespace {

void infer_pair(Infer& infer, int64_t dim, bool keepdim) {
  const uint32_t mask = nonempty_mask(infer, {dim});
  const Shape sizes = reduced_sizes(infer[0].sizes(), mask, keepdim);
  infer.output(sizes, infer[0].dtype());
  infer.output(sizes, kInt64);
}

void infer_median(Infer& infer, const NoAttrs&) {
  infer.check(infer[0].numel() > 0, "expected at least one element");
  infer.output({}, infer[0].dtype());
}

// The median is the element at a position of the sorted line that depends on the number of NaNs,
// which come last.
template <bool ignore_nan>
Tensors median_dim_reference(Args in, const MedianAttrs& attrs) {
  const Tensor& x = *in[0];
  const auto [values, indices] = sort(x, attrs.dim);
  const int64_t n = x.dim() == 0 ? 1 : x.size(attrs.dim);
  const Tensor nans = sum(isnan(x), {attrs.dim}, true);
  const Tensor rank = ignore_nan ? floor_divide(clamp_min(n - 1 - nans, 0), 2)
                                 : where(gt(nans, 0), n - nans, (n - 1) / 2);
  Tensors result{gather(values, attrs.dim, rank), gather(indices, attrs.dim, rank)};
  if (x.dim() > 0 && !attrs.keepdim)
    for (Tensor& tensor : result) tensor = squeeze(tensor, attrs.dim);
  return result;
}

template <bool ignore_nan>
Tensors median_reference(Args in, const NoAttrs&) {
  const Tensor flat = ravel(*in[0]);
  const auto& op = ignore_nan ? nanmedian_dim_op : median_dim_op;
  return Tensors{apply_all(op, {flat}, {0, false})[0]};
}

void picked_vjp(Vjp& vjp, int64_t dim, bool keepdim) {
  const Shape& sizes = vjp.input_sizes(0);
  vjp.set(0, put_picked(vjp.grad(), vjp.output(1),
                        {sizes, wrap_dim(dim, sizes.size(), "kthvalue"), keepdim}));
}
void median_dim_vjp(Vjp& vjp, const MedianAttrs& attrs) {
  picked_vjp(vjp, attrs.dim, attrs.keepdim);
}

void median_vjp(Vjp& vjp, const NoAttrs&) {
  const Tensor x = vjp.input(0), y = vjp.output();
  const Tensor equal = where(isnan(y), isnan(x), eq(x, y));
  vjp.set(0, vjp.grad() / sum(equal) * equal);
}

void infer_median_dim(Infer& infer, const MedianAttrs& attrs) {
  infer_pair(infer, attrs.dim, attrs.keepdim);
}

Tensor median_of_nothing(const Tensor& self) {
  const Scalar value = self.is_floating_point()
                           ? Scalar(std::numeric_limits<double>::quiet_NaN())
                           : Scalar(visit_dtype(self.dtype(), []<class T>() {
                               if constexpr (std::is_integral_v<T>)
                                 return static_cast<int64_t>(std::numeric_limits<T>::min());
                               else
                                 return int64_t{0};
                             }));
  return full({}, value, {.dtype = self.dtype(), .device = self.device()});
}

}  // namespace

constinit OpDef<KthvalueAttrs> kthvalue_op = define(Op<KthvalueAttrs>{
    .name = "kthvalue",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const KthvalueAttrs& attrs) {
          infer_pair(infer, attrs.dim, attrs.keepdim);
          const int dim = wrap_dim(attrs.dim, infer[0].dim(), infer.op);
          const int64_t length = infer[0].dim() == 0 ? 1 : infer[0].sizes()[dim];
          infer.check(attrs.k >= 1 && attrs.k <= length, "k must be between 1 and ", length,
                      ", the size of dimension ", dim, ", got ", attrs.k);
        },
    .reference =
        [](Args in, const KthvalueAttrs& attrs) {
          const Tensor& x = *in[0];
          const auto [values, indices] = sort(x, attrs.dim);
          if (x.dim() == 0) return Tensors{values, indices};
          Tensors result{narrow(values, attrs.dim, attrs.k - 1, 1),
                         narrow(indices, attrs.dim, attrs.k - 1, 1)};
          for (Tensor& tensor : result)
            tensor = contiguous(attrs.keepdim ? tensor : squeeze(tensor, attrs.dim));
          return result;
        },
    .vjp = [](Vjp& vjp, const KthvalueAttrs& attrs) { picked_vjp(vjp, attrs.dim, attrs.keepdim); },
    .saves = {out(1)},
});

constinit OpDef<MedianAttrs> median_dim_op =
    define(Op<MedianAttrs>{.name = "median_dim",
                           .inputs = {"self"},
                           .infer = infer_median_dim,
                           .reference = median_dim_reference<false>,
                           .vjp = median_dim_vjp,
                           .saves = {out(1)}});
constinit OpDef<MedianAttrs> nanmedian_dim_op =
    define(Op<MedianAttrs>{.name = "nanmedian_dim",
                           .inputs = {"self"},
                           .infer = infer_median_dim,
                           .reference = median_dim_reference<true>,
                           .vjp = median_dim_vjp,
                           .saves = {out(1)}});
constinit OpDef<NoAttrs> median_op = define(Op<NoAttrs>{.name = "median",
                                                        .inputs = {"self"},
                                                        .infer = infer_median,
                                                        .reference = median_reference<false>,
                                                        .vjp = median_vjp,
                                                        .saves = {in(0) | out(0)}});
constinit OpDef<NoAttrs> nanmedian_op = define(Op<NoAttrs>{.name = "nanmedian",
                                                           .inputs = {"self"},
                                                           .infer = infer_median,
                                                           .reference = median_reference<true>,
                                                           .vjp = median_vjp,
                                                           .saves = {in(0) | out(0)}});

void register_kthvalue(OpRegistry& registry) {
  registry.add(kthvalue_op);
  registry.add(median_dim_op);
  registry.add(nanmedian_dim_op);
  registry.add(median_op);
  registry.add(nanmedian_op);
  shard_by(kthvalue_op, "reduce dim");
  shard_by(median_dim_op, "reduce dim");
  shard_by(nanmedian_dim_op, "reduce dim");
}

std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  return pair_of(apply_all(kthvalue_op, {self}, {k, dim, keepdim}));
}
std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim) {
  return called_as("median", [&] {
    return pair_of(apply_all(median_dim_op, {self}, {dim, keepdim}));
  });
}
std::tuple<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim) {
  return called_as("nanmedian", [&] {
    return pair_of(apply_all(nanmedian_dim_op, {self}, {dim, keepdim}));
  });
}
Tensor median(const Tensor& self) {
  return self.numel() == 0 ? median_of_nothing(self) : apply(median_op, {self});
}
Tensor nanmedian(const Tensor& self) {
  return self.numel() == 0 ? median_of_nothing(self) : apply(nanmedian_op, {self});
}

}  // namespace tensora
