#include "tensora/ops/resample/grid_sample.h"

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/core/determinism.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pool/pool_common.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<GridSampleAttrs>) {
  using A = GridSampleAttrs;
  return fields(field("mode", &A::mode), field("padding_mode", &A::padding_mode),
                field("align_corners", &A::align_corners));
}

namespace {

using resample::GridMode, resample::GridPadding;

// ---- the definition in other ops
// -----------------------------------------------------------------

struct Tap {
  Tensor index, inside, weight;  // weight: undefined for 1
};

Tensor inside_of(Tensor x, int64_t size, const GridSampleAttrs& attrs) {
  if (attrs.padding_mode == GridPadding::zeros) return x;
  if (attrs.padding_mode == GridPadding::reflection) {
    const double low = attrs.align_corners ? 0 : -0.5;
    const double span = static_cast<double>(attrs.align_corners ? size - 1 : size);
    if (span == 0) return x * 0;
    x = abs(x - low);
    const Tensor turns = floor(x / span), rest = x - turns * span;
    x = where(eq(remainder(turns, 2), 0), rest + low, low + span - rest);
  }
  return clamp(x, Scalar(0), Scalar(size - 1));
}

Tensor cubic_weight(const Tensor& distance) {
  const Tensor x = abs(distance);
  const double a = -0.75;
  const Tensor near = ((a + 2) * x - (a + 3)) * x * x + 1;
  const Tensor far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return where(le(x, 1), near, far);
}

std::vector<Tap> taps_of(const Tensor& coordinate, int64_t size, const GridSampleAttrs& attrs) {
  const double n = static_cast<double>(size);
  Tensor x = attrs.align_corners ? (coordinate + 1) * ((n - 1) / 2)  //
                                 : ((coordinate + 1) * n - 1) / 2;
  if (attrs.mode != GridMode::bicubic) x = inside_of(x, size, attrs);
  x = where(lt(abs(x), 2e9), x, -100);  // NaN too
  const bool cubic = attrs.mode == GridMode::bicubic, nearest = attrs.mode == GridMode::nearest;
  const Tensor below = nearest ? round(x) : floor(x);
  std::vector<Tap> taps;
  for (int k = cubic ? -1 : 0; k <= (cubic ? 2 : nearest ? 0 : 1); ++k) {
    Tensor place = (below + k).detach();
    if (cubic) place = inside_of(place, size, attrs);
    Tap tap;
    tap.inside = logical_and(ge(place, 0), le(place, size - 1));
    tap.index = to(clamp(place, Scalar(0), Scalar(size - 1)), kInt64);
    if (cubic) tap.weight = cubic_weight(x - below - k);
    if (!cubic && !nearest) tap.weight = k == 0 ? 1 - (x - below) : x - below;
    taps.push_back(tap);
  }
  return taps;
}

Tensor sampled(const Tensor& input, const Tensor& grid, const GridSampleAttrs& attrs) {
  const int dims = input.dim() - 2;
  const int64_t N = input.size(0), C = input.size(1), count = grid.numel() / (N * dims);
  const Tensor flat = flatten(input, 2, -1), points = reshape(grid, {N, 1, count, dims});
  Tensor result;
  const auto add = [&](const auto& self, int d, const Tap& so_far) -> void {
    if (d == dims) {
      const Tensor index = expand(so_far.index, {N, C, count});
      Tensor value = where(so_far.inside, gather(flat, -1, index), 0);
      if (so_far.weight.defined()) value = value * so_far.weight;
      result = result.defined() ? result + value : value;
      return;
    }
    const int64_t size = input.size(2 + d);
    for (const Tap& tap : taps_of(select(points, -1, dims - 1 - d), size, attrs)) {
      if (d == 0) {
        self(self, 1, tap);
        continue;
      }
      self(self, d + 1,
           {so_far.index * size + tap.index, logical_and(so_far.inside, tap.inside),
            tap.weight.defined() ? so_far.weight * tap.weight : Tensor()});
    }
  };
  add(add, 0, {});
  Shape sizes = {N, C};
  for (int d = 0; d < dims; ++d) sizes.push_back(grid.sizes()[1 + d]);
  return reshape(result, sizes);
}

// The gradient by differentiating the definition, itself differentiable.
Tensors sampled_backward(Args in, const GridSampleAttrs& attrs) {
  const bool recording = is_grad_enabled();
  const enable_grad guard;
  const auto followed = [](const Tensor& x) {
    return x.requires_grad() ? view(x, x.sizes()) : x.detach().requires_grad_();
  };
  const std::vector<Tensor> inputs = {followed(contiguous(*in[1])), followed(contiguous(*in[2]))};
  const Tensor result = sampled(inputs[0], inputs[1], attrs);
  const std::vector<Tensor> grads =
      grad({result}, inputs, {*in[0]}, {.create_graph = recording, .allow_unused = true});
  Tensors list;
  for (size_t i = 0; i < 2; ++i)
    list.push_back(grads[i].defined() ? contiguous(grads[i]) : zeros_like(contiguous(inputs[i])));
  return list;
}

// ---- rules
// ---------------------------------------------------------------------------------------

void check_arguments(const Infer& infer, const Tensor& input, const Tensor& grid) {
  const int dims = input.dim() - 2;
  infer.check(dims == 2 || dims == 3, "input must have 4 or 5 dims, got shape ", input.sizes());
  infer.check(grid.dim() == input.dim(), "grid must have as many dims as input, got shapes ",
              grid.sizes(), " and ", input.sizes());
  infer.check(grid.size(-1) == dims, "the last dim of grid must have size ", dims, ", got shape ",
              grid.sizes());
  infer.check(grid.size(0) == input.size(0), "grid and input must have the same batch, got ",
              grid.size(0), " and ", input.size(0));
  infer.check(input.is_floating_point() && input.dtype() == grid.dtype(),
              "expected one floating-point dtype, got ", input.dtype(), " and ", grid.dtype());
  for (int d = 2; d < input.dim(); ++d)
    infer.check(input.sizes()[d] > 0, "input must not be empty in dim ", d, ", got shape ",
                input.sizes());
}

template <class E>
E parsed(std::string_view text, std::string_view argument) {
  const auto names = names_of(std::type_identity<E>{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<E>(i);
  throw ValueError(concat("grid_sample: ", argument, " must be '", names[0], "', '", names[1],
                          "' or '", names[2], "', got '", text, "'"));
}

// Coordinates of the centres of n elements, in [-1, 1].
Tensor centres(int64_t n, bool align_corners, const Tensor& like) {
  const TensorOptions options{.dtype = like.dtype(), .device = like.device()};
  if (n <= 1) return zeros({n}, options);
  const Tensor line = linspace(-1, 1, n, options);
  return align_corners ? line : line * (static_cast<double>(n - 1) / static_cast<double>(n));
}

}  // namespace

constinit OpDef<GridSampleAttrs> grid_sample_op = define(Op<GridSampleAttrs>{
    .name = "grid_sample",
    .inputs = {"input", "grid"},
    .infer =
        [](Infer& infer, const GridSampleAttrs&) {
          check_arguments(infer, infer[0], infer[1]);
          Shape sizes = {infer[0].size(0), infer[0].size(1)};
          for (int d = 1; d + 1 < infer[1].dim(); ++d) sizes.push_back(infer[1].sizes()[d]);
          const bool last = pool::keeps_channels_last(infer[0].sizes(), infer[0].strides());
          infer.output(sizes, pool::layout_strides(sizes, last), infer[0].dtype());
        },
    .reference =
        [](Args in, const GridSampleAttrs& attrs) {
          const Tensor& x = *in[0];
          Shape sizes = {x.size(0), x.size(1)};
          for (int d = 1; d + 1 < in[1]->dim(); ++d) sizes.push_back(in[1]->sizes()[d]);
          const bool last = pool::keeps_channels_last(x.sizes(), x.strides());
          if (sizes.numel() == 0)
            return Tensors{zeros(sizes, {.dtype = x.dtype(), .device = x.device()})};
          return Tensors{pool::in_layout(sampled(x, *in[1], attrs), last)};
        },
    .vjp =
        [](Vjp& vjp, const GridSampleAttrs& attrs) {
          const Tensor input = vjp.input(0), grid = vjp.input(1);
          const Tensor& grad = vjp.grad();
          Tensors grads;
          // Without an order of additions on the device, the definition's gradient has one.
          if (input.is_cuda() && is_deterministic() && grad.numel() > 0) {
            const Arg args[] = {grad, input, grid};
            grads = sampled_backward(args, attrs);
          } else {
            grads = apply_all(grid_sample_backward_op, {grad, input, grid}, attrs);
          }
          if (vjp.needs(0)) vjp.set(0, grads[0]);
          if (vjp.needs(1)) vjp.set(1, grads[1]);
        },
    .saves = {in(0) | in(1), in(0) | in(1)},
    .autocast = {Autocast::full, Autocast::widest},
});

constinit OpDef<GridSampleAttrs> grid_sample_backward_op = define(Op<GridSampleAttrs>{
    .name = "grid_sample_backward",
    .inputs = {"grad", "input", "grid"},
    .internal = true,
    .infer =
        [](Infer& infer, const GridSampleAttrs&) {
          infer.output(infer[1].sizes(), infer[1].dtype());
          infer.output(infer[2].sizes(), infer[2].dtype());
        },
    .reference =
        [](Args in, const GridSampleAttrs& attrs) {
          if (in[0]->numel() > 0) return sampled_backward(in, attrs);
          Tensors list;
          for (size_t i : {1u, 2u})
            list.push_back(
                zeros(in[i]->sizes(), {.dtype = in[i]->dtype(), .device = in[i]->device()}));
          return list;
        },
    .gradient = Gradient::by_reference,
});

void register_grid_sample(OpRegistry& registry) {
  registry.add(grid_sample_op);
  registry.add(grid_sample_backward_op);
}

Tensor grid_sample(const Tensor& input, const Tensor& grid, std::string_view mode,
                   std::string_view padding_mode, std::optional<bool> align_corners) {
  GridSampleAttrs attrs;
  attrs.mode = parsed<GridMode>(mode, "mode");
  attrs.padding_mode = parsed<GridPadding>(padding_mode, "padding_mode");
  attrs.align_corners = align_corners.value_or(false);
  return apply(grid_sample_op, {input, grid}, attrs);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, std::optional<bool> align_corners) {
  constexpr auto op = "affine_grid";
  const int dims = size.size() - 2;
  check(theta.is_floating_point(), op, ": theta must be floating-point, got ", theta.dtype());
  check(dims == 2 || dims == 3, op, ": size must have 4 or 5 entries, got ", size);
  for (int64_t n : size) check(n > 0, op, ": size must be positive, got ", size);
  check(theta.sizes() == Shape{size[0], dims, dims + 1}, op, ": theta must have shape [", size[0],
        ", ", dims, ", ", dims + 1, "] for size ", size, ", got ", theta.sizes());
  // A row of base is (x, y, z, 1) for one place of the result.
  Shape places;
  for (int d = 0; d < dims; ++d) places.push_back(size[2 + d]);
  std::vector<Tensor> columns;
  for (int d = dims - 1; d >= 0; --d) {
    Shape along = Shape::filled(dims, 1);
    along[d] = size[2 + d];
    const Tensor line = centres(size[2 + d], align_corners.value_or(false), theta);
    columns.push_back(expand(reshape(line, along), places));
  }
  columns.push_back(expand(ones({1}, {.dtype = theta.dtype(), .device = theta.device()}), places));
  const Tensor base = reshape(stack(columns, -1), {places.numel(), dims + 1});
  Shape result = places;
  result.insert(0, size[0]);
  result.push_back(dims);
  return reshape(matmul(base, transpose(theta, 1, 2)), result);
}

}  // namespace tensora
