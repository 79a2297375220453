// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/resample/interpolate.h"

#include "tensora/ops/resample/bands.h"

#include <limits>

#include "tensora/ops/pool/pool_cpu.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using resample::BandDim;

// The rows of one dim's matrix, or of its transpose: result i is mixed from `count` elements at
// `first`, with the weights at `weights`.
template <class C>
struct Bands {
  struct Row {
    int64_t first, count, weights;
  };
  std::vector<Row> rows;
  std::vector<C> weights;
  int64_t widest = 0;

  const C* weights_of(int64_t i) const {
    return weights.data() + rows[static_cast<size_t>(i)].weights;
  }
  const Row& row(int64_t i) const { return rows[static_cast<size_t>(i)]; }
};

template <class C>
Bands<C> bands_of(const BandDim& dim) {
  Bands<C> bands;
  const int64_t width = dim.width();
  bands.weights.resize(static_cast<size_t>(dim.out * width));
  for (int64_t o = 0; o < dim.out; ++o) {
    int64_t first, end;
    dim.range(o, first, end);
    dim.weights(o, bands.weights.data() + o * width);
    bands.rows.push_back({first, end - first, o * width});
    bands.widest = std::max(bands.widest, end - first);
  }
  return bands;
}

template <class C>
Bands<C> transposed(const Bands<C>& bands, int64_t in) {
  Bands<C> result;
  const auto out = static_cast<int64_t>(bands.rows.size());
  int64_t begin = 0, end = 0;  // the rows that contain column i
  for (int64_t i = 0; i < in; ++i) {
    while (begin < out && bands.row(begin).first + bands.row(begin).count <= i) ++begin;
    end = std::max(begin, end);
    while (end < out && bands.row(end).first <= i) ++end;
    result.rows.push_back({begin, end - begin, static_cast<int64_t>(result.weights.size())});
    for (int64_t o = begin; o < end; ++o)
      result.weights.push_back(bands.weights_of(o)[i - bands.row(o).first]);
    result.widest = std::max(result.widest, end - begin);
  }
  return result;
}

// The bands of a row where each has one or two entries, entry by entry, so that the loop over the
// row can be vectorised. A single entry stands twice, the second time with weight 0.
template <class C>
struct Pairs {
  std::vector<int32_t> left, right;
  std::vector<C> left_weight, right_weight;
  bool usable = false, single = true;

  void take(const Bands<C>& bands, int64_t in) {
    usable = bands.widest <= 2 && in <= std::numeric_limits<int32_t>::max();
    for (size_t i = 0; usable && i < bands.rows.size(); ++i) {
      const auto& row = bands.rows[i];
      const C* const weights = bands.weights_of(static_cast<int64_t>(i));
      usable = row.count > 0;
      if (!usable) break;
      if (row.count == 2) single = false;
      left.push_back(static_cast<int32_t>(row.first));
      right.push_back(static_cast<int32_t>(row.first + row.count - 1));
      left_weight.push_back(weights[0]);
      right_weight.push_back(row.count == 2 ? weights[1] : C(0));
    }
  }
};

template <class C>
class Resize {
 public:
  Resize(const View& in, const View& out, const std::array<BandDim, 3>& dims, bool transpose)
      : in_(in), out_(out) {
    for (size_t k = 0; k < 3; ++k) {
      bands_[k] = bands_of<C>(dims[k]);
      if (transpose) bands_[k] = transposed(bands_[k], dims[k].in);
    }
    pairs_.take(bands_[2], in_.size(4));
  }

  void run() const {
    const View& out = *out_.view;
    if (out.numel == 0) return;
    const int64_t taps = bands_[0].widest * bands_[1].widest;
    if (runs_along_channels(*in_.view, out))
      return each_position(out, taps * bands_[2].widest, [&](auto... at) { channels(at...); });
    const int64_t wide = out.sizes[4], from_wide = in_.size(4);
    // Mixing whole rows first costs `from_wide` for each of them; mixing elements, all taps.
    const bool rows_first = from_wide <= 2 * bands_[2].widest * wide && taps > 1;
    const int64_t cost = taps * std::max(wide, from_wide) + bands_[2].widest * wide;
    parallel_for(
        out.numel / wide, std::max<int64_t>(1, 16 * 1024 / cost), [&](int64_t begin, int64_t end) {
          std::vector<C> result(static_cast<size_t>(wide));
          std::vector<C> row(static_cast<size_t>(from_wide));
          std::vector<C> mixed(static_cast<size_t>(rows_first ? from_wide : 0));
          each_row(out, begin, end, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
            std::fill(result.begin(), result.end(), C(0));
            if (rows_first) {
              std::fill(mixed.begin(), mixed.end(), C(0));
              each_source(n, c, d, h, row.data(), [&](const C* x, C weight) {
                add_scaled(mixed.data(), x, weight, from_wide);
              });
              add_mixed(mixed.data(), C(1), result.data());
            } else {
              each_source(n, c, d, h, row.data(),
                          [&](const C* x, C weight) { add_mixed(x, weight, result.data()); });
            }
            out_.write(result.data(), out_.at(n, c, d, h, 0), 4, wide);
          });
        });
  }

 private:
  static void add_scaled(C* to, const C* x, C weight, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] += weight * x[j];
  }
  // Calls body(row, weight) for the source rows of row (d, h).
  template <class Body>
  void each_source(int64_t n, int64_t c, int64_t d, int64_t h, C* buffer, Body&& body) const {
    const auto &depth = bands_[0].row(d), &height = bands_[1].row(h);
    for (int64_t i = 0; i < depth.count; ++i)
      for (int64_t j = 0; j < height.count; ++j)
        body(in_.read(in_.at(n, c, depth.first + i, height.first + j, 0), 4, in_.size(4), buffer),
             bands_[0].weights_of(d)[i] * bands_[1].weights_of(h)[j]);
  }
  // Along the width: to[w] += weight * the mix of row x for w.
  void add_mixed(const C* x, C weight, C* to) const {
    const int64_t wide = out_.size(4);
    if (pairs_.usable) return add_pairs(x, weight, to, wide);
    const auto* const rows = bands_[2].rows.data();
    const C* const weights = bands_[2].weights.data();
    for (int64_t w = 0; w < wide; ++w) {
      const C* const from = x + rows[w].first;
      const C* const by = weights + rows[w].weights;
      C sum = 0;
      for (int64_t k = 0; k < rows[w].count; ++k) sum += by[k] * from[k];
      to[w] += weight * sum;
    }
  }
  void add_pairs(const C* x, C weight, C* to, int64_t wide) const {
    const int32_t *const left = pairs_.left.data(), *const right = pairs_.right.data();
    const C* const left_weight = pairs_.left_weight.data();
    const C* const right_weight = pairs_.right_weight.data();
    if (pairs_.single) {
#pragma omp simd
      for (int64_t w = 0; w < wide; ++w) to[w] += weight * left_weight[w] * x[left[w]];
      return;
    }
#pragma omp simd
    for (int64_t w = 0; w < wide; ++w)
      to[w] += weight * (left_weight[w] * x[left[w]] + right_weight[w] * x[right[w]]);
  }

  void channels(int64_t n, int64_t first, int64_t count, int64_t d, int64_t h, int64_t w) const {
    C sums[kChannelBlock], buffer[kChannelBlock];
    std::fill_n(sums, count, C(0));
    const auto &depth = bands_[0].row(d), &height = bands_[1].row(h), &width = bands_[2].row(w);
    for (int64_t i = 0; i < depth.count; ++i)
      for (int64_t j = 0; j < height.count; ++j) {
        const C outer = bands_[0].weights_of(d)[i] * bands_[1].weights_of(h)[j];
        for (int64_t k = 0; k < width.count; ++k) {
          const char* const from =
              in_.at(n, first, depth.first + i, height.first + j, width.first + k);
          add_scaled(sums, in_.read(from, 1, count, buffer), outer * bands_[2].weights_of(w)[k],
                     count);
        }
      }
    out_.write(sums, out_.at(n, first, d, h, w), 1, count);
  }

  Runs<C> in_, out_;
  Bands<C> bands_[3];
  Pairs<C> pairs_;
};

void run_resize(const KernelContext& context, const Shape& sizes, const ResizeAttrs& attrs,
                bool transpose) {
  const int dims = attrs.output_size.size();
  const View in = pool::as_five_dims(context.input(0), dims);
  const View out = pool::as_five_dims(context.output(), dims);
  const auto bands = resample::band_dims(sizes, attrs);
  if (in.dtype == kFloat64)
    Resize<double>(in, out, bands, transpose).run();
  else
    Resize<float>(in, out, bands, transpose).run();
}

void resize_kernel(const KernelContext& context, const ResizeAttrs& attrs) {
  run_resize(context, context.input(0).sizes, attrs, false);
}
void resize_backward_kernel(const KernelContext& context, const ResizeBackwardAttrs& attrs) {
  run_resize(context, attrs.sizes, attrs, true);
}

}  // namespace

void register_interpolate_cpu() {
  resize_op.set_kernel(DeviceType::cpu, resize_kernel);
  resize_backward_op.set_kernel(DeviceType::cpu, resize_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
