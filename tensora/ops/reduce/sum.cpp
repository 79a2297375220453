#include "tensora/ops/reduce/sum.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<SumToAttrs>) {
  return fields(field("size", &SumToAttrs::size));
}

namespace {

void check_parts(const Infer& infer, DType from, DType to) {
  infer.check(is_complex(from) == is_complex(to), "cannot sum ", from, " as ", to,
              "; cast the tensor");
}

void infer_sum(Infer& infer, const ReduceAttrs& attrs) {
  const Tensor& x = infer[0];
  const uint32_t mask = reduced_mask(attrs.dim, x.dim(), infer.op);
  const DType natural = is_differentiable(x.dtype()) ? x.dtype() : DType::int64;
  const DType result = attrs.dtype.value_or(natural);
  check_parts(infer, x.dtype(), result);
  infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim), result);
}

// Casting to bool first is "any nonzero", which no wider compute type preserves; and the kernels
// turn no real number into a complex one.
Tensor cast_first(const Tensor& self, std::optional<DType> dtype) {
  const bool other = dtype && (dtype == kBool || is_complex(*dtype) != self.is_complex());
  return other ? to(self, *dtype) : self;
}

}  // namespace

Dims broadcast_dims(const Shape& from, const Shape& to) {
  const int added = to.size() - from.size();
  Dims result;
  for (int d = 0; d < to.size(); ++d)
    if (d < added || (from[d - added] == 1 && to[d] != 1)) result.push_back(d);
  return result;
}

constinit OpDef<ReduceAttrs> sum_op = define(Op<ReduceAttrs>{
    .name = "sum",
    .inputs = {"self"},
    .primitive = true,
    .infer = infer_sum,
    .vjp =
        [](Vjp& vjp, const ReduceAttrs& attrs) {
          vjp.set(0, unreduce(vjp.grad(), vjp.input_sizes(0), attrs.dim, attrs.keepdim));
        },
    .accepts = kComputingDTypes,
});

constinit OpDef<ReduceAttrs> mean_op = define(Op<ReduceAttrs>{
    .name = "mean",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ReduceAttrs& attrs) {
          const DType dtype = attrs.dtype.value_or(infer[0].dtype());
          infer.check(is_differentiable(dtype), "expected a floating-point dtype, got ", dtype,
                      "; cast the tensor or pass dtype");
          check_parts(infer, infer[0].dtype(), dtype);
          const uint32_t mask = reduced_mask(attrs.dim, infer[0].dim(), infer.op);
          infer.output(reduced_sizes(infer[0].sizes(), mask, attrs.keepdim), dtype);
        },
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          const Tensor x = to(*in[0], attrs.dtype.value_or(in[0]->dtype()));
          const int64_t count = reduced_count(x.sizes(), attrs.dim, "mean");
          // The sum of half-precision numbers may not fit where their mean does.
          const DType wide = promote_types(x.dtype(), kFloat32);
          Tensors result;
          result.push_back(to(sum(x, attrs.dim, attrs.keepdim, wide) / count, x.dtype()));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const ReduceAttrs& attrs) {
          // Scaled before it is repeated: one small tensor.
          const int64_t count = reduced_count(vjp.input_sizes(0), attrs.dim, "mean");
          vjp.set(0, unreduce(vjp.grad() / Scalar(static_cast<double>(count)), vjp.input_sizes(0),
                              attrs.dim, attrs.keepdim));
        },
    .accepts = kComputingDTypes,
});

constinit OpDef<ReduceAttrs> nansum_op = define(Op<ReduceAttrs>{
    .name = "nansum",
    .inputs = {"self"},
    .infer = infer_sum,
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          Tensors result;
          result.push_back(
              sum(where(isnan(*in[0]), 0, *in[0]), attrs.dim, attrs.keepdim, attrs.dtype));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const ReduceAttrs& attrs) {
          const Tensor x = vjp.input(0);
          const Tensor grad = unreduce(vjp.grad(), x.sizes(), attrs.dim, attrs.keepdim);
          vjp.set(0, where(isnan(x), 0, grad));
        },
    .saves = {in(0)},
});

constinit OpDef<ReduceAttrs> count_nonzero_op = define(Op<ReduceAttrs>{
    .name = "count_nonzero",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ReduceAttrs& attrs) {
          const uint32_t mask = reduced_mask(attrs.dim, infer[0].dim(), infer.op);
          infer.output(reduced_sizes(infer[0].sizes(), mask, attrs.keepdim), kInt64);
        },
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          Tensors result;
          result.push_back(sum(ne(*in[0], 0), attrs.dim, attrs.keepdim));
          return result;
        },
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<SumToAttrs> sum_to_op = define(Op<SumToAttrs>{
    .name = "sum_to",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const SumToAttrs& attrs) {
          infer.check(can_broadcast_to(attrs.size, infer[0].sizes()), "shape ", attrs.size,
                      " does not broadcast to the tensor's shape ", infer[0].sizes());
          infer.output(attrs.size, infer[0].dtype());
        },
    .reference =
        [](Args in, const SumToAttrs& attrs) {
          const Dims repeated = broadcast_dims(attrs.size, in[0]->sizes());
          Tensors result;
          result.push_back(repeated.empty()
                               ? clone(*in[0])
                               : view(sum(*in[0], repeated, false, in[0]->dtype()), attrs.size));
          return result;
        },
    .vjp =
        [](Vjp& vjp, const SumToAttrs& attrs) {
          const Shape& sizes = vjp.input_sizes(0);
          const int added = sizes.size() - attrs.size.size();
          Dims leading, repeated;
          Shape padded = attrs.size;
          for (int d = 0; d < added; ++d) padded.insert(0, 1);
          for (int64_t d : broadcast_dims(attrs.size, sizes))
            (d < added ? leading : repeated).push_back(d);
          Tensor grad = vjp.grad();
          if (!leading.empty()) {
            for (int d = 0; d < added; ++d) padded[d] = sizes[d];
            grad = unreduce(grad, padded, leading, false);
          }
          if (!repeated.empty()) grad = unreduce(grad, sizes, repeated, true);
          vjp.set(0, grad);
        },
    .accepts = kComputingDTypes,
});

void register_sum(OpRegistry& registry) {
  for (const OpDef<ReduceAttrs>* op : {&sum_op, &mean_op, &nansum_op, &count_nonzero_op})
    registry.add(*op);
  registry.add(sum_to_op);
  shard_by(sum_op, "linear reduce dim by sum");
  shard_by(mean_op, "definition");
  shard_by(nansum_op, "reduce dim by sum");
  shard_by(count_nonzero_op, "reduce dim by sum");
  shard_by(sum_to_op, "*->* size");
}

Tensor sum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> chosen) {
  const auto dtype = autocast_result(self, chosen, {Autocast::as_is, Autocast::full});
  return apply(sum_op, {cast_first(self, dtype)}, {dim, keepdim, dtype});
}

Tensor mean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  return apply(mean_op, {cast_first(self, dtype)}, {dim, keepdim, dtype});
}

Tensor sum(const Tensor& self, DType dtype) { return sum(self, {}, false, dtype); }

Tensor mean(const Tensor& self, DType dtype) { return mean(self, {}, false, dtype); }

Tensor nansum(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  return apply(nansum_op, {cast_first(self, dtype)}, {dim, keepdim, dtype});
}

Tensor nanmean(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  const DType computed = dtype.value_or(self.dtype());
  check(is_floating_point(computed), "nanmean: expected a floating-point dtype, got ", computed,
        "; cast the tensor or pass dtype");
  return nansum(self, dim, keepdim, dtype) / sum(logical_not(isnan(self)), dim, keepdim);
}

Tensor count_nonzero(const Tensor& self, const Dims& dim) {
  return apply(count_nonzero_op, {self.is_complex() ? ne(self, 0) : self}, {dim});
}

Tensor sum_to(const Tensor& self, const Shape& size) {
  return self.sizes() == size ? self : apply(sum_to_op, {self}, {size});
}

}  // namespace tensora
