#include <algorithm>
#include <limits>

#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

// Indices that count from the end, as positions from the front.
Tensor from_front(const Tensor& indices, int64_t size) {
  const Tensor wide = to(indices, kInt64);
  return where(lt(wide, 0), wide + size, wide);
}

Results gather_slices(const NodeCall& c) {
  const Tensor x = c[0], indices = c[1];
  const int axis = wrap_dim(c.integer("axis", 0), x.dim(), c.op());
  const Tensor flat = from_front(reshape(indices, {-1}), x.sizes()[axis]);
  const Tensor chosen = index_select(x, axis, flat);
  Shape sizes;
  for (int d = 0; d < axis; ++d) sizes.push_back(x.sizes()[d]);
  for (int64_t size : indices.sizes()) sizes.push_back(size);
  for (int d = axis + 1; d < x.dim(); ++d) sizes.push_back(x.sizes()[d]);
  return {reshape(chosen, sizes)};
}
Results gather_elements(const NodeCall& c) {
  const Tensor x = c[0];
  const int axis = wrap_dim(c.integer("axis", 0), x.dim(), c.op());
  return {gather(x, axis, from_front(c[1], x.sizes()[axis]))};
}

/// Tuples of indices along the first dims of a tensor, as positions in those dims taken as one.
struct Places {
  Tensor flat;            // 1-D
  Shape places;           // of the tuples
  int64_t indexed = 0;    // dims
  int64_t positions = 1;  // in them together
};
Places places_of(const NodeCall& c, const Tensor& x, const Tensor& indices, int batch) {
  const int64_t depth = indices.dim() > 0 ? indices.size(-1) : 0;
  c.expect(depth >= 1 && batch + depth <= x.dim(), "indices of shape ", indices.sizes(),
           " for a tensor of shape ", x.sizes());
  Places result;
  result.places = indices.sizes();
  result.places.resize(result.places.size() - 1);
  result.indexed = depth;
  Tensor flat;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t size = x.size(batch + k);
    const Tensor part = from_front(select(indices, -1, k), size);
    flat = flat.defined() ? flat * size + part : part;
    result.positions = multiply_sizes(result.positions, size, c.op());
  }
  result.flat = reshape(flat, {-1});
  return result;
}
Shape behind(const Shape& sizes, int64_t dims) {
  Shape rest;
  for (int64_t d = dims; d < sizes.size(); ++d) rest.push_back(sizes[static_cast<int>(d)]);
  return rest;
}
Shape joined(Shape a, const Shape& b) {
  for (int64_t size : b) a.push_back(size);
  return a;
}

Results gather_nd(const NodeCall& c) {
  c.expect(c.integer("batch_dims", 0) == 0, "batch_dims are not supported");
  const Tensor x = c[0];
  const Places at = places_of(c, x, c[1], 0);
  const Shape rest = behind(x.sizes(), at.indexed);
  const Tensor rows = reshape(x, joined({at.positions}, rest));
  return {reshape(index_select(rows, 0, at.flat), joined(at.places, rest))};
}
std::string reduction_of(const NodeCall& c) {
  const std::string name = c.text("reduction", "none");
  const bool known =
      name == "none" || name == "add" || name == "mul" || name == "max" || name == "min";
  c.expect(known, "the reduction '", name, "' is unknown");
  return name == "add"   ? "sum"
         : name == "mul" ? "prod"
         : name == "max" ? "amax"
         : name == "min" ? "amin"
                         : "";
}
Results scatter_nd(const NodeCall& c) {
  const Tensor x = c[0];
  const Places at = places_of(c, x, c[1], 0);
  const Shape rest = behind(x.sizes(), at.indexed);
  const Tensor rows = reshape(x, joined({at.positions}, rest));
  const Tensor updates = reshape(c[2], joined({at.places.numel()}, rest));
  const std::string reduction = reduction_of(c);
  const Tensor result = reduction.empty() ? index_copy(rows, 0, at.flat, updates)
                        : reduction == "sum"
                            ? index_add(rows, 0, at.flat, updates)
                            : index_reduce(rows, 0, at.flat, updates, reduction, true);
  return {reshape(result, x.sizes())};
}
Results scatter_elements(const NodeCall& c) {
  const Tensor x = c[0];
  const int axis = wrap_dim(c.integer("axis", 0), x.dim(), c.op());
  const Tensor indices = from_front(c[1], x.sizes()[axis]);
  const std::string reduction = reduction_of(c);
  if (reduction.empty()) return {scatter(x, axis, indices, c[2])};
  return {scatter_reduce(x, axis, indices, c[2], reduction, true)};
}
Results one_hot_of(const NodeCall& c) {
  const Tensor indices = c[0], values = c[2];
  const int64_t depth = c.integer(1);
  c.expect(depth > 0 && depth < int64_t{1} << 31, "the depth ", depth);
  c.expect(values.dim() == 1 && values.size(0) == 2, "values of shape ", values.sizes());
  const int axis = wrap_dim(c.integer("axis", -1), indices.dim() + 1, c.op());
  Shape along = Shape::filled(indices.dim() + 1, 1);
  along[axis] = depth;
  const Tensor classes = reshape(arange(depth, {.device = c.device()}), along);
  const Tensor hot = eq(unsqueeze(from_front(indices, depth), axis), classes);
  return {where(hot, select(values, 0, 1), select(values, 0, 0))};
}
Results nonzero_of(const NodeCall& c) { return {transpose(nonzero(c[0]), 0, 1)}; }

// ---- detection ---------------------------------------------------------------------------------

struct Box {
  double top, left, bottom, right;

  double area() const { return (bottom - top) * (right - left); }
};
Box box_at(const float* row, bool centred) {
  if (centred) {  // x, y of the centre, width, height
    const double x = row[0], y = row[1], w = row[2] / 2.0, h = row[3] / 2.0;
    return {y - h, x - w, y + h, x + w};
  }
  return {std::min<double>(row[0], row[2]), std::min<double>(row[1], row[3]),
          std::max<double>(row[0], row[2]), std::max<double>(row[1], row[3])};
}
double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double shared = height * width;
  return shared / (a.area() + b.area() - shared);
}

// The boxes of one class that remain, best first.
std::vector<int64_t> suppressed(const float* boxes, const float* scores, int64_t count,
                                int64_t most, double overlap_limit, double score_limit,
                                bool centred) {
  std::vector<int64_t> order, kept;
  for (int64_t i = 0; i < count; ++i)
    if (static_cast<double>(scores[i]) > score_limit) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  for (int64_t i : order) {
    if (std::ssize(kept) >= most) break;
    const Box box = box_at(boxes + 4 * i, centred);
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](int64_t other) {
      return overlap(box, box_at(boxes + 4 * other, centred)) > overlap_limit;
    });
    if (!hidden) kept.push_back(i);
  }
  return kept;
}
// Reads boxes and scores on the host: how many remain depends on them.
Results non_max_suppression(const NodeCall& c) {
  const Tensor boxes = to(c[0].detach().cpu(), kFloat32).contiguous(),
               scores = to(c[1].detach().cpu(), kFloat32).contiguous();
  c.expect(boxes.dim() == 3 && scores.dim() == 3 && boxes.size(2) == 4 &&
               boxes.size(0) == scores.size(0) && boxes.size(1) == scores.size(2),
           "boxes of shape ", boxes.sizes(), " and scores of shape ", scores.sizes());
  const int64_t most = c.has(2) ? c.integer(2) : 0, count = boxes.size(1);
  const double overlap_limit = c.has(3) ? c.number(3) : 0;
  const double score_limit = c.has(4) ? c.number(4) : -std::numeric_limits<double>::infinity();
  std::vector<int64_t> rows;
  for (int64_t batch = 0; batch < scores.size(0); ++batch)
    for (int64_t kind = 0; kind < scores.size(1); ++kind)
      for (int64_t box :
           suppressed(boxes.data_ptr<float>() + batch * count * 4,
                      scores.data_ptr<float>() + (batch * scores.size(1) + kind) * count, count,
                      most, overlap_limit, score_limit, c.integer("center_point_box", 0) != 0))
        rows.insert(rows.end(), {batch, kind, box});
  const auto found = static_cast<int64_t>(rows.size() / 3);
  return {to(reshape(tensor(rows, {.dtype = kInt64}), {found, 3}), c.device())};
}

constexpr OpImport kRows[] = {
    {"Gather", 2, 2, "axis", gather_slices},
    {"GatherElements", 2, 2, "axis", gather_elements},
    {"GatherND", 2, 2, "batch_dims", gather_nd},
    {"NonMaxSuppression", 2, 5, "center_point_box", non_max_suppression},
    {"NonZero", 1, 1, "", nonzero_of},
    {"OneHot", 3, 3, "axis", one_hot_of},
    {"ScatterElements", 3, 3, "axis reduction", scatter_elements},
    {"ScatterND", 3, 3, "reduction", scatter_nd},
};

}  // namespace

std::span<const OpImport> index_imports() { return kRows; }

}  // namespace tensora::onnx
