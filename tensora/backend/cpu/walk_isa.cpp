#include "tensora/backend/cpu/walk.h"

#include <algorithm>

namespace tensora::cpu::TENSORA_ISA {

Walk::Walk(std::span<const View* const> views) : count_(static_cast<int>(views.size())) {
  const View& out = *views[0];
  numel_ = out.numel;
  // Outermost first: by descending stride of the output, so that writes run forward.
  int order[kMaxDims];
  int used = 0;
  for (int d = 0; d < out.dim(); ++d)
    if (out.sizes[d] != 1) order[used++] = d;
  std::stable_sort(order, order + used,
                   [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  Strides broadcast[kMaxWalked];
  for (int k = 0; k < count_; ++k)
    broadcast[k] = broadcast_strides(views[static_cast<size_t>(k)]->sizes,
                                     views[static_cast<size_t>(k)]->strides, out.sizes);
  for (int i = 0; i < used; ++i) {
    const int d = order[i];
    bool joins = dims_ > 0;
    for (int k = 0; k < count_ && joins; ++k)
      joins = strides_[k][dims_ - 1] == broadcast[k][d] * out.sizes[d];
    if (joins) {
      sizes_[dims_ - 1] *= out.sizes[d];
      for (int k = 0; k < count_; ++k) strides_[k][dims_ - 1] = broadcast[k][d];
      continue;
    }
    sizes_[dims_] = out.sizes[d];
    for (int k = 0; k < count_; ++k) strides_[k][dims_] = broadcast[k][d];
    ++dims_;
  }
  if (dims_ == 0) {
    dims_ = 1;
    sizes_[0] = numel_;
    for (int k = 0; k < count_; ++k) strides_[k][0] = 1;
  }
}

bool Walk::is_linear(int k) const {
  int64_t expected = 1;
  for (int d = dims_ - 1; d >= 0; --d) {
    if (sizes_[d] != 1 && strides_[k][d] != expected) return false;
    expected *= sizes_[d];
  }
  return true;
}

// Calls run(offset, stride, count) for each run along the innermost dim.
template <class Run>
void Walk::each_run(int k, int64_t start, int64_t n, Run&& run) const {
  int64_t index[kMaxDims];
  int64_t rest = start, offset = 0;
  for (int d = dims_ - 1; d >= 0; --d) {
    index[d] = rest % sizes_[d];
    rest /= sizes_[d];
    offset += index[d] * strides_[k][d];
  }
  const int inner = dims_ - 1;
  const int64_t* strides = strides_[k];
  while (n > 0) {
    const int64_t count = std::min(n, sizes_[inner] - index[inner]);
    run(offset, strides[inner], count);
    n -= count;
    offset += count * strides[inner];
    index[inner] += count;
    for (int d = inner; d > 0 && index[d] == sizes_[d]; --d) {
      offset += strides[d - 1] - sizes_[d] * strides[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

void Walk::gather(int k, const char* data, size_t element_bytes, int64_t start, int64_t n,
                  LoadFn load, char* to, size_t to_bytes) const {
  each_run(k, start, n, [&](int64_t offset, int64_t stride, int64_t count) {
    load(data + offset * static_cast<int64_t>(element_bytes), stride, count, to);
    to += count * static_cast<int64_t>(to_bytes);
  });
}

void Walk::scatter(int k, char* data, size_t element_bytes, int64_t start, int64_t n, StoreFn store,
                   const char* from, size_t from_bytes) const {
  each_run(k, start, n, [&](int64_t offset, int64_t stride, int64_t count) {
    store(from, data + offset * static_cast<int64_t>(element_bytes), stride, count);
    from += count * static_cast<int64_t>(from_bytes);
  });
}

}  // namespace tensora::cpu::TENSORA_ISA
