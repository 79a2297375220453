#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"
#include "tensora/ops/conv/convolution.h"
#include "tensora/ops/resample/interpolate.h"

namespace tensora::onnx {
namespace {

/// The window of a convolution or of pooling: what each node lists, one entry per spatial dim.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after;

  Window(const NodeCall& c, const Tensor& x, std::vector<int64_t> kernel_shape)
      : kernel(std::move(kernel_shape)) {
    const size_t dims = kernel.size();
    c.expect(static_cast<size_t>(x.dim()) == dims + 2 && dims >= 1 && dims <= 3,
             "an input of shape ", x.sizes(), " and a window of ", dims, " dims");
    strides = c.list("strides", std::vector<int64_t>(dims, 1));
    dilations = c.list("dilations", std::vector<int64_t>(dims, 1));
    std::vector<int64_t> pads = c.list("pads", std::vector<int64_t>(2 * dims, 0));
    c.expect(strides.size() == dims && dilations.size() == dims && pads.size() == 2 * dims,
             "lists of different lengths");
    constexpr int64_t kMost = int64_t{1} << 30;
    for (const auto* list : {&kernel, &strides, &dilations, &pads})
      for (int64_t value : *list)
        c.expect(value >= (list == &pads ? 0 : 1) && value < kMost, "the number ", value,
                 " in a list of sizes");
    const auto half = pads.begin() + static_cast<std::ptrdiff_t>(dims);
    before.assign(pads.begin(), half);
    after.assign(half, pads.end());
    pad_automatically(c, x);
  }

  bool symmetric() const { return before == after; }

 private:
  void pad_automatically(const NodeCall& c, const Tensor& x) {
    const std::string how = c.text("auto_pad", "NOTSET");
    if (how == "NOTSET") return;
    c.expect(how == "VALID" || how == "SAME_UPPER" || how == "SAME_LOWER", "auto_pad '", how,
             "' is unknown");
    for (size_t i = 0; i < kernel.size(); ++i) {
      const int64_t in = x.sizes()[static_cast<int>(i) + 2];
      const int64_t out = (in + strides[i] - 1) / strides[i];
      const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
      const int64_t total =
          how == "VALID" ? 0 : std::max<int64_t>((out - 1) * strides[i] + reach - in, 0);
      before[i] = how == "SAME_LOWER" ? total - total / 2 : total / 2;
      after[i] = total - before[i];
    }
  }
};

Tensor padded(const Tensor& x, const Window& window, double value) {
  std::vector<int64_t> pairs;
  for (size_t i = window.before.size(); i-- > 0;) {
    pairs.push_back(window.before[i]);
    pairs.push_back(window.after[i]);
  }
  return pad(x, pairs, "constant", Scalar(value));
}

std::vector<int64_t> kernel_of(const NodeCall& c, const Tensor& weight) {
  std::vector<int64_t> kernel;
  for (int d = 2; d < weight.dim(); ++d) kernel.push_back(weight.sizes()[d]);
  c.expect(c.list("kernel_shape", kernel) == kernel, "kernel_shape does not fit a weight of shape ",
           weight.sizes());
  return kernel;
}

Results conv(const NodeCall& c) {
  const Tensor x = c[0], weight = c[1];
  const Window window(c, x, kernel_of(c, weight));
  const bool even = window.symmetric();
  const Shape none = Shape::filled(static_cast<int>(window.kernel.size()), 0);
  return {convolution(even ? x : padded(x, window, 0), weight, c.optional(2), Shape(window.strides),
                      even ? Shape(window.before) : none, Shape(window.dilations), false, none,
                      c.integer("group", 1))};
}
// Uneven padding cuts off what is computed without padding.
Results conv_transpose(const NodeCall& c) {
  const Tensor x = c[0], weight = c[1];
  c.expect(!c.attr("output_shape"), "output_shape is not supported; give pads");
  c.expect(c.text("auto_pad", "NOTSET") == "NOTSET", "auto_pad is not supported; give pads");
  const Window window(c, x, kernel_of(c, weight));
  const size_t dims = window.kernel.size();
  const std::vector<int64_t> extra = c.list("output_padding", std::vector<int64_t>(dims, 0));
  c.expect(extra.size() == dims, "output_padding of ", extra.size(), " entries");
  const bool even = window.symmetric();
  const Shape none = Shape::filled(static_cast<int>(dims), 0);
  Tensor result = convolution(x, weight, c.optional(2), Shape(window.strides),
                              even ? Shape(window.before) : none, Shape(window.dilations), true,
                              Shape(extra), c.integer("group", 1));
  for (size_t i = 0; i < dims && !even; ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    result =
        narrow(result, d, window.before[i], result.size(d) - window.before[i] - window.after[i]);
  }
  return {result};
}

Results max_pool(const NodeCall& c) {
  c.expect(!c.wants(1), "the output Indices is not supported");
  const Tensor x = c[0];
  const Window window(c, x, c.list("kernel_shape"));
  const bool ceil_mode = c.integer("ceil_mode", 0) != 0;
  const auto pool = [&](const Tensor& from, const Shape& padding) {
    const Shape kernel(window.kernel), strides(window.strides), dilations(window.dilations);
    return kernel.size() == 1   ? max_pool1d(from, kernel, strides, padding, dilations, ceil_mode)
           : kernel.size() == 2 ? max_pool2d(from, kernel, strides, padding, dilations, ceil_mode)
                                : max_pool3d(from, kernel, strides, padding, dilations, ceil_mode);
  };
  if (window.symmetric()) return {pool(x, Shape(window.before))};
  c.expect(is_floating_point(x.dtype()), "uneven padding of a ", x.dtype(), " tensor");
  const double lowest = -std::numeric_limits<double>::infinity();
  return {
      pool(padded(x, window, lowest), Shape::filled(static_cast<int>(window.kernel.size()), 0))};
}
Results average_pool(const NodeCall& c) {
  const Tensor x = c[0];
  const Window window(c, x, c.list("kernel_shape"));
  const bool counts = c.integer("count_include_pad", 0) != 0;
  for (int64_t dilation : window.dilations) c.expect(dilation == 1, "dilations are not supported");
  c.expect(window.symmetric() || counts, "uneven padding that does not count is not supported");
  const bool ceil_mode = c.integer("ceil_mode", 0) != 0;
  const Tensor from = window.symmetric() ? x : padded(x, window, 0);
  const Shape kernel(window.kernel), strides(window.strides),
      padding = window.symmetric() ? Shape(window.before) : Shape::filled(kernel.size(), 0);
  return {kernel.size() == 1   ? avg_pool1d(from, kernel, strides, padding, ceil_mode, counts)
          : kernel.size() == 2 ? avg_pool2d(from, kernel, strides, padding, ceil_mode, counts)
                               : avg_pool3d(from, kernel, strides, padding, ceil_mode, counts)};
}
Dims spatial(const NodeCall& c, const Tensor& x) {
  c.expect(x.dim() >= 3, "an input of shape ", x.sizes());
  Dims dims;
  for (int d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
Results global_average_pool(const NodeCall& c) { return {mean(c[0], spatial(c, c[0]), true)}; }
Results global_max_pool(const NodeCall& c) { return {amax(c[0], spatial(c, c[0]), true)}; }

// ---- Resize ------------------------------------------------------------------------------------

/// One resized dim.
struct ResizedDim {
  int64_t in, out;
  double scale;
};

double rounded(const std::string& how, double x) {
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  if (how == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);  // round_prefer_floor
}
// Where an element of the result lies in the input.
double source_of(const NodeCall& c, const std::string& coordinates, const ResizedDim& dim,
                 int64_t at) {
  const auto x = static_cast<double>(at);
  if (coordinates == "asymmetric") return x / dim.scale;
  if (coordinates == "align_corners")
    return dim.out == 1 ? 0
                        : x * static_cast<double>(dim.in - 1) / static_cast<double>(dim.out - 1);
  if (coordinates == "pytorch_half_pixel" && dim.out == 1) return 0;
  c.expect(coordinates == "half_pixel" || coordinates == "pytorch_half_pixel",
           "coordinate_transformation_mode '", coordinates, "' is not supported");
  return (x + 0.5) / dim.scale - 0.5;
}
Tensor nearest(const NodeCall& c, Tensor x, int d, const ResizedDim& dim,
               const std::string& coordinates) {
  const std::string how = c.text("nearest_mode", "round_prefer_floor");
  std::vector<int64_t> from;
  for (int64_t i = 0; i < dim.out; ++i) {
    const double at = rounded(how, source_of(c, coordinates, dim, i));
    from.push_back(std::clamp<int64_t>(static_cast<int64_t>(at), 0, dim.in - 1));
  }
  return index_select(x, d, to(tensor(from, {.dtype = kInt64}), x.device()));
}

std::vector<ResizedDim> resized_dims(const NodeCall& c, const Tensor& x) {
  std::vector<int64_t> axes = c.list("axes");
  if (axes.empty())
    for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  std::vector<ResizedDim> dims;
  for (int64_t size : x.sizes()) dims.push_back({size, size, 1});
  const bool by_size = c.has(3);
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  if (by_size)
    sizes = c.ints(3);
  else
    scales = c.numbers(2);
  c.expect((by_size ? sizes.size() : scales.size()) == axes.size(),
           "as many sizes or scales are needed as there are axes, ", axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizedDim& dim = dims[static_cast<size_t>(wrap_dim(axes[i], x.dim(), c.op()))];
    const auto in = static_cast<double>(dim.in);
    dim.scale = by_size ? static_cast<double>(sizes[i]) / in : scales[i];
    const double out = by_size ? static_cast<double>(sizes[i]) : std::floor(in * dim.scale);
    c.expect(out >= 1 && out < 0x1p40, "the size ", out, " for dim ", axes[i]);
    dim.out = static_cast<int64_t>(out);
  }
  return dims;
}

Results resize(const NodeCall& c) {
  Tensor x = c[0];
  c.expect(c.has(3) || (c.has(2) && c[2].numel() > 0), "neither sizes nor scales are given");
  c.expect(c.integer("exclude_outside", 0) == 0, "exclude_outside is not supported");
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  c.expect(policy == "stretch", "keep_aspect_ratio_policy '", policy, "' is not supported");
  const std::string mode = c.text("mode", "nearest"),
                    coordinates = c.text("coordinate_transformation_mode", "half_pixel");
  const std::vector<ResizedDim> dims = resized_dims(c, x);
  if (mode == "nearest") {
    for (int d = 0; d < x.dim(); ++d) {
      const ResizedDim& dim = dims[static_cast<size_t>(d)];
      if (dim.in != dim.out || dim.scale != 1) x = nearest(c, x, d, dim, coordinates);
    }
    return {x};
  }
  c.expect(mode == "linear" || mode == "cubic", "the mode '", mode, "' is unknown");
  c.expect(coordinates == "half_pixel" || coordinates == "align_corners" ||
               (coordinates == "pytorch_half_pixel" && dims.back().out > 1),
           "mode ", mode, " with coordinate_transformation_mode '", coordinates,
           "' is not supported");
  c.expect(x.dim() >= 3 && x.dim() <= 5 && dims[0].in == dims[0].out && dims[1].in == dims[1].out,
           "mode ", mode, " resizes the dims behind batch and channels, got shape ", x.sizes());
  const bool antialias = c.integer("antialias", 0) != 0;
  const double cubic = c.number("cubic_coeff_a", -0.75);
  c.expect(mode == "linear" || std::abs(cubic - (antialias ? -0.5 : -0.75)) < 1e-6,
           "cubic_coeff_a ", cubic, " is not supported");
  ResizeAttrs attrs;
  attrs.method = mode == "linear" ? resample::Method::linear : resample::Method::cubic;
  attrs.align_corners = coordinates == "align_corners";
  attrs.antialias = antialias;
  for (size_t d = 2; d < dims.size(); ++d) {
    attrs.output_size.push_back(dims[d].out);
    if (!c.has(3)) attrs.scales.push_back(dims[d].scale);
  }
  return {apply(resize_op, {x}, attrs)};
}

Results grid_sampled(const NodeCall& c) {
  const std::string mode = c.text("mode", "linear");
  const std::string_view name = mode == "linear"  ? "bilinear"
                                : mode == "cubic" ? "bicubic"
                                                  : std::string_view(mode);
  return {grid_sample(c[0], c[1], name, c.text("padding_mode", "zeros"),
                      c.integer("align_corners", 0) != 0)};
}

constexpr OpImport kRows[] = {
    {"AveragePool", 1, 1,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", average_pool},
    {"Conv", 2, 3, "auto_pad dilations group kernel_shape pads strides", conv},
    {"ConvTranspose", 2, 3,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
     conv_transpose},
    {"GlobalAveragePool", 1, 1, "", global_average_pool},
    {"GlobalMaxPool", 1, 1, "", global_max_pool},
    {"GridSample", 2, 2, "align_corners mode padding_mode", grid_sampled},
    {"MaxPool", 1, 1, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
     max_pool},
    {"Resize", 1, 4,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
     resize},
};

}  // namespace

std::span<const OpImport> image_imports() { return kRows; }

}  // namespace tensora::onnx
