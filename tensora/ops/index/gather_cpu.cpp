// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/index/gather.h"

#include "tensora/backend/cpu/parts.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/core/kernel.h"
#include "tensora/ops/index/scatter_combine.h"

// Note [Gather and scatter]
// All four ops pair `plain[i]` with `data[i, its dim-th entry replaced by index[i]]` for every i in
// the index's shape. The dims other than `dim` are divided among threads; along `dim` a thread
// works in order, so that the result of colliding writes does not depend on the number of threads.

namespace tensora::cpu::TENSORA_ISA {
namespace {

struct Triple {
  int64_t plain = 0, index = 0, data = 0;
};

struct Geometry {
  std::string_view op;
  int64_t limit = 0;  // the size of `dim` in the data
  int dim = 0;
  Shape sizes;  // of the index
  Strides plain, index, data;
  int64_t along = 0;  // the size of `dim` in the index
  int line_dim = 0;   // walked by the inner loop
  int64_t line = 1;

  Geometry(std::string_view name, const View& plain_view, const View& index_view,
           const View& data_view, int64_t wanted)
      : op(name),
        sizes(index_view.sizes),
        plain(plain_view.strides),
        index(index_view.strides),
        data(data_view.strides) {
    Shape data_sizes = data_view.sizes;
    const auto widen = [](Shape& shape, int64_t value) {
      if (shape.empty()) shape.push_back(value);
    };
    widen(sizes, 1);
    widen(data_sizes, 1);
    for (Strides* strides : {&plain, &index, &data}) widen(*strides, 1);
    dim = wrap_dim(wanted, sizes.size(), name);
    limit = data_sizes[dim];
    along = sizes[dim];
    line_dim = sizes.size() - 1;
    while (line_dim > 0 && sizes[line_dim] == 1) --line_dim;
    line = sizes[line_dim];
  }

  // Where a line begins; `number` counts the dims other than `dim` and `line_dim`.
  Triple line_start(int64_t number) const {
    Triple at;
    for (int d = sizes.size() - 1; d >= 0; --d) {
      if (d == dim || d == line_dim) continue;
      const int64_t digit = number % sizes[d];
      number /= sizes[d];
      at.plain += digit * plain[d];
      at.index += digit * index[d];
      at.data += digit * data[d];
    }
    return at;
  }
  int64_t checked(int64_t position) const {
    if (position < 0 || position >= limit) [[unlikely]]
      fail(op, ": index ", position, " is out of bounds for dimension ", dim, " with size ", limit);
    return position;
  }
};

// Elements [begin, end) of a line. If the line runs along `dim`, only the index moves in the data.
template <class Action, class T, class I, class D>
void walk_line(const Geometry& g, T* plain, const I* index, D* data, int64_t begin, int64_t end) {
  const int64_t plain_step = g.plain[g.line_dim], index_step = g.index[g.line_dim];
  const int64_t data_step = g.line_dim == g.dim ? 0 : g.data[g.line_dim];
  const int64_t stride = g.data[g.dim];
  for (int64_t i = begin; i < end; ++i) {
    const int64_t position = g.checked(static_cast<int64_t>(index[i * index_step]));
    Action::apply(plain[i * plain_step], data[position * stride + i * data_step]);
  }
}

template <class Action, class T, class I, class D>
void walk_all(const Geometry& g, T* plain, const I* index, D* data) {
  const int64_t total = g.sizes.numel();
  if (total == 0) return;
  constexpr int64_t kCost = 16;  // approximate bytes moved per element
  if (g.line_dim == g.dim) {
    parallel_for(total / g.line, items_per_task(g.line * kCost), [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        const Triple at = g.line_start(number);
        walk_line<Action>(g, plain + at.plain, index + at.index, data + at.data, 0, g.line);
      }
    });
    return;
  }
  parallel_for(total / g.along, items_per_task(g.along * kCost), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t first = begin % g.line, last = std::min(g.line, first + end - begin);
      const Triple at = g.line_start(begin / g.line);
      for (int64_t k = 0; k < g.along; ++k)
        walk_line<Action>(g, plain + at.plain + k * g.plain[g.dim],
                          index + at.index + k * g.index[g.dim], data + at.data, first, last);
      begin += last - first;
    }
  });
}

struct Read {
  template <class T>
  static void apply(T& plain, const T& data) {
    plain = data;
  }
};
struct Write {
  template <class T>
  static void apply(const T& plain, T& data) {
    data = plain;
  }
};
struct Sum {
  template <class T, class D>
  static void apply(const T& plain, D& data) {
    using Acc = accumulate_t<D>;
    data = static_cast<D>(static_cast<Acc>(data) + static_cast<Acc>(plain));
  }
};

struct Product {
  template <class T, class D>
  static void apply(const T& plain, D& data) {
    using Acc = accumulate_t<D>;
    data = static_cast<D>(static_cast<Acc>(data) * static_cast<Acc>(plain));
  }
};
/// NaN stays.
template <bool largest>
struct Extremum {
  template <class T, class D>
  static void apply(const T& plain, D& data) {
    const auto value = static_cast<accumulate_t<D>>(plain),
               old = static_cast<accumulate_t<D>>(data);
    if ((largest ? value > old : value < old) || value != value) data = static_cast<D>(value);
  }
};

template <class Action, class T, class D = T>
void walk(const KernelContext& context, const View& plain, const View& index, const View& data,
          int64_t dim) {
  const Geometry geometry(context.op, plain, index, data, dim);
  if (index.dtype == DType::int64)
    walk_all<Action>(geometry, plain.as<T>(), index.as<const int64_t>(), data.as<D>());
  else
    walk_all<Action>(geometry, plain.as<T>(), index.as<const int32_t>(), data.as<D>());
}

// Combines with `data`. Half types are combined in float: rounded at every step, a sum of ones
// would stop at 256 or 2,048.
template <class Action, class T>
void combine(const KernelContext& context, const View& plain, const View& index, const View& data,
             int64_t dim) {
  using Acc = accumulate_t<T>;
  if constexpr (std::is_same_v<Acc, float> && !std::is_same_v<T, float>) {
    const HostScratch<float> sums(data.numel);
    View wide = data;
    wide.data = sums.data();
    wide.dtype = kFloat32;
    wide.strides = contiguous_strides(data.sizes);
    wide.update();
    copy_elements(data, wide);
    walk<Action, T, float>(context, plain, index, wide, dim);
    copy_elements(wide, data);
  } else {
    walk<Action, T>(context, plain, index, data, dim);
  }
}

void add(const KernelContext& context, const View& plain, const View& index, const View& data,
         int64_t dim) {
  visit_computing(data.dtype,
                  [&]<class T>() { combine<Sum, T>(context, plain, index, data, dim); });
}

void gather_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  visit_element_size(out.dtype, [&]<class T>() {
    walk<Read, T>(context, out, context.input(1), context.input(0), attrs.dim);
  });
}

void gather_backward_kernel(const KernelContext& context, const GatherBackwardAttrs& attrs) {
  const View& out = context.output();
  zero_elements(out);
  add(context, context.input(0), context.input(1), out, attrs.dim);
}

void scatter_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.input(0), out);
  visit_element_size(out.dtype, [&]<class T>() {
    walk<Write, T>(context, context.input(2), context.input(1), out, attrs.dim);
  });
}

void scatter_add_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.input(0), out);
  add(context, context.input(2), context.input(1), out, attrs.dim);
}

void scatter_combine_kernel(const KernelContext& context, const ScatterCombineAttrs& attrs) {
  const View &index = context.input(1), &src = context.input(2), &out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.input(0), out);
  visit_dtype(out.dtype, [&]<class T>() {
    if (attrs.combine == Combine::prod)
      combine<Product, T>(context, src, index, out, attrs.dim);
    else if (attrs.combine == Combine::amax)
      combine<Extremum<true>, T>(context, src, index, out, attrs.dim);
    else
      combine<Extremum<false>, T>(context, src, index, out, attrs.dim);
  });
}

}  // namespace

void register_gather_cpu() {
  scatter_combine_op.set_kernel(DeviceType::cpu, scatter_combine_kernel);
  gather_op.set_kernel(DeviceType::cpu, gather_kernel);
  gather_backward_op.set_kernel(DeviceType::cpu, gather_backward_kernel);
  scatter_op.set_kernel(DeviceType::cpu, scatter_kernel);
  scatter_add_op.set_kernel(DeviceType::cpu, scatter_add_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
