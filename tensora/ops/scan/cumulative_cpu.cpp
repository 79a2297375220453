// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/scan/cumulative.h"

#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Floats are accumulated in double: a running sum has no pairwise order to save it.
template <class C>
struct RunningSum {
  using Value = C;
  static constexpr int kInputs = 1;
  static C init() { return 0; }
  static C step(C state, const C* const (&in)[1], int64_t i) { return state + in[0][i]; }
};
template <class C>
struct RunningProduct {
  using Value = C;
  static constexpr int kInputs = 1;
  static C init() { return 1; }
  static C step(C state, const C* const (&in)[1], int64_t i) { return state * in[0][i]; }
};
template <class C>
struct RunningLinear {
  using Value = C;
  static constexpr int kInputs = 2;
  static C init() { return 0; }
  static C step(C state, const C* const (&in)[2], int64_t i) { return in[0][i] * state + in[1][i]; }
};

constexpr int64_t kTile = 512;
constexpr int kLinesTogether = 8;

/// An array whose dim `dim` is scanned. Its strides along that dim and along the last are `step`
/// and `across`.
struct Scanned {
  char* data;
  int64_t step, across, bytes;
  const View* view;

  Scanned(const View& of, int dim, bool reverse)
      : data(of.as<char>()),
        step(of.strides[dim]),
        across(of.strides.back()),
        bytes(static_cast<int64_t>(element_size(of.dtype))),
        view(&of) {
    if (!reverse || of.numel == 0) return;
    data += (of.sizes[dim] - 1) * step * bytes;
    step = -step;
  }
  // Where line number `line` begins, counted over all dims but those of `skipped`.
  char* line_at(int64_t line, uint32_t skipped) const {
    int64_t offset = 0;
    for (int d = view->dim() - 1; d >= 0; --d) {
      if (skipped >> d & 1) continue;
      offset += line % view->sizes[d] * view->strides[d];
      line /= view->sizes[d];
    }
    return data + offset * bytes;
  }
};

template <class F>
class Scan {
 public:
  using C = typename F::Value;
  static constexpr int kInputs = F::kInputs;

  Scan(const KernelContext& context, int dim, bool reverse)
      : dim_(dim), out_(context.output(), dim, reverse), store_(store_fn<C>(out_.view->dtype)) {
    for (int k = 0; k < kInputs; ++k) {
      const View& in = context.input(static_cast<size_t>(k));
      in_.push_back(Scanned(in, dim, reverse));
      load_[k] = load_fn<C>(in.dtype);
    }
  }

  void run() const {
    const View& out = *out_.view;
    if (out.numel == 0) return;
    const int64_t length = out.sizes[dim_];
    const int last = out.dim() - 1;
    const uint32_t skipped = 1u << dim_;
    if (dim_ == last) {
      const int64_t lines = out.numel / length;
      parallel_for(lines, std::max<int64_t>(kLinesTogether, 16 * 1024 / length),
                   [&](int64_t begin, int64_t end) {
                     int64_t line = begin;
                     for (; line + kLinesTogether <= end; line += kLinesTogether)
                       along<kLinesTogether>(line, skipped, length);
                     for (; line < end; ++line) along<1>(line, skipped, length);
                   });
      return;
    }
    // Adjacent lines together: the states of a block of them are kept while all advance along the
    // dim.
    const int64_t width = out.sizes[last], tiles = (width + kTile - 1) / kTile;
    const int64_t groups = out.numel / (length * width);
    parallel_for(groups * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t first = k % tiles * kTile;
        beside(k / tiles, skipped | 1u << last, length, first, std::min(kTile, width - first));
      }
    });
  }

 private:
  // Several lines at once: a sum has to wait for the one before it, but not for other lines'.
  template <int kLines>
  void along(int64_t line, uint32_t skipped, int64_t length) const {
    constexpr int64_t kPart = 128;
    C values[kLines][kInputs][kPart], results[kLines][kPart], state[kLines];
    const C* in[kLines][kInputs];
    char *from[kLines][kInputs], *to[kLines];
    for (int l = 0; l < kLines; ++l) {
      for (int k = 0; k < kInputs; ++k) {
        in[l][k] = values[l][k];
        from[l][k] = in_[k].line_at(line + l, skipped);
      }
      to[l] = out_.line_at(line + l, skipped);
      state[l] = F::init();
    }
    const bool stream = out_.step == 1 && streams(*out_.view, length);
    for (int64_t first = 0; first < length; first += kPart) {
      const int64_t n = std::min(kPart, length - first);
      for (int l = 0; l < kLines; ++l)
        for (int k = 0; k < kInputs; ++k) {
          const char* const part = from[l][k] + first * in_[k].step * in_[k].bytes;
          // Lines read in turns are more than a processor foresees.
          if (in_[k].step == 1)
            for (int64_t at = 0; at < kPart * in_[k].bytes; at += 64)
              __builtin_prefetch(part + 2 * kPart * in_[k].bytes + at);
          load_[k](part, in_[k].step, n, values[l][k]);
        }
      for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 8
        for (int l = 0; l < kLines; ++l) results[l][i] = state[l] = F::step(state[l], in[l], i);
      for (int l = 0; l < kLines; ++l) {
        char* const part = to[l] + first * out_.step * out_.bytes;
        if (!stream) {
          store_(results[l], part, out_.step, n);
          continue;
        }
        alignas(kStreamUnit) char narrow[kPart * sizeof(C)];
        store_(results[l], narrow, 1, n);
        copy_streaming(part, narrow, static_cast<size_t>(n * out_.bytes));
      }
    }
    if (stream) finish_streaming();
  }

  void beside(int64_t group, uint32_t skipped, int64_t length, int64_t first, int64_t n) const {
    C values[kInputs][kTile], state[kTile];
    const C* in[kInputs];
    for (int k = 0; k < kInputs; ++k) in[k] = values[k];
    std::fill_n(state, n, F::init());
    const auto place = [&](const Scanned& array, int64_t i) {
      return array.line_at(group, skipped) + (i * array.step + first * array.across) * array.bytes;
    };
    for (int64_t i = 0; i < length; ++i) {
      for (int k = 0; k < kInputs; ++k) load_[k](place(in_[k], i), in_[k].across, n, values[k]);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) state[j] = F::step(state[j], in, j);
      store_(state, place(out_, i), out_.across, n);
    }
  }

  int dim_;
  SmallVector<Scanned, 2> in_;
  Scanned out_;
  LoadFn load_[kInputs];
  StoreFn store_;
};

template <template <class> class F>
void cumulative_kernel(const KernelContext& context, const CumulativeAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (is_floating_point(out.dtype))
    Scan<F<double>>(context, dim, attrs.reverse).run();
  else
    Scan<F<int64_t>>(context, dim, attrs.reverse).run();
}

void linear_scan_kernel(const KernelContext& context, const LinearScanAttrs& attrs) {
  const int dim = wrap_dim(attrs.dim, context.output().dim(), context.op);
  Scan<RunningLinear<double>>(context, dim, attrs.reverse).run();
}

}  // namespace

void register_cumulative_cpu() {
  cumsum_op.set_kernel(DeviceType::cpu, cumulative_kernel<RunningSum>);
  cumprod_op.set_kernel(DeviceType::cpu, cumulative_kernel<RunningProduct>);
  linear_scan_op.set_kernel(DeviceType::cpu, linear_scan_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
