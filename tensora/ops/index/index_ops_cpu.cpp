// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <vector>

#include "tensora/backend/cpu/parts.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/index/index_ops.h"

// Note [Indexed copies]
// Indexing pairs a plain array (the result, or the values to write) with an indexed one:
//   plain[outer, place, inner]  <->  indexed[outer, offset of place, inner]
// The offsets of all places are computed and checked first, so nothing is written when an index is
// wrong. Then runs of elements that are evenly spaced on both sides are moved. Writes are divided
// among threads by outer and inner only, never by place: a place that occurs twice is written in
// order, so results do not depend on the number of threads.

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Some dims walked on both sides at once, joined where both allow it.
struct Grid {
  int dims = 0;
  int64_t count = 1;
  int64_t sizes[kMaxDims] = {};
  int64_t plain[kMaxDims] = {}, indexed[kMaxDims] = {};

  void add(int64_t size, int64_t plain_stride, int64_t indexed_stride) {
    count *= size;
    if (size == 1) return;
    const bool joins = dims > 0 && plain[dims - 1] == plain_stride * size &&
                       indexed[dims - 1] == indexed_stride * size;
    if (!joins) sizes[dims++] = 1;
    sizes[dims - 1] *= size;
    plain[dims - 1] = plain_stride;
    indexed[dims - 1] = indexed_stride;
  }
  // Takes the innermost dim out of the grid.
  Grid take_last() {
    Grid last;
    if (dims == 0) return last;
    --dims;
    last.add(sizes[dims], plain[dims], indexed[dims]);
    count = last.count == 0 ? 0 : count / last.count;
    return last;
  }
  void offsets(int64_t i, int64_t& at_plain, int64_t& at_indexed) const {
    for (int d = dims - 1; d >= 0; --d) {
      const int64_t digit = d == 0 ? i : i % sizes[d];
      i /= sizes[d];
      at_plain += digit * plain[d];
      at_indexed += digit * indexed[d];
    }
  }
};

struct Plan {
  Grid outer, middle, inner;  // `middle` walks the places; its indexed offsets are in `places`
  Grid run;                   // the innermost dim of `inner`
  std::vector<int64_t> places;
};

template <class I>
void add_places(const View& index, const Shape& common, int64_t size, int64_t stride, int dim,
                Negative negative, std::string_view op, std::vector<int64_t>& places) {
  const Strides strides = broadcast_strides(index.sizes, index.strides, common);
  Grid grid;
  for (int d = 0; d < common.size(); ++d) grid.add(common[d], strides[d], 0);
  const Grid line = grid.take_last();
  const int64_t lowest = negative == Negative::wrapped ? -size : 0;
  size_t next = 0;
  for (int64_t row = 0; row < grid.count; ++row) {
    int64_t at = 0, unused = 0;
    grid.offsets(row, at, unused);
    const I* from = index.as<const I>() + at;
    for (int64_t i = 0; i < line.count; ++i) {
      const auto value = static_cast<int64_t>(from[i * line.plain[0]]);
      if (value < lowest || value >= size) [[unlikely]]
        fail(op, ": index ", value, " is out of bounds for dimension ", dim, " with size ", size);
      places[next++] += (value < 0 ? value + size : value) * stride;
    }
  }
}

Plan make_plan(std::string_view op, const View& plain, const View& indexed, const Dims& dims,
               Negative negative, std::span<const View* const> indices) {
  SmallVector<const Shape*, kMaxDims> index_sizes;
  for (const View* index : indices) index_sizes.push_back(&index->sizes);
  const IndexedShape shape =
      indexed_shape(indexed.sizes, dims, {index_sizes.data(), index_sizes.size()}, op);
  Plan plan;
  Shape common;
  for (int d = 0; d < plain.dim(); ++d) {
    const int within = d - shape.index_start;
    if (within >= 0 && within < shape.index_dims) {
      plan.middle.add(plain.sizes[d], plain.strides[d], 0);
      common.push_back(plain.sizes[d]);
      continue;
    }
    const auto source = static_cast<int>(shape.kept[within < 0 ? d : d - shape.index_dims]);
    Grid& grid = within < 0 ? plan.outer : plan.inner;
    grid.add(plain.sizes[d], plain.strides[d], indexed.strides[source]);
  }
  plan.run = plan.inner.take_last();
  plan.places.assign(static_cast<size_t>(common.numel()), 0);
  for (int i = 0; i < dims.size(); ++i) {
    const View& index = *indices[static_cast<size_t>(i)];
    const auto dim = static_cast<int>(dims[i]);
    const auto add = index.dtype == DType::int64 ? add_places<int64_t> : add_places<int32_t>;
    add(index, common, indexed.sizes[dim], indexed.strides[dim], dim, negative, op, plan.places);
  }
  return plan;
}

// What happens to an element, and to a run of them with its steps on both sides.
struct Read {
  template <class T>
  static void element(T& plain, const T& indexed) {
    plain = indexed;
  }
  template <class T>
  static void run(T* plain, T* indexed, int64_t n, int64_t plain_step, int64_t indexed_step) {
    if (plain_step == 1 && indexed_step == 1) {
      std::memcpy(plain, indexed, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    for (int64_t i = 0; i < n; ++i) plain[i * plain_step] = indexed[i * indexed_step];
  }
};

// Writing and adding; values are often expanded, so a step of 0 has its own loop.
template <class Action, class T>
void write_run(const T* plain, T* indexed, int64_t n, int64_t plain_step, int64_t indexed_step) {
  if (plain_step == 1 && indexed_step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) Action::element(plain[i], indexed[i]);
  } else if (plain_step == 0 && indexed_step == 1) {
    const T value = *plain;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) Action::element(value, indexed[i]);
  } else {
    for (int64_t i = 0; i < n; ++i)
      Action::element(plain[i * plain_step], indexed[i * indexed_step]);
  }
}
struct Write {
  template <class T>
  static void element(const T& plain, T& indexed) {
    indexed = plain;
  }
};
struct Accumulation {
  template <class T>
  static void element(const T& plain, T& indexed) {
    using Acc = accumulate_t<T>;
    indexed = T(static_cast<Acc>(indexed) + static_cast<Acc>(plain));
  }
};

// Places [begin, end) of one outer index, for results whose innermost dim is the places'.
template <class Action, class T>
void move_line(const Plan& plan, T* plain, T* indexed, int64_t begin, int64_t end) {
  const int64_t step = plan.middle.plain[0];
  const int64_t* const places = plan.places.data();
  if (step == 1) {
    for (int64_t b = begin; b < end; ++b) Action::element(plain[b], indexed[places[b]]);
    return;
  }
  for (int64_t b = begin; b < end; ++b) Action::element(plain[b * step], indexed[places[b]]);
}

template <class T>
void read_places(const Plan& plan, T* plain, T* indexed) {
  const auto places = static_cast<int64_t>(plan.places.size());
  const int64_t rows = plan.inner.count, length = plan.run.count;
  const bool is_line = rows == 1 && length == 1 && plan.middle.dims <= 1;
  const int64_t total = plan.outer.count * places * rows;
  const auto bytes = length * static_cast<int64_t>(sizeof(T));
  parallel_for(total, items_per_task(std::max<int64_t>(bytes, 8)), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t o = begin / (places * rows), within = begin % (places * rows);
      int64_t at_plain = 0, at_indexed = 0;
      plan.outer.offsets(o, at_plain, at_indexed);
      if (is_line) {
        const int64_t stop = std::min(places, within + end - begin);
        move_line<Read>(plan, plain + at_plain, indexed + at_indexed, within, stop);
        begin += stop - within;
        continue;
      }
      int64_t unused = 0;
      plan.middle.offsets(within / rows, at_plain, unused);
      plan.inner.offsets(within % rows, at_plain, at_indexed);
      at_indexed += plan.places[static_cast<size_t>(within / rows)];
      Read::run(plain + at_plain, indexed + at_indexed, length, plan.run.plain[0],
                plan.run.indexed[0]);
      ++begin;
    }
  });
}

template <class Action, class T>
void write_places(const Plan& plan, T* plain, T* indexed) {
  constexpr int64_t kColumns = 512;  // of a long run that one task takes
  const auto places = static_cast<int64_t>(plan.places.size());
  const int64_t rows = plan.inner.count, length = plan.run.count;
  const bool is_line = rows == 1 && length == 1 && plan.middle.dims <= 1;
  const int64_t blocks = (length + kColumns - 1) / kColumns;
  const int64_t units = plan.outer.count * rows * blocks;
  const int64_t work = places * std::min(length, kColumns) * static_cast<int64_t>(sizeof(T));
  parallel_for(units, items_per_task(std::max<int64_t>(work, 8)), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t at_plain = 0, at_indexed = 0;
      plan.outer.offsets(unit / (rows * blocks), at_plain, at_indexed);
      plan.inner.offsets(unit / blocks % rows, at_plain, at_indexed);
      if (is_line) {
        move_line<Action>(plan, plain + at_plain, indexed + at_indexed, 0, places);
        continue;
      }
      const int64_t column = unit % blocks * kColumns;
      at_plain += column * plan.run.plain[0];
      at_indexed += column * plan.run.indexed[0];
      for (int64_t b = 0; b < places; ++b) {
        int64_t place_plain = 0, unused = 0;
        plan.middle.offsets(b, place_plain, unused);
        write_run<Action>(plain + at_plain + place_plain,
                          indexed + at_indexed + plan.places[static_cast<size_t>(b)],
                          std::min(kColumns, length - column), plan.run.plain[0],
                          plan.run.indexed[0]);
      }
    }
  });
}

void add_at_places(const Plan& plan, const View& values, const View& out) {
  visit_computing(
      out.dtype, [&]<class T>() { write_places<Accumulation>(plan, values.as<T>(), out.as<T>()); });
}

void index_kernel(const KernelContext& context, const IndexAttrs& attrs) {
  const View &self = context.input(0), &out = context.output();
  const Plan plan =
      make_plan(context.op, out, self, attrs.dims, attrs.negative, context.in.subspan(1));
  if (out.numel == 0) return;
  visit_element_size(out.dtype, [&]<class T>() { read_places(plan, out.as<T>(), self.as<T>()); });
}

void index_backward_kernel(const KernelContext& context, const IndexBackwardAttrs& attrs) {
  const View &grad = context.input(0), &out = context.output();
  const Plan plan =
      make_plan(context.op, grad, out, attrs.dims, attrs.negative, context.in.subspan(1));
  zero_elements(out);
  if (grad.numel != 0) add_at_places(plan, grad, out);
}

void index_put_kernel(const KernelContext& context, const IndexPutAttrs& attrs) {
  const View &values = context.input(1), &out = context.output();
  const Plan plan =
      make_plan(context.op, values, out, attrs.dims, attrs.negative, context.in.subspan(2));
  if (context.input(0).data != out.data) copy_elements(context.input(0), out);
  if (values.numel == 0) return;
  if (attrs.accumulate) return add_at_places(plan, values, out);
  visit_element_size(out.dtype,
                     [&]<class T>() { write_places<Write>(plan, values.as<T>(), out.as<T>()); });
}

}  // namespace

void register_index_ops_cpu() {
  for (const auto* op : {&index_op, &index_select_op, &take_op})
    op->set_kernel(DeviceType::cpu, index_kernel);
  for (const auto* op : {&index_put_op, &index_add_op, &index_copy_op, &index_fill_op})
    op->set_kernel(DeviceType::cpu, index_put_kernel);
  index_backward_op.set_kernel(DeviceType::cpu, index_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
