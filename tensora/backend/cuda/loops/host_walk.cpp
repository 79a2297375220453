#include "tensora/backend/cuda/loops/host_walk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace tensora::cuda {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;

bool fits_a_kernel(const HostWalk& walk) {
  if (walk.dims > kMaxPartDims || walk.count() >= kLimit) return false;
  for (int k = 0; k < walk.arrays; ++k) {
    int64_t reach = 0;
    for (int d = 0; d < walk.dims; ++d) reach += (walk.sizes[d] - 1) * std::abs(walk.strides[k][d]);
    if (reach >= kLimit) return false;
  }
  return true;
}

void visit_parts(const HostWalk& walk, bool is_last,
                 FunctionRef<void(const HostWalk&, bool)> body) {
  if (fits_a_kernel(walk)) {
    body(walk, is_last);
    return;
  }
  int widest = walk.dims - 1;  // the outermost dim that can be split
  while (widest > 0 && walk.sizes[widest] == 1) --widest;
  if (walk.sizes[widest] == 0) return;
  HostWalk first = walk, second = walk;
  first.dims = second.dims = widest + 1;
  first.sizes[widest] = walk.sizes[widest] / 2;
  second.sizes[widest] = walk.sizes[widest] - first.sizes[widest];
  for (int k = 0; k < walk.arrays; ++k)
    if (second.data[k]) second.data[k] += first.sizes[widest] * walk.strides[k][widest];
  visit_parts(first, false, body);
  visit_parts(second, is_last, body);
}

}  // namespace

namespace {

// Most ops have contiguous operands of one shape, and numbers: a single dim, without sorting and
// merging.
bool make_plain_walk(HostWalk& walk, std::span<const View* const> views) {
  const View& out = *views[0];
  const int64_t count = out.sizes.numel();
  for (int k = 0; k < walk.arrays; ++k) {
    const View& view = *views[static_cast<size_t>(k)];
    // Not by view.contiguous and view.numel: kernels pass views of their own making, too.
    const bool alike = view.sizes == out.sizes && is_contiguous(view.sizes, view.strides);
    if (!alike && (view.sizes.numel() != 1 || view.dim() > out.dim())) return false;
    const bool repeats = !alike && count != 1;
    walk.strides[k][0] = repeats ? 0 : static_cast<int64_t>(element_size(view.dtype));
    walk.data[k] = static_cast<char*>(view.data);
  }
  walk.dims = 1;
  walk.sizes[0] = count;
  return true;
}

}  // namespace

HostWalk make_walk(std::span<const View* const> views) {
  HostWalk walk;
  walk.arrays = static_cast<int>(views.size());
  ensure(walk.arrays <= kMaxArrays, "make_walk: too many arrays");
  if (make_plain_walk(walk, views)) return walk;
  const View& out = *views[0];
  Strides steps[kMaxArrays];
  for (int k = 0; k < walk.arrays; ++k) {
    const View& view = *views[static_cast<size_t>(k)];
    steps[k] = broadcast_strides(view.sizes, view.strides, out.sizes);
    for (int64_t& step : steps[k]) step *= static_cast<int64_t>(element_size(view.dtype));
    walk.data[k] = static_cast<char*>(view.data);
  }
  int order[kMaxDims];  // innermost first: by ascending stride of the output
  int used = 0;
  for (int d = out.dim() - 1; d >= 0; --d)
    if (out.sizes[d] != 1) order[used++] = d;
  std::stable_sort(order, order + used, [&](int a, int b) { return steps[0][a] < steps[0][b]; });
  for (int i = 0; i < used; ++i) {
    const int d = order[i];
    const int last = walk.dims - 1;
    bool joins = last >= 0;
    for (int k = 0; k < walk.arrays && joins; ++k)
      joins = steps[k][d] == walk.strides[k][last] * walk.sizes[last];
    if (joins) {
      walk.sizes[last] *= out.sizes[d];
      continue;
    }
    walk.sizes[walk.dims] = out.sizes[d];
    for (int k = 0; k < walk.arrays; ++k) walk.strides[k][walk.dims] = steps[k][d];
    ++walk.dims;
  }
  if (walk.dims == 0) {  // a single element
    walk.dims = 1;
    walk.sizes[0] = out.numel;
    for (int k = 0; k < walk.arrays; ++k)
      walk.strides[k][0] = static_cast<int64_t>(element_size(views[static_cast<size_t>(k)]->dtype));
  }
  return walk;
}

bool has_groups(const HostWalk& walk, int k, int64_t element_bytes, int64_t group) {
  const int64_t alignment = std::min<int64_t>(16, element_bytes * group);
  if (walk.strides[k][0] != element_bytes) return false;
  if (reinterpret_cast<uintptr_t>(walk.data[k]) % static_cast<uintptr_t>(alignment) != 0)
    return false;
  for (int d = 1; d < walk.dims; ++d)
    if (walk.strides[k][d] % alignment != 0) return false;
  return true;
}

void each_part(const HostWalk& walk, FunctionRef<void(const HostWalk& part, bool is_last)> body) {
  visit_parts(walk, true, body);
}

DivisorNumbers divisor_numbers(int64_t divisor) {
  const auto d = static_cast<uint64_t>(divisor);
  const auto shift = static_cast<unsigned>(std::bit_width(d - 1));  // the smallest with 2^s >= d
  const uint64_t multiplier = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return {static_cast<unsigned>(d), static_cast<unsigned>(multiplier), shift};
}

}  // namespace tensora::cuda
