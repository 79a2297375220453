#include "tensora/ops/loss/cross_entropy_op.h"

#include <algorithm>
#include <limits>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/base/math.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 1024;      // classes of a row in cache
constexpr int64_t kColumns = 256;    // targets whose logits lie side by side
constexpr int64_t kGrain = 1 << 14;  // logits per task

// Logits [N, C, I] and class numbers [N, I]; strides in elements.
struct Logits {
  const View& x;
  const View& target;
  std::string_view op;
  int64_t classes, inner, rows;  // rows = N * I
  int64_t batch_step, class_step, inner_step;
  int64_t bytes;
  int64_t ignore_index;

  Logits(const KernelContext& context, const View& logits, const View& places,
         const CrossEntropyAttrs& attrs)
      : x(logits),
        target(places),
        op(context.op),
        classes(logits.sizes[1]),
        inner(logits.dim() == 3 ? logits.sizes[2] : 1),
        rows(logits.sizes[0] * inner),
        batch_step(logits.strides[0]),
        class_step(logits.strides[1]),
        inner_step(logits.dim() == 3 ? logits.strides[2] : 0),
        bytes(static_cast<int64_t>(element_size(logits.dtype))),
        ignore_index(attrs.ignore_index) {}

  // Byte offset of class 0 of a row in an array with the logits' shape.
  int64_t offset(const View& array, int64_t row) const {
    const int64_t within = array.dim() == 3 ? row % inner * array.strides[2] : 0;
    return (row / inner * array.strides[0] + within) * bytes;
  }
  // -1 where ignored.
  int64_t place(int64_t row) const {
    const int64_t within = target.dim() == 2 ? row % inner * target.strides[1] : 0;
    const int64_t at = row / inner * target.strides[0] + within;
    const int64_t y =
        target.dtype == kInt64 ? target.as<const int64_t>()[at] : target.as<const int32_t>()[at];
    if (y == ignore_index) return -1;
    if (y < 0 || y >= classes) [[unlikely]]
      fail(op, ": target ", y, " is out of bounds for ", classes, " classes");
    return y;
  }
  // Whether the targets that are adjacent lie closer together than the classes.
  bool in_columns() const { return inner > 1 && class_step != 1 && class_step != 0; }
};

template <class C>
struct Terms {
  const C* weight;  // per class, or null
  int64_t weight_step;
  C share, even;  // of the smoothed part: in all, and of each class
  C total;        // the sum of all weights

  Terms(const View* factors, const View* sum, int64_t classes, double smoothing)
      : weight(factors ? factors->as<const C>() : nullptr),
        weight_step(factors ? factors->strides[0] : 0),
        share(static_cast<C>(smoothing)),
        even(static_cast<C>(classes > 0 ? smoothing / static_cast<double>(classes) : 0)),
        total(sum ? *sum->as<const C>() : static_cast<C>(classes)) {}
  C of(int64_t c) const { return weight ? weight[c * weight_step] : C(1); }
};

template <class C>
struct Results {
  C *loss, *weight, *largest, *log_sum;

  /// `dot` is the weighted sum of logit - base.
  void store(int64_t row, int64_t y, C top, C log_of_sum, C logit, C base, C dot,
             const Terms<C>& terms) const {
    largest[row] = top;
    log_sum[row] = log_of_sum;
    weight[row] = y < 0 ? C(0) : terms.of(y);
    loss[row] = y < 0 ? C(0) : (1 - terms.share) * terms.of(y) * (log_of_sum + (top - logit));
    if (y >= 0 && terms.share > 0)
      loss[row] += terms.even * ((log_of_sum + (top - base)) * terms.total - dot);
  }
};

// What logits are relative to in the weighted sum of them all, so that large ones keep their
// digits.
template <class C>
C base_of(C first) {
  return math::isfinite(first) ? first : C(0);
}

// log(sum(exp(x))) as it is accumulated: the largest x so far, and the sum relative to it.
template <class C>
struct Running {
  C largest = -std::numeric_limits<C>::infinity(), base = 0;
  double sum = 0, dot = 0;

  void add(const C* values, int64_t n) {
    C top = largest;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; ++i) top = values[i] > top ? values[i] : top;
    if (top > largest) {
      sum *= static_cast<double>(math::exp(largest - top));
      largest = top;
    }
    const C shift = largest == -std::numeric_limits<C>::infinity() ? C(0) : largest;
    C part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = 0; i < n; ++i) part += math::exp(values[i] - shift);
    sum += static_cast<double>(part);
  }
  void add_weighted(const C* values, int64_t first, int64_t n, const Terms<C>& terms) {
    if (first == 0 && n > 0) base = base_of(values[0]);
    C part = 0;
    if (terms.weight) {
      for (int64_t i = 0; i < n; ++i) part += (values[i] - base) * terms.of(first + i);
    } else {
#pragma omp simd reduction(+ : part)
      for (int64_t i = 0; i < n; ++i) part += values[i] - base;
    }
    dot += static_cast<double>(part);
  }
  // NaN where the largest is infinite, as in log_softmax.
  C log_sum() const { return static_cast<C>(math::log(sum)) + (largest - largest); }
};

template <class C>
void forward_rows(const Logits& logits, const Terms<C>& terms, const Results<C>& results) {
  const LoadFn load = load_fn<C>(logits.x.dtype);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, logits.classes));
  parallel_for(logits.rows, grain, [&](int64_t begin, int64_t end) {
    C tile[kTile];
    for (int64_t row = begin; row < end; ++row) {
      const char* const from = logits.x.as<const char>() + logits.offset(logits.x, row);
      const int64_t y = logits.place(row);
      const int64_t step = logits.class_step * logits.bytes;
      Running<C> running;
      C logit = 0;
      for (int64_t first = 0; first < logits.classes; first += kTile) {
        const int64_t n = std::min(kTile, logits.classes - first);
        load(from + first * step, logits.class_step, n, tile);
        running.add(tile, n);
        if (terms.share > 0) running.add_weighted(tile, first, n, terms);
        if (y >= first && y < first + n) logit = tile[y - first];
      }
      results.store(row, y, running.largest, running.log_sum(), logit, running.base,
                    static_cast<C>(running.dot), terms);
    }
  });
}

// Blocks of adjacent targets, class by class: once for the largest, and once more, from cache, for
// the sums.
template <class C>
void forward_columns(const Logits& logits, const Terms<C>& terms, const Results<C>& results) {
  const LoadFn load = load_fn<C>(logits.x.dtype);
  const int64_t blocks = (logits.inner + kColumns - 1) / kColumns;
  const int64_t step = logits.class_step * logits.bytes;
  parallel_for(logits.x.sizes[0] * blocks, 1, [&](int64_t begin, int64_t end) {
    C tile[kColumns], largest[kColumns], sum[kColumns], base[kColumns], dot[kColumns],
        logit[kColumns];
    int64_t places[kColumns];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block % blocks * kColumns;
      const int64_t n = std::min(kColumns, logits.inner - first);
      const int64_t row = block / blocks * logits.inner + first;
      const char* const from = logits.x.as<const char>() + logits.offset(logits.x, row);
      for (int64_t i = 0; i < n; ++i) {
        largest[i] = -std::numeric_limits<C>::infinity();
        sum[i] = base[i] = dot[i] = logit[i] = 0;
        places[i] = logits.place(row + i);
      }
      for (int64_t c = 0; c < logits.classes; ++c) {
        load(from + c * step, logits.inner_step, n, tile);
        if (c == 0)
          for (int64_t i = 0; i < n; ++i) base[i] = base_of(tile[i]);
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) largest[i] = tile[i] > largest[i] ? tile[i] : largest[i];
      }
      for (int64_t c = 0; c < logits.classes; ++c) {
        load(from + c * step, logits.inner_step, n, tile);
        const C weight = terms.of(c);
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          sum[i] += math::exp(tile[i] - largest[i]);
          dot[i] += (tile[i] - base[i]) * weight;
          logit[i] = places[i] == c ? tile[i] : logit[i];
        }
      }
      for (int64_t i = 0; i < n; ++i)
        results.store(row + i, places[i], largest[i], math::log(sum[i]), logit[i], base[i], dot[i],
                      terms);
    }
  });
}

// One row, or a block of columns of one class: exp(x - largest) * scale - even, with what is taken
// off the target.
template <class C>
struct Slopes {
  C strength = 0, scale = 0, even = 0;

  Slopes() = default;
  Slopes(C grad, int64_t y, C log_sum, const Terms<C>& terms) {
    if (y < 0) return;
    strength = grad * (1 - terms.share) * terms.of(y);
    even = grad * terms.even;
    scale = (strength + even * terms.total) * math::exp(-log_sum);
  }
};

template <class C>
void backward_rows(const Logits& logits, const Terms<C>& terms, const C* grad, const C* largest,
                   const C* log_sum, const View& out) {
  const LoadFn load = load_fn<C>(logits.x.dtype);
  const StoreFn store = store_fn<C>(out.dtype);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, logits.classes));
  const int64_t step = logits.class_step * logits.bytes, out_step = out.strides[1] * logits.bytes;
  parallel_for(logits.rows, grain, [&](int64_t begin, int64_t end) {
    C tile[kTile];
    for (int64_t row = begin; row < end; ++row) {
      const char* const from = logits.x.as<const char>() + logits.offset(logits.x, row);
      char* const to = out.as<char>() + logits.offset(out, row);
      const int64_t y = logits.place(row);
      const Slopes<C> slopes(grad[row], y, log_sum[row], terms);
      const C shift = largest[row];
      for (int64_t first = 0; first < logits.classes; first += kTile) {
        const int64_t n = std::min(kTile, logits.classes - first);
        if (y < 0) {
          std::fill_n(tile, n, C(0));
        } else {
          load(from + first * step, logits.class_step, n, tile);
#pragma omp simd
          for (int64_t i = 0; i < n; ++i) tile[i] = math::exp(tile[i] - shift) * slopes.scale;
          if (terms.share > 0)
            for (int64_t i = 0; i < n; ++i) tile[i] -= slopes.even * terms.of(first + i);
          if (y >= first && y < first + n) tile[y - first] -= slopes.strength;
        }
        store(tile, to + first * out_step, out.strides[1], n);
      }
    }
  });
}

template <class C>
void backward_columns(const Logits& logits, const Terms<C>& terms, const C* grad, const C* largest,
                      const C* log_sum, const View& out) {
  const LoadFn load = load_fn<C>(logits.x.dtype);
  const StoreFn store = store_fn<C>(out.dtype);
  const int64_t blocks = (logits.inner + kColumns - 1) / kColumns;
  const int64_t step = logits.class_step * logits.bytes, out_step = out.strides[1] * logits.bytes;
  parallel_for(logits.x.sizes[0] * blocks, 1, [&](int64_t begin, int64_t end) {
    C tile[kColumns], strength[kColumns], scale[kColumns], even[kColumns];
    int64_t places[kColumns];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block % blocks * kColumns;
      const int64_t n = std::min(kColumns, logits.inner - first);
      const int64_t row = block / blocks * logits.inner + first;
      const char* const from = logits.x.as<const char>() + logits.offset(logits.x, row);
      char* const to = out.as<char>() + logits.offset(out, row);
      for (int64_t i = 0; i < n; ++i) {
        places[i] = logits.place(row + i);
        const Slopes<C> slopes(grad[row + i], places[i], log_sum[row + i], terms);
        strength[i] = slopes.strength;
        scale[i] = slopes.scale;
        even[i] = slopes.even;
      }
      for (int64_t c = 0; c < logits.classes; ++c) {
        load(from + c * step, logits.inner_step, n, tile);
        const C weight = terms.of(c);
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
          const C value = math::exp(tile[i] - largest[row + i]) * scale[i] - even[i] * weight -
                          (places[i] == c ? strength[i] : C(0));
          tile[i] = places[i] < 0 ? C(0) : value;
        }
        store(tile, to + c * out_step, out.strides[2], n);
      }
    }
  });
}

// Per-row inputs in row-major order; the gradient of a sum is one number repeated.
template <class C>
class PerRow {
 public:
  explicit PerRow(const View& view) {
    if (view.contiguous) {
      data_ = view.as<const C>();
      return;
    }
    copy_.resize(static_cast<size_t>(view.numel));
    View packed = view;
    packed.data = copy_.data();
    packed.strides = contiguous_strides(view.sizes);
    packed.update();
    copy_elements(view, packed);
    data_ = copy_.data();
  }
  const C* data() const { return data_; }

 private:
  std::vector<C> copy_;
  const C* data_ = nullptr;
};

const View* optional(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

template <class Body>
void visit_wide(DType dtype, Body&& body) {
  if (dtype == kFloat64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

void cross_entropy_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  const Logits logits(context, context.input(0), context.input(1), attrs);
  visit_wide(context.output().dtype, [&]<class C>() {
    const Terms<C> terms(optional(context, 2), optional(context, 3), logits.classes,
                         attrs.label_smoothing);
    const Results<C> results{context.output(0).as<C>(), context.output(1).as<C>(),
                             context.output(2).as<C>(), context.output(3).as<C>()};
    if (logits.in_columns())
      forward_columns(logits, terms, results);
    else
      forward_rows(logits, terms, results);
  });
}

void cross_entropy_backward_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  const Logits logits(context, context.input(1), context.input(2), attrs);
  visit_wide(context.input(0).dtype, [&]<class C>() {
    const Terms<C> terms(optional(context, 5), optional(context, 6), logits.classes,
                         attrs.label_smoothing);
    const PerRow<C> grad(context.input(0)), largest(context.input(3)), log_sum(context.input(4));
    if (logits.in_columns())
      backward_columns(logits, terms, grad.data(), largest.data(), log_sum.data(),
                       context.output());
    else
      backward_rows(logits, terms, grad.data(), largest.data(), log_sum.data(), context.output());
  });
}

void nll_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  const Logits logits(context, context.input(0), context.input(1), attrs);
  visit_wide(context.output().dtype, [&]<class C>() {
    const Terms<C> terms(optional(context, 2), nullptr, logits.classes, 0);
    const LoadFn load = load_fn<C>(logits.x.dtype);
    C *const loss = context.output(0).as<C>(), *const weight = context.output(1).as<C>();
    parallel_for(logits.rows, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t y = logits.place(row);
        weight[row] = loss[row] = 0;
        if (y < 0) continue;
        C logit = 0;
        load(logits.x.as<const char>() + logits.offset(logits.x, row) +
                 y * logits.class_step * logits.bytes,
             1, 1, &logit);
        weight[row] = terms.of(y);
        loss[row] = -terms.of(y) * logit;
      }
    });
  });
}

void nll_backward_kernel(const KernelContext& context, const CrossEntropyAttrs& attrs) {
  const Logits logits(context, context.input(1), context.input(2), attrs);
  const View& out = context.output();
  zero_elements(out);
  visit_wide(context.input(0).dtype, [&]<class C>() {
    const Terms<C> terms(optional(context, 3), nullptr, logits.classes, 0);
    const StoreFn store = store_fn<C>(out.dtype);
    const PerRow<C> grad(context.input(0));
    parallel_for(logits.rows, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t y = logits.place(row);
        if (y < 0) continue;
        const C value = -terms.of(y) * grad.data()[row];
        store(&value, out.as<char>() + logits.offset(out, row) + y * out.strides[1] * logits.bytes,
              1, 1);
      }
    });
  });
}

}  // namespace

void register_cross_entropy_cpu() {
  cross_entropy_op.set_kernel(DeviceType::cpu, cross_entropy_kernel);
  cross_entropy_backward_op.set_kernel(DeviceType::cpu, cross_entropy_backward_kernel);
  nll_op.set_kernel(DeviceType::cpu, nll_kernel);
  nll_backward_op.set_kernel(DeviceType::cpu, nll_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
