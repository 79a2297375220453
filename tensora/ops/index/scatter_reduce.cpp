#include "tensora/ops/index/scatter_reduce.h"

#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_ops.h"
#include "tensora/ops/index/masked.h"
#include "tensora/ops/index/scatter_combine.h"
#include "tensora/ops/index/scatter_operands.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// All elements that are the result, of self and of src, share its gradient.
void extremum_vjp(Vjp& vjp, int64_t dim) {
  const Tensor self = vjp.input(0), index = vjp.input(1), src = vjp.input(2), out = vjp.output();
  const DType dtype = vjp.grad().dtype();
  const Tensor self_chosen = to(eq(self, out), dtype);
  const Tensor src_chosen = to(eq(src, gather(out, dim, index)), dtype);
  const Tensor share = vjp.grad() / scatter_add(self_chosen, dim, index, src_chosen);
  if (vjp.needs(0)) vjp.set(0, self_chosen * share);
  if (vjp.needs(2)) vjp.set(2, src_chosen * gather(share, dim, index));
}

// The product of the others is the result divided by the factor. A factor that is 0 is replaced by
// 1 first, unless another one at its place is 0 too.
void prod_vjp(Vjp& vjp, const ScatterCombineAttrs& attrs) {
  const Tensor &grad = vjp.grad(), self = vjp.input(0), index = vjp.input(1), src = vjp.input(2);
  const int64_t dim = attrs.dim;
  const auto product = [&](const Tensor& of, const Tensor& factors) {
    return apply(scatter_combine_op, {of, index, factors}, attrs);
  };
  if (vjp.needs(0)) {
    const Tensor factor = masked_fill(self, eq(self, 0), 1);
    vjp.set(0, grad * product(factor, src) / factor);
  }
  if (!vjp.needs(2)) return;
  const Tensor is_zero = eq(src, 0);
  const Tensor zero_count = scatter_add(zeros_like(self), dim, index, to(is_zero, self.dtype()));
  const Tensor single = logical_and(is_zero, eq(gather(zero_count, dim, index), 1));
  const Tensor others = product(self, masked_fill(src, single, 1));
  const Tensor by_division = gather(grad * vjp.output(), dim, index) / masked_fill(src, is_zero, 1);
  vjp.set(2, where(single, gather(grad * others, dim, index), by_division));
}

// One slice of the index after the other: within a slice no place occurs twice.
Tensors combine_reference(Args in, const ScatterCombineAttrs& attrs) {
  const auto line = [](const Tensor& t) { return t.dim() == 0 ? ravel(t) : t; };
  const Tensor index = line(*in[1]), src = line(*in[2]);
  Tensor data = cat({line(*in[0])}, 0);  // never the input itself
  for (int64_t k = 0; k < index.size(attrs.dim); ++k) {
    const Tensor places = narrow(index, attrs.dim, k, 1), value = narrow(src, attrs.dim, k, 1);
    const Tensor old = gather(data, attrs.dim, places);
    const Tensor next = attrs.combine == Combine::prod   ? old * value
                        : attrs.combine == Combine::amax ? maximum(old, value)
                                                         : minimum(old, value);
    data = scatter(data, attrs.dim, places, next);
  }
  return Tensors{reshape(data, in[0]->sizes())};
}

enum class Reduce { sum, prod, mean, amax, amin };

Reduce parse_reduce(std::string_view text, std::string_view op, bool with_sum) {
  if (text == "sum" && with_sum) return Reduce::sum;
  if (text == "prod") return Reduce::prod;
  if (text == "mean") return Reduce::mean;
  if (text == "amax") return Reduce::amax;
  check(text == "amin", op, ": reduce must be one of ", with_sum ? "sum, " : "",
        "prod, mean, amax or amin, got ", text);
  return Reduce::amin;
}

// What changes nothing.
Scalar neutral(Reduce reduce, DType dtype) {
  if (reduce == Reduce::sum || reduce == Reduce::mean) return 0;
  if (reduce == Reduce::prod) return 1;
  const bool lowest = reduce == Reduce::amax;
  if (is_floating_point(dtype)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return lowest ? -kInfinity : kInfinity;
  }
  return visit_dtype(dtype, [&]<class T>() -> Scalar {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      return static_cast<int64_t>(lowest ? Limits::min() : Limits::max());
    } else {
      return 0;
    }
  });
}

Tensor reduced(const Tensor& self, int64_t dim, const Tensor& given, const Tensor& from,
               Reduce reduce, bool include_self, std::string_view op) {
  return called_as(op, [&] {
    const Tensor index = scattering::index_for(self, given);
    const Tensor src = scattering::covered(from, index, op);
    const Tensor base =
        include_self ? self : scatter(self, dim, index, neutral(reduce, self.dtype()));
    if (reduce == Reduce::sum) return scatter_add(base, dim, index, src);
    if (reduce == Reduce::mean) {
      const Tensor total = scatter_add(base, dim, index, src);
      const Tensor start = scatter(ones_like(self), dim, index, include_self ? 1 : 0);
      const Tensor count = scatter_add(start, dim, index, ones_like(src));
      return self.is_floating_point() ? total / count : floor_divide(total, count);
    }
    const Combine combine = reduce == Reduce::prod   ? Combine::prod
                            : reduce == Reduce::amax ? Combine::amax
                                                     : Combine::amin;
    return apply(scatter_combine_op, {base, index, src}, {dim, combine});
  });
}

// What `self` was before it is overwritten, for the gradient.
Tensor kept(const Tensor& self, const Tensor& src) {
  return self.requires_grad() || src.requires_grad() ? clone(self) : self;
}

// The 1-D index of slices as an index of elements.
Tensor of_slices(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                 std::string_view op) {
  check(index.dim() <= 1, op, ": index must be 1-D, got shape ", index.sizes());
  check(source.dim() == self.dim(), op, ": source must have as many dimensions as self, ",
        self.sizes(), ", got shape ", source.sizes());
  if (self.dim() == 0) return reshape(index, {});
  const int at = wrap_dim(dim, self.dim(), op);
  Shape wanted = self.sizes();
  wanted[at] = index.numel();
  check(source.sizes() == wanted, op, ": source must have shape ", wanted, ", got ",
        source.sizes());
  Shape along = Shape::filled(self.dim(), 1);
  along[at] = index.numel();
  return expand(reshape(index, along), source.sizes());
}

Tensor put_flat(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  check(index.dtype() == kInt64, "put: index must have dtype int64, got ", index.dtype());
  check(index.numel() == source.numel(),
        "put: index and source must have as many elements, got shapes ", index.sizes(), " and ",
        source.sizes());
  check(source.dtype() == self.dtype(), "put: source must have self's dtype ", self.dtype(),
        ", got ", source.dtype());
  return called_as("put", [&] {
    return apply(index_put_op, {ravel(self), ravel(source), ravel(index)},
                 {.dims = {0}, .accumulate = accumulate, .negative = Negative::wrapped});
  });
}

}  // namespace

constinit OpDef<ScatterCombineAttrs> scatter_combine_op = define(Op<ScatterCombineAttrs>{
    .name = "scatter_combine",
    .inputs = {"self", "index", "src"},
    .infer =
        [](Infer& infer, const ScatterCombineAttrs& attrs) {
          scatter_add_op.typed.infer(infer, {attrs.dim});
        },
    .reference = combine_reference,
    .vjp =
        [](Vjp& vjp, const ScatterCombineAttrs& attrs) {
          attrs.combine == Combine::prod ? prod_vjp(vjp, attrs) : extremum_vjp(vjp, attrs.dim);
        },
    .saves = {in(0) | in(1) | in(2) | out(0), {}, in(0) | in(1) | in(2) | out(0)},
});

void register_scatter_reduce(OpRegistry& registry) {
  registry.add(scatter_combine_op);
  shard_by(scatter_combine_op, "along dim");
}

Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self) {
  return reduced(self, dim, index, src, parse_reduce(reduce, "scatter_reduce", true), include_self,
                 "scatter_reduce");
}
const Tensor& scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index,
                              const Tensor& src, std::string_view reduce, bool include_self) {
  return copy_(self, scatter_reduce(kept(self, src), dim, index, src, reduce, include_self));
}

Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self) {
  const Reduce how = parse_reduce(reduce, "index_reduce", false);
  const Tensor places = of_slices(self, dim, index, source, "index_reduce");
  return reduced(self, dim, places, source, how, include_self, "index_reduce");
}
const Tensor& index_reduce_(const Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& source, std::string_view reduce, bool include_self) {
  return copy_(self, index_reduce(kept(self, source), dim, index, source, reduce, include_self));
}

Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  return reshape(put_flat(self, index, source, accumulate), self.sizes());
}
const Tensor& put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  return copy_(self, put(self, index, source, accumulate));
}

}  // namespace tensora
