#include "tensora/ops/resample/pad.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/pool/pool_common.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<ConstantPadAttrs>) {
  using A = ConstantPadAttrs;
  return fields(field("before", &A::before), field("after", &A::after), field("value", &A::value));
}

namespace {

// The part of dim d without what negative numbers cut off.
Tensor cut(const Tensor& x, int d, int64_t before, int64_t after) {
  const int64_t start = std::max<int64_t>(0, -before), end = std::max<int64_t>(0, -after);
  const int64_t size = x.sizes()[d];
  check(start + end <= size, "pad: cannot cut ", start, " and ", end, " elements off size ", size,
        " of dim ", d);
  return start + end == 0 ? x : narrow(x, d, start, size - start - end);
}

Tensor padded_with(const Tensor& input, const std::vector<int64_t>& pad, Scalar value) {
  ConstantPadAttrs attrs;
  attrs.before = attrs.after = Shape::filled(input.dim(), 0);
  attrs.value = fit_scalar(value, input.dtype(), "pad");
  Tensor x = input;
  bool grows = false;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int d = input.dim() - 1 - static_cast<int>(k);
    x = cut(x, d, pad[2 * k], pad[2 * k + 1]);
    attrs.before[d] = std::max<int64_t>(0, pad[2 * k]);
    attrs.after[d] = std::max<int64_t>(0, pad[2 * k + 1]);
    grows |= attrs.before[d] > 0 || attrs.after[d] > 0;
  }
  if (!grows) return clone(x);
  return called_as("pad", [&] { return apply(constant_pad_op, {x}, attrs); });
}

// What comes before dim d of x, or after it.
Tensor edge(const Tensor& x, int d, int64_t count, bool before, std::string_view mode) {
  const int64_t size = x.sizes()[d];
  if (mode == "circular") return narrow(x, d, before ? size - count : 0, count);
  if (mode == "reflect") return flip(narrow(x, d, before ? 1 : size - 1 - count, count), {d});
  Shape sizes = x.sizes();
  sizes[d] = count;
  return expand(narrow(x, d, before ? 0 : size - 1, 1), sizes);
}

void check_edges(const Tensor& input, int d, int64_t before, int64_t after, std::string_view mode) {
  const int64_t size = input.sizes()[d], most = std::max(before, after);
  if (mode == "reflect")
    check(most < size, "pad: reflect needs padding smaller than the size, got ", before, " and ",
          after, " for size ", size, " of dim ", d);
  if (mode == "circular")
    check(most <= size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0),
          "pad: circular needs padding no larger than the size, got ", before, " and ", after,
          " for size ", size, " of dim ", d);
  check(size > 0 || (before == 0 && after == 0), "pad: mode ", mode, " cannot extend dim ", d,
        ", which has size 0");
  check(size + before + after > 0, "pad: nothing would be left of dim ", d, " of shape ",
        input.sizes());
}

}  // namespace

constinit OpDef<ConstantPadAttrs> constant_pad_op = define(Op<ConstantPadAttrs>{
    .name = "constant_pad",
    .inputs = {"input"},
    .infer =
        [](Infer& infer, const ConstantPadAttrs& attrs) {
          Shape sizes = infer[0].sizes();
          infer.check(attrs.before.size() == sizes.size() && attrs.after.size() == sizes.size(),
                      "expected ", sizes.size(), " numbers before and after, got ", attrs.before,
                      " and ", attrs.after);
          for (int d = 0; d < sizes.size(); ++d) {
            infer.check(attrs.before[d] >= 0 && attrs.after[d] >= 0,
                        "padding must not be negative, got ", attrs.before, " and ", attrs.after);
            sizes[d] =
                add_sizes(add_sizes(sizes[d], attrs.before[d], infer.op), attrs.after[d], infer.op);
          }
          const bool last = pool::keeps_channels_last(infer[0].sizes(), infer[0].strides());
          infer.output(sizes, pool::layout_strides(sizes, last), infer[0].dtype());
        },
    .reference =
        [](Args in, const ConstantPadAttrs& attrs) {
          Tensor x = *in[0];
          const auto block = [&](int d, int64_t count) {
            Shape sizes = x.sizes();
            sizes[d] = count;
            return full(sizes, attrs.value, {.dtype = x.dtype(), .device = x.device()});
          };
          for (int d = 0; d < x.dim(); ++d)
            if (attrs.before[d] + attrs.after[d] > 0)
              x = cat({block(d, attrs.before[d]), x, block(d, attrs.after[d])}, d);
          const bool last = pool::keeps_channels_last(in[0]->sizes(), in[0]->strides());
          return Tensors{pool::in_layout(x, last)};
        },
    .vjp =
        [](Vjp& vjp, const ConstantPadAttrs& attrs) {
          Tensor grad = vjp.grad();
          for (int d = 0; d < grad.dim(); ++d)
            if (attrs.before[d] + attrs.after[d] > 0)
              grad = narrow(grad, d, attrs.before[d], vjp.input_sizes(0)[d]);
          vjp.set(0, grad);
        },
    .accepts = kElementDTypes,
});

void register_pad(OpRegistry& registry) {
  registry.add(constant_pad_op);
  shard_by(constant_pad_op, "pad");
}

Tensor pad(const Tensor& input, const std::vector<int64_t>& pad, std::string_view mode,
           std::optional<Scalar> value) {
  const int count = static_cast<int>(pad.size() / 2);
  check(pad.size() % 2 == 0, "pad: expected an even number of entries in pad, got ", pad.size());
  check(count <= input.dim(), "pad: ", pad.size(), " entries in pad are too many for an input of ",
        input.dim(), " dims");
  constexpr int64_t kMost = int64_t{1} << 60;  // so that no sum of a few overflows
  for (int64_t amount : pad)
    check(-kMost <= amount && amount <= kMost, "pad: ", amount, " elements are too many");
  if (mode == "constant") return padded_with(input, pad, value.value_or(0));
  if (is_autocast_enabled() && mode != "circular")
    return autocast_call(
        "pad", {Autocast::full, Autocast::as_is},
        [&](const Tensor& x) { return tensora::pad(x, pad, mode, value); }, input);
  check_as<NotImplementedError>(mode == "reflect" || mode == "replicate" || mode == "circular",
                                "pad: unknown mode '", mode,
                                "'; there are constant, reflect, replicate and circular");
  check(!value, "pad: mode ", mode, " takes no value");
  check(count >= 1 && count <= 3 && (input.dim() == count + 1 || input.dim() == count + 2),
        "pad: mode ", mode,
        " extends the last 1 to 3 dims of an input that has one or two more; got ", pad.size(),
        " entries in pad and shape ", input.sizes());
  Tensor x = input;
  for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
    const int d = input.dim() - 1 - static_cast<int>(k);
    const int64_t before = pad[2 * k], after = pad[2 * k + 1];
    check_edges(input, d, before, after, mode);
    const Tensor kept = cut(x, d, before, after);
    // Circular padding repeats what is kept; the other modes read the whole input.
    const Tensor& source = mode == "circular" ? kept : x;
    std::vector<Tensor> parts;
    if (before > 0) parts.push_back(edge(source, d, before, true, mode));
    parts.push_back(kept);
    if (after > 0) parts.push_back(edge(source, d, after, false, mode));
    x = parts.size() == 1 ? parts[0] : cat(parts, d);
  }
  return x.shares_storage(input) ? clone(x) : x;
}

}  // namespace tensora
