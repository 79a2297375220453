#include <algorithm>
#include <limits>

#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

// Sizes that a file or an input gives: memory for them is about to be asked for.
Shape shape_of(const NodeCall& c, const std::vector<int64_t>& sizes) {
  c.expect(sizes.size() <= static_cast<size_t>(kMaxDims), "a tensor of ", sizes.size(), " dims");
  double count = 1;
  for (int64_t size : sizes) {
    c.expect(size >= 0, "the size ", size);
    count *= static_cast<double>(std::max<int64_t>(size, 1));
  }
  c.expect(count <= static_cast<double>(kMostElements), "a tensor of ", count, " elements");
  return Shape(sizes);
}
int axis_of(const NodeCall& c, const char* name, int64_t otherwise, int rank) {
  return wrap_dim(c.integer(name, otherwise), rank, c.op());
}
Dims wrapped(const NodeCall& c, const std::vector<int64_t>& axes, int rank) {
  Dims dims;
  for (int64_t axis : axes) dims.push_back(wrap_dim(axis, rank, c.op()));
  return dims;
}

Results constant(const NodeCall& c) {
  if (const AttributeProto* found = c.attr("value")) {
    c.expect(found->t.defined(), "its value is no tensor");
    return {found->t};
  }
  if (const AttributeProto* found = c.attr("value_int"))
    return {full({}, found->i, {.dtype = kInt64})};
  if (const AttributeProto* found = c.attr("value_float"))
    return {full({}, static_cast<double>(found->f), {.dtype = kFloat32})};
  if (c.attr("value_ints")) return {tensor(c.list("value_ints"), {.dtype = kInt64})};
  if (c.attr("value_floats")) return {tensor(c.numbers("value_floats"), {.dtype = kFloat32})};
  c.refuse("it has no value");
}
Results constant_of_shape(const NodeCall& c) {
  const Shape sizes = shape_of(c, c.ints(0));
  const AttributeProto* value = c.attr("value");
  if (!value) return {zeros(sizes, {.dtype = kFloat32, .device = c.device()})};
  c.expect(value->t.defined() && value->t.numel() == 1, "its value is not one number");
  return {contiguous(expand(to(reshape(value->t, {}), c.device()), sizes))};
}
Results shape(const NodeCall& c) {
  const Shape sizes = c[0].sizes();
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t at = c.integer(name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + sizes.size() : at, 0, sizes.size());
  };
  const int64_t start = bound("start", 0), end = bound("end", sizes.size());
  std::vector<int64_t> part;
  for (int64_t d = start; d < end; ++d) part.push_back(sizes[static_cast<int>(d)]);
  return {tensor(part, {.dtype = kInt64})};
}
Results size(const NodeCall& c) { return {full({}, c[0].numel(), {.dtype = kInt64})}; }

Results cast(const NodeCall& c) { return {to(c[0], dtype_of_element(c.integer("to", 0), c.op()))}; }
Results cast_like(const NodeCall& c) { return {to(c[0], c[1].dtype())}; }

Results reshaped(const NodeCall& c) {
  const Tensor x = c[0];
  std::vector<int64_t> sizes = c.ints(1);
  c.expect(sizes.size() <= static_cast<size_t>(kMaxDims), sizes.size(), " dims");
  for (size_t i = 0; i < sizes.size() && c.integer("allowzero", 0) == 0; ++i)
    if (sizes[i] == 0) {
      c.expect(static_cast<int>(i) < x.dim(), "size 0 for dim ", i, " of a tensor of shape ",
               x.sizes());
      sizes[i] = x.sizes()[static_cast<int>(i)];
    }
  return {reshape(x, Shape(sizes))};
}
Results flattened(const NodeCall& c) {
  const Tensor x = c[0];
  const int64_t given = c.integer("axis", 1), axis = given < 0 ? given + x.dim() : given;
  c.expect(axis >= 0 && axis <= x.dim(), "axis ", given, " of a tensor of shape ", x.sizes());
  int64_t rows = 1, columns = 1;
  for (int d = 0; d < x.dim(); ++d) (d < axis ? rows : columns) *= x.sizes()[d];
  return {reshape(x, {rows, columns})};
}
Results transposed(const NodeCall& c) {
  const Tensor x = c[0];
  std::vector<int64_t> perm = c.list("perm");
  if (!c.attr("perm"))
    for (int d = x.dim() - 1; d >= 0; --d) perm.push_back(d);
  return {permute(x, Dims(perm))};
}
Results squeezed(const NodeCall& c) {
  const Tensor x = c[0];
  if (!c.has(1) && !c.attr("axes")) return {squeeze(x)};
  const Dims dims = wrapped(c, c.axes("axes", 1), x.dim());
  for (int64_t d : dims)
    c.expect(x.sizes()[static_cast<int>(d)] == 1, "axis ", d, " of a tensor of shape ", x.sizes(),
             " is not 1");
  return {squeeze(x, dims)};
}
Results unsqueezed(const NodeCall& c) {
  Tensor x = c[0];
  const std::vector<int64_t> axes = c.axes("axes", 1);
  const int rank = x.dim() + static_cast<int>(axes.size());
  std::vector<int64_t> places;
  for (int64_t axis : axes) places.push_back(wrap_dim(axis, rank, c.op()));
  std::sort(places.begin(), places.end());
  for (int64_t place : places) x = unsqueeze(x, place);
  return {x};
}
Results concatenated(const NodeCall& c) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.inputs(); ++i) parts.push_back(c[i]);
  return {cat(parts, c.integer("axis", 0))};
}
// Sizes of 1 on either side broadcast.
Results expanded(const NodeCall& c) {
  const Tensor x = c[0];
  const Shape sizes = broadcast_shapes(x.sizes(), shape_of(c, c.ints(1)), c.op());
  return {expand(x, shape_of(c, sizes.vec()))};
}
Results tiled(const NodeCall& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> repeats = c.ints(1);
  c.expect(static_cast<int>(repeats.size()) == x.dim(), repeats.size(),
           " repeats for a tensor of shape ", x.sizes());
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < repeats.size(); ++d)
    sizes.push_back(multiply_sizes(x.sizes()[static_cast<int>(d)], repeats[d], c.op()));
  shape_of(c, sizes);
  return {repeat(x, Shape(repeats))};
}

// One dim of ONNX's Slice: bounds count from the end and are clamped; steps may be negative.
Tensor sliced(const NodeCall& c, const Tensor& x, int d, int64_t start, int64_t end, int64_t step) {
  const int64_t size = x.sizes()[d];
  c.expect(step != 0, "a step of 0");
  const auto from_end = [&](int64_t at) { return at < 0 ? at + size : at; };
  if (step > 0)
    return slice(x, d, std::clamp<int64_t>(from_end(start), 0, size),
                 std::clamp<int64_t>(from_end(end), 0, size), step);
  // Backwards: the same elements forwards, reversed.
  c.expect(step > std::numeric_limits<int64_t>::min(), "a step of ", step);
  const int64_t first = std::clamp<int64_t>(from_end(start), -1, size - 1),
                last = end < -size ? -1 : std::clamp<int64_t>(from_end(end), -1, size - 1);
  if (first <= last || size == 0) return slice(x, d, 0, 0, 1);
  const int64_t count = (first - last - 1) / -step + 1, lowest = first - (count - 1) * -step;
  return flip(slice(x, d, lowest, first + 1, -step), {d});
}
Results slices(const NodeCall& c) {
  Tensor x = c[0];
  const std::vector<int64_t> starts = c.ints(1), ends = c.ints(2);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (c.has(3)) axes = c.ints(3);
  if (c.has(4)) steps = c.ints(4);
  c.expect(
      ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
      "lists of different lengths");
  for (size_t i = 0; i < axes.size(); ++i)
    x = sliced(c, x, wrap_dim(axes[i], x.dim(), c.op()), starts[i], ends[i], steps[i]);
  return {x};
}
Results parts(const NodeCall& c) {
  const Tensor x = c[0];
  const int axis = axis_of(c, "axis", 0, x.dim());
  if (c.has(1) || c.attr("split")) {
    const std::vector<int64_t> sizes = c.axes("split", 1);
    c.expect(sizes.size() == c.outputs(), sizes.size(), " sizes for ", c.outputs(), " outputs");
    return split(x, sizes, axis);
  }
  // Equal parts, of which the last may be shorter.
  const auto count = static_cast<int64_t>(c.outputs());
  const int64_t size = (x.sizes()[axis] + count - 1) / count;
  Results results = split(x, std::max<int64_t>(size, 1), axis);
  c.expect(std::ssize(results) == count, "size ", x.sizes()[axis], " cannot be split into ", count);
  return results;
}

Results padded(const NodeCall& c) {
  const Tensor x = c[0];
  const std::vector<int64_t> pads = c.ints(1);
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  if (c.has(3)) axes = wrapped(c, c.ints(3), x.dim()).vec();
  c.expect(pads.size() == 2 * axes.size(), pads.size(), " pads for ", axes.size(), " axes");
  // The library lists the last dim first.
  std::vector<int64_t> pairs(static_cast<size_t>(2 * x.dim()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<size_t>(2 * (x.dim() - 1 - axes[i]));
    pairs[at] = pads[i];
    pairs[at + 1] = pads[i + axes.size()];
    shape_of(c, {std::max<int64_t>(0, pads[i]), std::max<int64_t>(0, pads[i + axes.size()])});
  }
  while (pairs.size() >= 2 && pairs.back() == 0 && pairs[pairs.size() - 2] == 0) {
    pairs.pop_back();
    pairs.pop_back();
  }
  const std::string mode = c.text("mode", "constant");
  if (pairs.empty()) return {x};
  if (mode == "constant") {
    const double value = c.has(2) ? c.number(2) : 0;
    return {pad(x, pairs, "constant", Scalar(value))};
  }
  if (mode == "reflect" || mode == "wrap" || mode == "edge")
    return {pad(x, pairs, mode == "edge" ? "replicate" : mode == "wrap" ? "circular" : "reflect")};
  c.refuse(concat("the mode '", mode, "' is unknown"));
}

Results range(const NodeCall& c) {
  const DType dtype = c[0].dtype();
  const double start = c.number(0), end = c.number(1), step = c.number(2);
  c.expect(step != 0 && (end - start) / step < static_cast<double>(kMostElements),
           "the range from ", start, " to ", end, " by ", step);
  if ((step > 0) != (end > start)) return {zeros({0}, {.dtype = dtype, .device = c.device()})};
  const TensorOptions options{.dtype = dtype, .device = c.device()};
  if (is_integral(dtype)) return {arange(c.integer(0), c.integer(1), c.integer(2), options)};
  return {arange(start, end, step, options)};
}
Results triangle(const NodeCall& c) {
  const int64_t diagonal = c.has(1) ? c.integer(1) : 0;
  return {c.integer("upper", 1) != 0 ? triu(c[0], diagonal) : tril(c[0], diagonal)};
}
Results eye_like(const NodeCall& c) {
  const Tensor x = c[0];
  c.expect(x.dim() == 2, "a tensor of shape ", x.sizes());
  const DType dtype = c.attr("dtype") ? dtype_of_element(c.integer("dtype", 1), c.op()) : x.dtype();
  const int64_t k = c.integer("k", 0);
  const Tensor rows = unsqueeze(arange(x.size(0)), 1), columns = unsqueeze(arange(x.size(1)), 0);
  return {to(to(eq(columns - rows, k), dtype), c.device())};
}
Results depth_to_space(const NodeCall& c) {
  const Tensor x = c[0];
  const int64_t block = c.integer("blocksize", 0);
  c.expect(x.dim() == 4 && block > 0 && block < 1 << 20, "a tensor of shape ", x.sizes(),
           " and blocksize ", block);
  if (c.text("mode", "DCR") == "CRD") return {pixel_shuffle(x, block)};
  c.expect(x.size(1) % (block * block) == 0, x.size(1), " channels and blocksize ", block);
  const Tensor apart =
      reshape(x, {x.size(0), block, block, x.size(1) / (block * block), x.size(2), x.size(3)});
  return {reshape(permute(apart, {0, 3, 4, 1, 5, 2}),
                  {x.size(0), x.size(1) / (block * block), x.size(2) * block, x.size(3) * block})};
}
Results space_to_depth(const NodeCall& c) {
  const Tensor x = c[0];
  const int64_t block = c.integer("blocksize", 0);
  c.expect(x.dim() == 4 && block > 0 && block < 1 << 20 && x.size(2) % block == 0 &&
               x.size(3) % block == 0,
           "a tensor of shape ", x.sizes(), " and blocksize ", block);
  const Tensor apart =
      reshape(x, {x.size(0), x.size(1), x.size(2) / block, block, x.size(3) / block, block});
  return {reshape(permute(apart, {0, 3, 5, 1, 2, 4}),
                  {x.size(0), x.size(1) * block * block, x.size(2) / block, x.size(3) / block})};
}

// Steps with graphs run by themselves.
Results branch(const NodeCall& c) { c.refuse("it has no graphs"); }

constexpr OpImport kRows[] = {
    {"Cast", 1, 1, "to saturate round_mode", cast},
    {"CastLike", 2, 2, "saturate round_mode", cast_like},
    {"Concat", 1, -1, "axis", concatenated},
    {"Constant", 0, 0, "value value_int value_float value_ints value_floats", constant},
    {"ConstantOfShape", 1, 1, "value", constant_of_shape},
    {"DepthToSpace", 1, 1, "blocksize mode", depth_to_space},
    {"Expand", 2, 2, "", expanded},
    {"EyeLike", 1, 1, "dtype k", eye_like},
    {"Flatten", 1, 1, "axis", flattened},
    {"If", 1, 1, "then_branch else_branch", branch},
    {"Pad", 2, 4, "mode", padded},
    {"Range", 3, 3, "", range},
    {"Reshape", 2, 2, "allowzero", reshaped},
    {"Shape", 1, 1, "start end", shape},
    {"Size", 1, 1, "", size},
    {"Slice", 3, 5, "", slices},
    {"SpaceToDepth", 1, 1, "blocksize", space_to_depth},
    {"Split", 1, 2, "axis split num_outputs", parts},
    {"Squeeze", 1, 2, "axes", squeezed},
    {"Tile", 2, 2, "", tiled},
    {"Transpose", 1, 1, "perm", transposed},
    {"Trilu", 1, 2, "upper", triangle},
    {"Unsqueeze", 1, 2, "axes", unsqueezed},
};

}  // namespace

std::span<const OpImport> shape_imports() { return kRows; }

}  // namespace tensora::onnx
