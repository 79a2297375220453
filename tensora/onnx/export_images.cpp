#include "tensora/onnx/op_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

AttributeProto named(const char* name, std::vector<int64_t> values) {
  return AttributeProto::of(name, std::move(values));
}
AttributeProto named(const char* name, const char* text) {
  return AttributeProto::of(name, std::string(text));
}

// The same padding before and after, as ONNX lists it.
AttributeProto symmetric(const std::vector<int64_t>& padding) {
  std::vector<int64_t> both = padding;
  both.insert(both.end(), padding.begin(), padding.end());
  return named("pads", std::move(both));
}

Exprs convolution(OpCall& c) {
  const int dims = c.rank(0) - 2;
  Attributes attributes{named("strides", c.list("stride", dims)),
                        symmetric(c.list("padding", dims)),
                        named("dilations", c.list("dilation", dims)),
                        AttributeProto::of("group", c.integer("groups"))};
  const bool transposed = c.flag("transposed");
  if (transposed) attributes.push_back(named("output_padding", c.list("output_padding", dims)));
  Exprs inputs{c.in(0), c.in(1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  return {c.emit(transposed ? "ConvTranspose" : "Conv", inputs, attributes)};
}

// With the statistics of the batch, it is written by its definition.
Exprs batch_norm(OpCall& c) {
  if (c.flag("training")) return {};
  const Shape channels{c.sizes(0)[1]};
  const DType dtype = c.dtype(0);
  const auto given = [&](size_t i, double otherwise) {
    return c.has(i) ? c.in(i, dtype) : c.tensor(full(channels, otherwise, {.dtype = dtype}));
  };
  return {c.emit("BatchNormalization",
                 {c.in(0), given(3, 1), given(4, 0), c.in(1, dtype), c.in(2, dtype)},
                 {AttributeProto::of("epsilon", c.number("eps"))})};
}

/// The windows of a pooling op: those of adaptive pooling are all alike where the sizes divide.
struct Windows {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil_mode = false;
};
Windows windows_of(OpCall& c) {
  const std::vector<int64_t>& output = c.list("output_size");
  Windows result;
  if (output.empty()) {
    result = {c.list("kernel_size"), c.list("stride"), c.list("padding"), c.list("dilation")};
    const int dims = static_cast<int>(result.kernel.size()), lead = c.rank(0) - dims;
    for (int d = 0; d < dims; ++d) {
      const auto i = static_cast<size_t>(d);
      const int64_t reach = result.dilation[i] * (result.kernel[i] - 1) + 1;
      const int64_t room = c.sizes(0)[lead + d] + 2 * result.padding[i] - reach;
      result.ceil_mode |= c.flag("ceil_mode") && (room < 0 ? 0 : room / result.stride[i] + 1) !=
                                                     c.result_sizes()[lead + d];
    }
    return result;
  }
  const int dims = static_cast<int>(output.size()), lead = c.rank(0) - dims;
  for (int d = 0; d < dims; ++d) {
    const int64_t in = c.sizes(0)[lead + d], out = output[static_cast<size_t>(d)];
    if (out == 0 || in % out != 0)
      c.refuse(concat("adaptive pooling from ", in, " to ", out,
                      " elements has windows of different sizes, which ONNX does not have"));
    result.kernel.push_back(in / out);
  }
  result.stride = result.kernel;
  result.padding.assign(result.kernel.size(), 0);
  result.dilation.assign(result.kernel.size(), 1);
  return result;
}

// ONNX's pooling wants a batch.
Expr pooled(OpCall& c, std::string_view onnx, const Windows& windows, Attributes attributes) {
  const int dims = static_cast<int>(windows.kernel.size());
  const bool batched = c.rank(0) == dims + 2;
  const Expr x = batched ? c.in(0) : c.emit("Unsqueeze", {c.in(0), c.ints({0})});
  attributes.push_back(named("kernel_shape", windows.kernel));
  attributes.push_back(named("strides", windows.stride));
  attributes.push_back(symmetric(windows.padding));
  attributes.push_back(named("dilations", windows.dilation));
  attributes.push_back(AttributeProto::of("ceil_mode", int64_t{windows.ceil_mode}));
  const Expr result = c.emit(onnx, {x}, std::move(attributes));
  return batched ? result : c.emit("Squeeze", {result, c.ints({0})});
}

// The indices are not among the results: ONNX counts them through the whole tensor.
Exprs max_pool(OpCall& c) {
  const std::vector<int64_t>& output = c.list("output_size");
  if (!output.empty() && Shape(output) == Shape::filled(static_cast<int>(output.size()), 1)) {
    std::vector<int64_t> dims;
    for (int d = c.rank(0) - static_cast<int>(output.size()); d < c.rank(0); ++d) dims.push_back(d);
    return {c.emit("ReduceMax", {c.in(0), c.ints(dims)})};
  }
  return {pooled(c, "MaxPool", windows_of(c), {})};
}

Exprs avg_pool(OpCall& c) {
  const Windows windows = windows_of(c);
  if (windows.ceil_mode)
    c.refuse(
        "ceil_mode adds a window that reaches beyond the padding, whose divisor ONNX's "
        "runtimes do not agree on");
  const bool fixed = c.given("divisor_override");
  const bool counts = fixed || c.flag("count_include_pad");
  Expr result =
      pooled(c, "AveragePool", windows, {AttributeProto::of("count_include_pad", int64_t{counts})});
  if (!fixed) return {result};
  double count = 1;
  for (int64_t size : windows.kernel) count *= static_cast<double>(size);
  return {result * c.constant(count / c.number("divisor_override"), c.dtype(0))};
}

Exprs resize(OpCall& c) {
  const std::string& method = c.text("method");
  const bool nearest = method == "nearest", linear = method == "linear", cubic = method == "cubic";
  Attributes attributes{named("mode", linear ? "linear" : cubic ? "cubic" : "nearest")};
  attributes.push_back(named("coordinate_transformation_mode", c.flag("align_corners")
                                                                   ? "align_corners"
                                                               : nearest ? "asymmetric"
                                                                         : "half_pixel"));
  if (nearest) attributes.push_back(named("nearest_mode", "floor"));
  if (method == "nearest-exact") attributes.push_back(named("nearest_mode", "round_prefer_ceil"));
  if (cubic)
    attributes.push_back(AttributeProto::of("cubic_coeff_a", c.flag("antialias") ? -0.5 : -0.75));
  if (c.flag("antialias")) attributes.push_back(AttributeProto::of("antialias", int64_t{1}));
  const std::vector<double>& factors = c.attr("scales").floats;
  if (factors.empty()) {
    const Expr sizes = c.ints(c.result_sizes().vec(), "the size");
    return {c.emit("Resize", {c.in(0), c.none(), c.none(), sizes}, attributes)};
  }
  std::vector<double> scales{1, 1};
  scales.insert(scales.end(), factors.begin(), factors.end());
  const Tensor values = tensora::tensor(scales, {.dtype = kFloat32});
  return {c.emit("Resize", {c.in(0), c.none(), c.tensor(values)}, attributes)};
}

// Version 20 gave the modes other names.
Exprs grid_sample(OpCall& c) {
  const std::string& mode = c.text("mode");
  const bool renamed = c.opset_version() >= 20;
  if (c.rank(0) != 4 && !renamed)
    c.refuse("volumes need version 20 of ONNX's operators; set opset_version to 20");
  const char* name = mode == "bilinear"  ? renamed ? "linear" : "bilinear"
                     : mode == "bicubic" ? renamed ? "cubic" : "bicubic"
                                         : "nearest";
  return {c.emit("GridSample", {c.in(0), c.in(1)},
                 {named("mode", name), AttributeProto::of("padding_mode", c.text("padding_mode")),
                  AttributeProto::of("align_corners", int64_t{c.flag("align_corners")})})};
}

constexpr OpExport kRows[] = {
    {"avg_pool", "AveragePool", avg_pool},
    {"batch_norm", "BatchNormalization", batch_norm},
    {"convolution", "Conv, ConvTranspose", convolution},
    {"grid_sample", "GridSample", grid_sample},
    {"max_pool", "MaxPool", max_pool},
    {"resize", "Resize", resize},
};

}  // namespace

std::span<const OpExport> image_exports() { return kRows; }

}  // namespace tensora::onnx
