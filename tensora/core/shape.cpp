#include "tensora/core/shape.h"

#include <algorithm>
#include <utility>

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

void Shape::fail_index(int i) const {
  fail("index ", i, " is out of range for the list ", *this, " of ", size(), " numbers");
}

int64_t Shape::numel_after_overflow() const {
  check(contains(0), "a tensor of shape ", *this, " has too many elements");
  return 0;
}

std::vector<int64_t> Shape::vec() const { return {begin(), end()}; }

int64_t add_sizes(int64_t a, int64_t b, std::string_view op) {
  int64_t sum = 0;
  check(!__builtin_add_overflow(a, b, &sum), op, ": the size ", a, " + ", b, " is too large");
  return sum;
}

int64_t multiply_sizes(int64_t a, int64_t b, std::string_view op) {
  int64_t product = 0;
  check(!__builtin_mul_overflow(a, b, &product), op, ": the size ", a, " * ", b, " is too large");
  return product;
}

int64_t storage_extent(const Shape& sizes, const Strides& strides, int64_t offset,
                       std::string_view op) {
  if (sizes.contains(0)) return offset;
  int64_t last = offset;
  bool overflow = false;
  for (int i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  overflow |= __builtin_add_overflow(last, 1, &last);
  check(!overflow, op, ": size ", sizes, ", stride ", strides, " and offset ", offset,
        " reach beyond what can be addressed");
  return last;
}

Strides contiguous_strides(const Shape& sizes) {
  Strides strides;
  strides.resize(sizes.size());
  int64_t step = 1;
  bool overflow = false;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = step;
    overflow |= __builtin_mul_overflow(step, std::max<int64_t>(sizes[i], 1), &step);
  }
  check(!overflow, "the strides of shape ", sizes, " are too large");
  return strides;
}

bool is_contiguous(const Shape& sizes, const Strides& strides) {
  int64_t expected = 1;
  bool matches = true;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    matches &= strides[i] == expected;
    __builtin_mul_overflow(expected, sizes[i], &expected);  // only if a later size is 0
  }
  return matches;
}

namespace {

// 1 if dim `inner` has to be outside of `outer` in memory, -1 if not, 0 if the patterns do not say.
int compare_dims(int inner, int outer, const Shape& sizes, std::span<const Strides> patterns) {
  for (const Strides& strides : patterns) {
    if (strides[inner] == 0 || strides[outer] == 0) continue;
    if (strides[inner] != strides[outer]) return strides[inner] > strides[outer] ? 1 : -1;
    if (sizes[inner] > sizes[outer]) return 1;
  }
  return 0;
}

// Dims of more than one element, by ascending stride.
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

Strides dense_strides(const Shape& sizes, std::span<const Strides> patterns) {
  // Dims from the innermost outwards, by insertion sort. Where the patterns do not order two dims,
  // the later dim is the inner one, and a dim moves past such dims only if it must move past one
  // beyond them.
  Dims order;
  for (int d = sizes.size() - 1; d >= 0; --d) order.push_back(d);
  for (int i = 1; i < order.size(); ++i) {
    int moving = i;
    for (int k = i - 1; k >= 0; --k) {
      const int outer = static_cast<int>(order[moving]), inner = static_cast<int>(order[k]);
      const int compared = compare_dims(inner, outer, sizes, patterns);
      if (compared < 0) break;
      if (compared == 0) continue;
      std::swap(order[moving], order[k]);
      moving = k;
    }
  }
  Strides result = sizes;
  int64_t step = 1;
  for (int64_t dim : order) {
    result[static_cast<int>(dim)] = step;
    step = multiply_sizes(step, std::max<int64_t>(sizes[static_cast<int>(dim)], 1), "strides");
  }
  return result;
}

bool is_dense(const Shape& sizes, const Strides& strides) {
  if (is_contiguous(sizes, strides)) return true;
  int64_t expected = 1;
  for (int64_t dim : dims_by_stride(sizes, strides)) {
    const int i = static_cast<int>(dim);
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

Strides kept_strides(const Shape& sizes, const Strides& strides) {
  return is_dense(sizes, strides) ? strides : dense_strides(sizes, {&strides, 1});
}

bool may_overlap_itself(const Shape& sizes, const Strides& strides) {
  if (sizes.contains(0) || is_contiguous(sizes, strides)) return false;
  int64_t reach = 0;  // the largest offset that the smaller strides can produce
  for (int64_t dim : dims_by_stride(sizes, strides)) {
    const int i = static_cast<int>(dim);
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
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      check(unknown < 0, op, ": only one dimension can be inferred, got ", sizes);
      unknown = i;
    } else {
      check(sizes[i] >= 0, op, ": invalid size ", sizes[i], " in ", sizes);
    }
  }
  if (unknown >= 0) {
    result[unknown] = 1;
    const int64_t known = result.numel();
    check(known != 0, op, ": cannot infer the -1 in ", sizes, " of a tensor with ", numel,
          " elements, because any value would do");
    result[unknown] = numel / known;
  }
  check(result.numel() == numel, op, ": shape ", sizes, " is invalid for ", numel, " elements");
  return result;
}

}  // namespace tensora
