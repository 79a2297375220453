#include "tensora/core/shape.h"

#include <algorithm>

namespace tensora {

void append(std::string& out, const Shape& shape) {
  out += '[';
  for (int i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ", ";
    append(out, shape[i]);
  }
  out += ']';
}

std::string to_string(const Shape& shape) { return concat(shape); }

Strides contiguous_strides(const Shape& sizes) {
  Strides strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

bool is_contiguous(const Shape& sizes, const Strides& strides) {
  int64_t expected = 1;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

namespace {

// Dims of more than one element, ordered by growing stride.
Dims dims_by_stride(const Shape& sizes, const Strides& strides) {
  Dims order;
  for (int i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[static_cast<int>(a)] < strides[static_cast<int>(b)];
  });
  return order;
}

}  // namespace

bool is_dense(const Shape& sizes, const Strides& strides) {
  if (is_contiguous(sizes, strides)) return true;
  int64_t expected = 1;
  for (int64_t dim : dims_by_stride(sizes, strides)) {
    const int i = static_cast<int>(dim);
    if (sizes[i] == 0) return true;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

bool may_overlap_itself(const Shape& sizes, const Strides& strides) {
  if (is_contiguous(sizes, strides)) return false;
  int64_t reach = 0;  // the largest offset that the smaller strides can produce
  for (int64_t dim : dims_by_stride(sizes, strides)) {
    const int i = static_cast<int>(dim);
    if (sizes[i] == 0) return false;
    if (strides[i] <= reach) return true;
    reach += strides[i] * (sizes[i] - 1);
  }
  return false;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const int shift = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    int64_t& size = result[i + shift];
    if (size == shorter[i] || shorter[i] == 1) continue;
    check(size == 1, op, ": shapes ", a, " and ", b, " cannot be broadcast together (sizes ", size,
          " and ", shorter[i], " at dimension ", i + shift, ")");
    size = shorter[i];
  }
  return result;
}

Strides broadcast_strides(const Shape& sizes, const Strides& strides, const Shape& target) {
  Strides result;
  result.resize(target.size());
  const int shift = target.size() - sizes.size();
  for (int i = 0; i < sizes.size(); ++i)
    result[i + shift] = sizes[i] == 1 && target[i + shift] != 1 ? 0 : strides[i];
  return result;
}

bool can_broadcast_to(const Shape& sizes, const Shape& target) {
  const int shift = target.size() - sizes.size();
  if (shift < 0) return false;
  for (int i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && sizes[i] != target[i + shift]) return false;
  return true;
}

int wrap_dim(int64_t dim, int count, std::string_view op) {
  const int64_t limit = std::max(count, 1);
  check(dim >= -limit && dim < limit, op, ": dimension out of range (expected to be in [", -limit,
        ", ", limit - 1, "], got ", dim, ")");
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

Dims wrap_dims(const Dims& dims, int count, std::string_view op) {
  Dims result;
  if (dims.empty()) {
    for (int i = 0; i < count; ++i) result.push_back(i);
    return result;
  }
  for (int64_t dim : dims) {
    const int wrapped = wrap_dim(dim, count, op);
    check(!result.contains(wrapped), op, ": dimension ", wrapped, " appears more than once in ",
          dims);
    result.push_back(wrapped);
  }
  if (count == 0) result.resize(0);
  return result;
}

Shape infer_size(const Shape& sizes, int64_t numel, std::string_view op) {
  Shape result = sizes;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      check(unknown < 0, op, ": only one dimension can be inferred, got ", sizes);
      unknown = i;
    } else {
      check(sizes[i] >= 0, op, ": invalid size ", sizes[i], " in ", sizes);
      known *= sizes[i];
    }
  }
  if (unknown >= 0) {
    check(known != 0, op, ": cannot infer the -1 in ", sizes, " of a tensor with ", numel,
          " elements, because any value would do");
    result[unknown] = numel / known;
  }
  check(result.numel() == numel, op, ": shape ", sizes, " is invalid for ", numel, " elements");
  return result;
}

}  // namespace tensora
