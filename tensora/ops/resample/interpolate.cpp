#include "tensora/ops/resample/interpolate.h"

#include <cmath>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pool/avg_pool.h"
#include "tensora/ops/resample/bands.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<ResizeBackwardAttrs>) {
  using A = ResizeBackwardAttrs;
  return fields(field("output_size", &A::output_size), field("method", &A::method),
                field("align_corners", &A::align_corners), field("antialias", &A::antialias),
                field("scales", &A::scales), field("sizes", &A::sizes),
                field("channels_last", &A::channels_last));
}
constexpr auto describe(std::type_identity<ResizeAttrs>) {
  using A = ResizeAttrs;
  return fields(field("output_size", &A::output_size), field("method", &A::method),
                field("align_corners", &A::align_corners), field("antialias", &A::antialias),
                field("scales", &A::scales));
}

namespace {

using resample::BandDim, resample::Method;

// The dense matrix of one dim: out x in.
Tensor band_matrix(const BandDim& dim, const Tensor& like) {
  std::vector<double> values(static_cast<size_t>(dim.out * dim.in));
  std::vector<double> weights(static_cast<size_t>(dim.width()));
  for (int64_t o = 0; o < dim.out; ++o) {
    int64_t first, end;
    dim.range(o, first, end);
    dim.weights(o, weights.data());
    for (int64_t i = first; i < end; ++i)
      values[static_cast<size_t>(o * dim.in + i)] = weights[static_cast<size_t>(i - first)];
  }
  const Tensor flat = tensor(values, {.dtype = like.dtype(), .device = like.device()});
  return reshape(flat, {dim.out, dim.in});
}

Tensor multiplied(Tensor x, const Shape& sizes, const ResizeAttrs& attrs, bool transposed) {
  const auto dims = resample::band_dims(sizes, attrs);
  const int pooled = attrs.output_size.size();
  for (int d = 0; d < pooled; ++d) {
    const int at = 3 - pooled + d;
    const Tensor matrix = band_matrix(dims[static_cast<size_t>(at)], x);
    x = transpose(matmul(transpose(x, 2 + d, -1), transposed ? matrix : t(matrix)), 2 + d, -1);
  }
  return x;
}

void infer_resize(Infer& infer, const ResizeAttrs& attrs) {
  const Shape& sizes = infer[0].sizes();
  const int dims = attrs.output_size.size();
  infer.check(dims >= 1 && dims <= 3 && sizes.size() == dims + 2, "input must have ", dims + 2,
              " dims for an output_size of ", attrs.output_size, ", got shape ", sizes);
  const bool nearest = attrs.method <= Method::nearest_exact;
  infer.check(infer[0].is_floating_point() || (nearest && infer[0].dtype() == kUInt8),
              "expected a floating-point dtype", nearest ? " or uint8" : "", ", got ",
              infer[0].dtype());
  infer.check(!nearest || !(attrs.antialias || attrs.align_corners),
              "antialias and align_corners are for linear and cubic");
  infer.check(attrs.scales.empty() || attrs.scales.size() == static_cast<size_t>(dims),
              "scales must have ", dims, " entries");
  for (double scale : attrs.scales)
    infer.check(scale > 0 && std::isfinite(scale), "scales must be positive, got ", scale);
  Shape result = sizes;
  for (int d = 0; d < dims; ++d) {
    result[2 + d] = attrs.output_size[d];
    infer.check(attrs.output_size[d] > 0, "output sizes must be positive, got ", attrs.output_size);
  }
  for (int d = 1; d < sizes.size(); ++d)
    infer.check(sizes[d] > 0, "only the batch of input may be empty, got shape ", sizes);
  const bool last = pool::keeps_channels_last(sizes, infer[0].strides());
  infer.output(result, pool::layout_strides(result, last), infer[0].dtype());
}

struct NamedMode {
  std::string_view name;
  int dims;  // 0: any
  Method method;
};
constexpr NamedMode kModes[] = {
    {"nearest", 0, Method::nearest},  {"nearest-exact", 0, Method::nearest_exact},
    {"linear", 1, Method::linear},    {"bilinear", 2, Method::linear},
    {"trilinear", 3, Method::linear}, {"bicubic", 2, Method::cubic},
};

Method method_of(std::string_view mode, const Tensor& input) {
  for (const NamedMode& known : kModes) {
    if (mode != known.name) continue;
    check_as<NotImplementedError>(known.dims == 0 || input.dim() == known.dims + 2,
                                  "interpolate: mode ", mode, " needs an input of ", known.dims + 2,
                                  " dims, got shape ", input.sizes());
    return known.method;
  }
  throw NotImplementedError(
      concat("interpolate: unknown mode '", mode,
             "'; there are nearest, nearest-exact, linear, bilinear, trilinear, bicubic and area"));
}

// The output's sizes, and the scale factors where coordinates are computed with them.
ResizeAttrs target_of(const Tensor& input, const std::optional<Shape>& size,
                      const std::optional<std::vector<double>>& scale_factor, bool recompute) {
  constexpr auto op = "interpolate";
  check(input.dim() >= 3 && input.dim() <= 5, op, ": input must have 3 to 5 dims, got shape ",
        input.sizes());
  check_as<ValueError>(size.has_value() != scale_factor.has_value(), op,
                       ": give either size or scale_factor, not ", size ? "both" : "neither");
  const int dims = input.dim() - 2;
  ResizeAttrs attrs;
  if (size) {
    check_as<ValueError>(!recompute, op,
                         ": recompute_scale_factor needs a scale_factor, not a size");
    check_as<ValueError>(size->size() == 1 || size->size() == dims, op,
                         ": size must be a single int or have ", dims, " entries, got ", *size);
    attrs.output_size = pool::per_dim(*size, dims, op, "size");
    return attrs;
  }
  const size_t count = scale_factor->size();
  check_as<ValueError>(count == 1 || count == static_cast<size_t>(dims), op,
                       ": scale_factor must be a single number or have ", dims, " entries, got ",
                       count);
  for (int d = 0; d < dims; ++d) {
    const double scale = (*scale_factor)[count == 1 ? 0 : static_cast<size_t>(d)];
    check(scale > 0 && std::isfinite(scale), op, ": scale_factor must be positive, got ", scale);
    const double length = std::floor(static_cast<double>(input.sizes()[2 + d]) * scale);
    check(length < 0x1p60, op, ": a scale_factor of ", scale, " makes size ", input.sizes()[2 + d],
          " of dim ", 2 + d, " too large");
    attrs.output_size.push_back(static_cast<int64_t>(length));
    if (!recompute) attrs.scales.push_back(scale);
  }
  return attrs;
}

}  // namespace

std::array<BandDim, 3> resample::band_dims(const Shape& sizes, const ResizeAttrs& attrs) {
  std::array<BandDim, 3> result;
  const int dims = attrs.output_size.size();
  for (int k = 0; k < 3; ++k) {
    BandDim& dim = result[static_cast<size_t>(k)];
    const int d = k - (3 - dims);
    dim.copies = d < 0;
    if (d < 0) continue;
    dim.in = sizes[sizes.size() - dims + d];
    dim.out = attrs.output_size[d];
    dim.method = attrs.method;
    dim.align_corners = attrs.align_corners;
    dim.antialias = attrs.antialias;
    const double in = static_cast<double>(dim.in), out = static_cast<double>(dim.out);
    const bool nearest = attrs.method <= Method::nearest_exact;
    if (attrs.align_corners)
      dim.step = dim.out > 1 ? (in - 1) / (out - 1) : 0;
    else if (attrs.scales.empty())
      dim.step = nearest ? static_cast<double>(static_cast<float>(in) / static_cast<float>(out))
                         : in / out;
    else
      dim.step = 1 / attrs.scales[static_cast<size_t>(d)];
    // A size that stays is copied whatever the scale factor is, except, as in PyTorch, by cubic
    // without antialias, nearest-exact, and nearest in 1-D and 3-D.
    const bool copies = attrs.antialias || attrs.method == Method::linear ||
                        (attrs.method == Method::nearest && dims == 2);
    dim.copies = dim.in == dim.out && (copies || dim.step == 1);
    // So is one that doubles, in 2-D.
    if (attrs.method == Method::nearest && dims == 2 && dim.out == 2 * dim.in) dim.step = 0.5;
  }
  return result;
}

constinit OpDef<ResizeAttrs> resize_op = define(Op<ResizeAttrs>{
    .name = "resize",
    .inputs = {"input"},
    .infer = infer_resize,
    .reference =
        [](Args in, const ResizeAttrs& attrs) {
          const Tensor& x = *in[0];
          const bool last = pool::keeps_channels_last(x.sizes(), x.strides());
          return Tensors{pool::in_layout(multiplied(x, x.sizes(), attrs, false), last)};
        },
    .vjp =
        [](Vjp& vjp, const ResizeAttrs& attrs) {
          ResizeBackwardAttrs backward{attrs};
          backward.sizes = vjp.input_sizes(0);
          backward.channels_last =
              pool::keeps_channels_last(vjp.grad().sizes(), vjp.grad().strides());
          vjp.set(0, apply(resize_backward_op, {vjp.grad()}, backward));
        },
});

constinit OpDef<ResizeBackwardAttrs> resize_backward_op = define(Op<ResizeBackwardAttrs>{
    .name = "resize_backward",
    .inputs = {"grad"},
    .internal = true,
    .infer =
        [](Infer& infer, const ResizeBackwardAttrs& attrs) {
          infer.output(attrs.sizes, pool::layout_strides(attrs.sizes, attrs.channels_last),
                       infer[0].dtype());
        },
    .reference =
        [](Args in, const ResizeBackwardAttrs& attrs) {
          return Tensors{
              pool::in_layout(multiplied(*in[0], attrs.sizes, attrs, true), attrs.channels_last)};
        },
    .vjp =
        [](Vjp& vjp, const ResizeBackwardAttrs& attrs) {
          vjp.set(0, apply(resize_op, {vjp.grad()}, attrs));
        },
});

namespace {

// Images of bytes, as PyTorch resizes them: the rows first, rounded to bytes, then the columns.
Tensor resize_bytes(const Tensor& image, const ResizeAttrs& attrs) {
  Tensor result = image;
  for (const size_t dim : {1, 0}) {
    const int at = static_cast<int>(dim);
    if (result.size(2 + at) == attrs.output_size[at]) continue;
    ResizeAttrs step = attrs;
    step.output_size = {result.size(2), result.size(3)};
    step.output_size[at] = attrs.output_size[at];
    if (!attrs.scales.empty()) step.scales[1 - dim] = 1;
    const Tensor numbers = apply(resize_op, {to(result, kFloat32)}, step);
    result = to(clamp(floor(numbers + 0.5), 0, 255), kUInt8);
  }
  return result.is_same(image) ? clone(image) : result;
}

}  // namespace

void register_interpolate(OpRegistry& registry) {
  registry.add(resize_op);
  registry.add(resize_backward_op);
}

Tensor interpolate(const Tensor& input, const std::optional<Shape>& size,
                   const std::optional<std::vector<double>>& scale_factor, std::string_view mode,
                   std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor,
                   bool antialias) {
  const bool recompute = recompute_scale_factor.value_or(false);
  ResizeAttrs attrs = target_of(input, size, scale_factor, recompute);
  if (mode == "area") {
    check_as<ValueError>(!align_corners && !antialias,
                         "interpolate: align_corners and antialias are not options of mode area");
    if (input.dim() == 3) return adaptive_avg_pool1d(input, attrs.output_size);
    if (input.dim() == 4) return adaptive_avg_pool2d(input, attrs.output_size);
    return adaptive_avg_pool3d(input, attrs.output_size);
  }
  attrs.method = method_of(mode, input);
  check_as<ValueError>(
      attrs.method > Method::nearest_exact || !align_corners,
      "interpolate: align_corners is for linear, bilinear, bicubic and trilinear, not ", mode);
  check_as<ValueError>(!antialias || (input.dim() == 4 && attrs.method > Method::nearest_exact),
                       "interpolate: antialias is for bilinear and bicubic on 4-D input");
  attrs.align_corners = align_corners.value_or(false);
  attrs.antialias = antialias;
  if (input.dtype() == kUInt8 && input.dim() == 4 && attrs.method > Method::nearest_exact)
    return called_as("interpolate", [&] { return resize_bytes(input, attrs); });
  return called_as("interpolate", [&] {
    return autocast_call(
        "interpolate", {Autocast::as_is, Autocast::full},
        [&](const Tensor& x) { return apply(resize_op, {x}, attrs); }, input);
  });
}

}  // namespace tensora
