#include "tensora/ops/attention/rotary.h"

#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora {

constexpr auto describe(std::type_identity<RotaryAttrs>) {
  return fields(field("interleaved", &RotaryAttrs::interleaved),
                field("inverse", &RotaryAttrs::inverse));
}

namespace {

void check_turned(const Infer& infer, size_t i, std::string_view what) {
  const Tensor &x = infer[i], &cos = infer[0];
  infer.check(x.is_floating_point() && x.dim() >= 2, what,
              " must be floating-point with at least 2 dimensions, got ", x.dtype(), " ",
              x.sizes());
  const int64_t turned = 2 * cos.size(-1);
  infer.check(turned <= x.size(-1), what, " of shape ", x.sizes(), " has fewer than the ", turned,
              " elements per row that cos of shape ", cos.sizes(), " turns");
  Shape lead = x.sizes();
  lead[x.dim() - 1] = cos.size(-1);
  infer.check(can_broadcast_to(cos.sizes(), lead), "cos of shape ", cos.sizes(),
              " does not broadcast to ", what, " of shape ", x.sizes());
}

// In the layout of `x`: where the heads of a position lie side by side, so do those of the result,
// and attention need not copy them.
void output_like(Infer& infer, const Tensor& x) {
  const bool rows = x.stride(-1) == 1;
  infer.output(x.sizes(),
               rows ? kept_strides(x.sizes(), x.strides()) : contiguous_strides(x.sizes()),
               x.dtype());
}

void infer_rotary(Infer& infer, const RotaryAttrs&) {
  const Tensor &cos = infer[0], &sin = infer[1];
  infer.check(cos.is_floating_point() && cos.dtype() == sin.dtype() && cos.sizes() == sin.sizes() &&
                  cos.dim() >= 1,
              "cos and sin must be floating-point tensors of one dtype and shape, got ",
              cos.dtype(), " ", cos.sizes(), " and ", sin.dtype(), " ", sin.sizes());
  check_turned(infer, 2, "query");
  output_like(infer, infer[2]);
  if (!infer.has(3)) return;
  check_turned(infer, 3, "key");
  infer.check(infer[2].dtype() == infer[3].dtype(), "query and key must have one dtype, got ",
              infer[2].dtype(), " and ", infer[3].dtype());
  output_like(infer, infer[3]);
}

// Both elements of all pairs.
struct Pairs {
  Tensor first, second;
};
Pairs pairs_of(const Tensor& x, int64_t half, bool interleaved) {
  if (!interleaved) return {narrow(x, -1, 0, half), narrow(x, -1, half, half)};
  Shape sizes = x.sizes();
  sizes[x.dim() - 1] = half;
  sizes.push_back(2);
  const Tensor apart = reshape(narrow(x, -1, 0, 2 * half), sizes);
  return {select(apart, -1, 0), select(apart, -1, 1)};
}

DType wide_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

Tensor turned(const Tensor& x, const Tensor& cos, const Tensor& sin, const RotaryAttrs& attrs) {
  const DType wide = wide_dtype(x.dtype());
  const int64_t half = cos.size(-1), size = x.size(-1);
  const Tensor c = to(cos, wide), s = attrs.inverse ? -to(sin, wide) : to(sin, wide);
  const Pairs pairs = pairs_of(to(x, wide), half, attrs.interleaved);
  const Tensor first = pairs.first * c - pairs.second * s;
  const Tensor second = pairs.second * c + pairs.first * s;
  Shape sizes = x.sizes();
  sizes[x.dim() - 1] = 2 * half;
  const Tensor both =
      attrs.interleaved ? reshape(stack({first, second}, -1), sizes) : cat({first, second}, -1);
  const Tensor result = to(both, x.dtype());
  return 2 * half == size ? result : cat({result, narrow(x, -1, 2 * half, size - 2 * half)}, -1);
}

Tensors rotary_definition(Args in, const RotaryAttrs& attrs) {
  Tensors result;
  for (size_t i = 2; i < in.size(); ++i)
    if (in[i]->defined()) result.push_back(turned(*in[i], *in[0], *in[1], attrs));
  return result;
}

// The gradients of cos and sin, from those of the turned tensor.
Pairs table_gradients(const Tensor& grad, const Tensor& x, int64_t half, const RotaryAttrs& attrs) {
  const DType wide = wide_dtype(x.dtype());
  const Pairs g = pairs_of(to(grad, wide), half, attrs.interleaved);
  const Pairs p = pairs_of(to(x, wide), half, attrs.interleaved);
  const Tensor of_sin = g.second * p.first - g.first * p.second;
  return {g.first * p.first + g.second * p.second, attrs.inverse ? -of_sin : of_sin};
}

Tensor summed_to(const Tensor& x, const Shape& sizes) {
  Dims dims;
  const int added = x.dim() - sizes.size();
  for (int d = 0; d < x.dim(); ++d)
    if (d < added || (sizes[d - added] == 1 && x.size(d) != 1)) dims.push_back(d);
  return reshape(dims.empty() ? x : sum(x, dims, true), sizes);
}

void rotary_vjp(Vjp& vjp, const RotaryAttrs& attrs) {
  const bool has_key = vjp.input_count() > 3 && vjp.input_sizes(3).size() > 0;
  // A turn's gradient is the turn back.
  RotaryAttrs back = attrs;
  back.inverse = !attrs.inverse;
  const bool query = vjp.needs(2) && vjp.grad(0).defined();
  const bool key = has_key && vjp.needs(3) && vjp.grad(1).defined();
  if (query && key) {
    const Tensors grads =
        apply_all(rotary_op, {vjp.input(0), vjp.input(1), vjp.grad(0), vjp.grad(1)}, back);
    vjp.set(2, grads[0]);
    vjp.set(3, grads[1]);
  } else if (query || key) {
    const size_t i = query ? 2 : 3;
    vjp.set(i, apply_all(rotary_op, {vjp.input(0), vjp.input(1), vjp.grad(i - 2)}, back)[0]);
  }
  if (!vjp.needs(0) && !vjp.needs(1)) return;
  const int64_t half = vjp.input_sizes(0)[vjp.input_sizes(0).size() - 1];
  const auto down = [&](const Tensor& x) { return summed_to(x, vjp.input_sizes(0)); };
  Pairs sums;
  for (size_t i = 2; i < (has_key ? 4u : 3u); ++i) {
    if (!vjp.grad(i - 2).defined()) continue;
    const Pairs more = table_gradients(vjp.grad(i - 2), vjp.input(i), half, attrs);
    sums.first = sums.first.defined() ? sums.first + down(more.first) : down(more.first);
    sums.second = sums.second.defined() ? sums.second + down(more.second) : down(more.second);
  }
  if (vjp.needs(0)) vjp.set(0, sums.first);
  if (vjp.needs(1)) vjp.set(1, sums.second);
}

std::tuple<Tensor, Tensor> both(Tensors tensors) {
  return {std::move(tensors[0]), std::move(tensors[1])};
}

}  // namespace

constinit OpDef<RotaryAttrs> rotary_op = define(Op<RotaryAttrs>{
    .name = "rotary",
    .inputs = {"cos", "sin", "query", "key?"},
    .infer = infer_rotary,
    .reference = rotary_definition,
    .vjp = rotary_vjp,
    .saves = {in(2) | in(3), in(2) | in(3), in(0) | in(1), in(0) | in(1)},
});

void register_rotary(OpRegistry& registry) { registry.add(rotary_op); }

std::tuple<Tensor, Tensor> apply_rotary(const Tensor& query, const Tensor& key, const Tensor& cos,
                                        const Tensor& sin, bool interleaved) {
  return called_as("apply_rotary", [&] {
    return both(apply_all(rotary_op, {cos, sin, query, key}, {interleaved}));
  });
}

std::tuple<Tensor, Tensor> apply_rotary_at(const Tensor& query, const Tensor& key,
                                           const Tensor& cos, const Tensor& sin,
                                           const Tensor& positions, bool interleaved) {
  return called_as("apply_rotary_at", [&] {
    check(
        cos.dim() == 2 && sin.dim() == 2,
        "apply_rotary_at: with positions, cos and sin must be tables of 2 dimensions, got shapes ",
        cos.sizes(), " and ", sin.sizes());
    check(positions.dim() >= 1, "apply_rotary_at: positions must have at least 1 dimension");
    Shape sizes = positions.sizes();
    if (sizes.size() > 1) sizes.insert(sizes.size() - 1, 1);  // all heads have one position
    sizes.push_back(cos.size(1));
    const Tensor flat = ravel(positions);
    return apply_rotary(query, key, reshape(index_select(cos, 0, flat), sizes),
                        reshape(index_select(sin, 0, flat), sizes), interleaved);
  });
}

std::tuple<Tensor, Tensor> apply_rotary_from(const Tensor& query, const Tensor& key,
                                             const Tensor& cos, const Tensor& sin, int64_t offset,
                                             bool interleaved) {
  return called_as("apply_rotary_from", [&] {
    check(cos.dim() == 2 && sin.dim() == 2 && query.dim() >= 2,
          "apply_rotary_from: with an offset, cos and sin must be tables of 2 dimensions, got "
          "shapes ",
          cos.sizes(), " and ", sin.sizes());
    const int64_t length = query.size(-2);
    check(offset >= 0 && offset + length <= cos.size(0), "apply_rotary_from: positions ", offset,
          " to ", offset + length, " are not all in the tables of ", cos.size(0));
    return apply_rotary(query, key, narrow(cos, 0, offset, length), narrow(sin, 0, offset, length),
                        interleaved);
  });
}

Tensor rotary_embedding(const Tensor& input, const Tensor& cos, const Tensor& sin,
                        bool interleaved) {
  return called_as("rotary_embedding", [&] {
    return apply_all(rotary_op, {cos, sin, input}, {interleaved})[0];
  });
}

std::tuple<Tensor, Tensor> rotary_tables(int64_t length, int64_t size, double base,
                                         const TensorOptions& options) {
  check(length >= 0 && size >= 0 && size % 2 == 0,
        "rotary_tables: expected a length and an even size, got ", length, " and ", size);
  const TensorOptions exact = {.dtype = kFloat64, .device = options.device};
  const Tensor frequencies = exp(arange(size / 2, exact) * (-2 * std::log(base) / double(size)));
  const Tensor angles = outer(arange(length, exact), frequencies);
  const DType dtype = options.dtype.value_or(default_dtype());
  return {to(cos(angles), dtype), to(sin(angles), dtype)};
}

}  // namespace tensora
