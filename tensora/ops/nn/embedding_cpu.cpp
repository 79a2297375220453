// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/nn/embedding_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Indices in row-major order, checked.
std::vector<int64_t> read_indices(std::string_view op, const View& indices, int64_t rows) {
  std::vector<int64_t> result(static_cast<size_t>(indices.numel));
  View packed = indices;
  packed.dtype = kInt64;
  packed.data = result.data();
  packed.strides = contiguous_strides(indices.sizes);
  packed.update();
  copy_elements(indices, packed);
  for (int64_t index : result)
    if (index < 0 || index >= rows) [[unlikely]]
      fail(op, ": index ", index, " is out of bounds for dimension 0 with size ", rows);
  return result;
}

template <class T>
void copy_strided(const T* from, int64_t step, int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
}

void embedding_kernel(const KernelContext& context, const EmbeddingAttrs&) {
  const View &weight = context.input(0), &out = context.output();
  const std::vector<int64_t> indices = read_indices(context.op, context.input(1), weight.sizes[0]);
  const int64_t width = weight.sizes[1];
  visit_element_size(weight.dtype, [&]<class T>() {
    const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
    parallel_for(static_cast<int64_t>(indices.size()), items_per_task(bytes),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const T* const row =
                         weight.as<const T>() + indices[static_cast<size_t>(i)] * weight.strides[0];
                     T* const to = out.as<T>() + i * width;
                     if (weight.strides[1] == 1)
                       std::memcpy(to, row, static_cast<size_t>(bytes));
                     else
                       copy_strided(row, weight.strides[1], width, to);
                   }
                 });
  });
}

// The positions of each index, in order: those of index v are order[starts[v]] … of starts[v + 1].
struct Segments {
  std::vector<int64_t> starts, order;

  Segments(const std::vector<int64_t>& indices, int64_t count, int64_t padding)
      : starts(static_cast<size_t>(count) + 1), order(indices.size()) {
    for (int64_t index : indices) ++starts[static_cast<size_t>(index) + 1];
    for (size_t v = 1; v < starts.size(); ++v) starts[v] += starts[v - 1];
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < indices.size(); ++i)
      order[static_cast<size_t>(next[static_cast<size_t>(indices[i])]++)] = static_cast<int64_t>(i);
    padding_ = padding;
  }
  std::span<const int64_t> of(int64_t index) const {
    if (index == padding_) return {};
    const auto at = static_cast<size_t>(index);
    return {order.data() + starts[at], static_cast<size_t>(starts[at + 1] - starts[at])};
  }

 private:
  int64_t padding_;
};

template <class C>
void sum_rows(const KernelContext& context, const Segments& segments,
              const std::vector<int64_t>& rows, const std::vector<C>& scale) {
  constexpr int64_t kColumns = 1024;
  const View &grad = context.input(0), &out = context.output();
  const LoadFn load = load_fn<C>(grad.dtype);
  const StoreFn store = store_fn<C>(out.dtype);
  const auto bytes = static_cast<int64_t>(element_size(grad.dtype));
  const int64_t width = grad.sizes[1];
  parallel_for(out.sizes[0], items_per_task(width * bytes), [&](int64_t begin, int64_t end) {
    C sum[kColumns], row[kColumns];
    for (int64_t v = begin; v < end; ++v)
      for (int64_t first = 0; first < width; first += kColumns) {
        const int64_t n = std::min(kColumns, width - first);
        std::fill_n(sum, n, C(0));
        for (int64_t i : segments.of(v)) {
          const auto at = static_cast<size_t>(i);
          const int64_t from = rows.empty() ? i : rows[at];
          if (from < 0) continue;
          load(grad.as<const char>() + (from * grad.strides[0] + first * grad.strides[1]) * bytes,
               grad.strides[1], n, row);
          const C factor = scale.empty() ? C(1) : scale[at];
#pragma omp simd
          for (int64_t j = 0; j < n; ++j) sum[j] += row[j] * factor;
        }
        store(sum, out.as<char>() + (v * width + first) * bytes, 1, n);
      }
  });
}

template <class C>
std::vector<C> read_scale(const View* scale) {
  if (!scale) return {};
  std::vector<C> result(static_cast<size_t>(scale->numel));
  load_fn<C>(scale->dtype)(scale->data, scale->strides[0], scale->numel, result.data());
  return result;
}

void embedding_backward_kernel(const KernelContext& context, const EmbeddingBackwardAttrs& attrs) {
  const auto optional = [&](size_t i) { return i < context.in.size() ? context.in[i] : nullptr; };
  const Segments segments(read_indices(context.op, context.input(1), attrs.num_embeddings),
                          attrs.num_embeddings, attrs.padding_idx);
  std::vector<int64_t> rows;
  if (const View* const view = optional(2)) {
    rows.resize(static_cast<size_t>(view->numel));
    load_fn<int64_t>(view->dtype)(view->data, view->strides[0], view->numel, rows.data());
  }
  if (context.output().dtype == kFloat64)
    sum_rows<double>(context, segments, rows, read_scale<double>(optional(3)));
  else
    sum_rows<float>(context, segments, rows, read_scale<float>(optional(3)));
}

}  // namespace

void register_embedding_cpu() {
  embedding_op.set_kernel(DeviceType::cpu, embedding_kernel);
  embedding_backward_op.set_kernel(DeviceType::cpu, embedding_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
