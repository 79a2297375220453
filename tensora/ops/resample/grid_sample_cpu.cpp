// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/resample/grid_sample.h"
#include "tensora/ops/resample/grid_taps.h"

#include "tensora/ops/pool/pool_cpu.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using resample::AxisTaps, resample::GridAxis;

constexpr int64_t kPlaces = 64;   // are sampled together
constexpr int64_t kChannels = 8;  // whose gradients one task collects

// Which elements a run of places reads. The taps of a place are those of depth, height and width,
// multiplied; `offset` is -1 outside of the input.
template <class C>
struct PlaceTaps {
  int64_t taps = 0, count = 0;
  std::vector<int64_t> offset;  // tap by tap, place after place
  std::vector<C> weight, slope[3];
  int64_t result[kPlaces];  // of a place, in elements from that of the first one and channel

  explicit PlaceTaps(int64_t most)
      : offset(static_cast<size_t>(most * kPlaces)), weight(offset.size()) {
    for (auto& list : slope) list.resize(offset.size());
  }
  static size_t at(int64_t tap, int64_t place) {
    return static_cast<size_t>(tap * kPlaces + place);
  }
};

// Views of the arrays with five dims; the grid's are N d h w coordinate.
template <class C>
class Sampler {
 public:
  Sampler(const View& input, const View& grid, const GridSampleAttrs& attrs)
      : grid_(grid), dims_(static_cast<int>(grid.sizes.back())), load_(load_fn<C>(grid.dtype)) {
    for (int k = 0; k < 3; ++k) {
      axes_[k] = {input.sizes[2 + k], attrs.mode, attrs.padding_mode, attrs.align_corners};
      strides_[k] = input.strides[2 + k];
      sizes_[k] = k < 3 - dims_ ? 1 : grid.sizes[1 + k - (3 - dims_)];
    }
    const int64_t per_axis = attrs.mode == resample::GridMode::nearest    ? 1
                             : attrs.mode == resample::GridMode::bilinear ? 2
                                                                          : 4;
    most_taps = dims_ == 2 ? per_axis * per_axis : per_axis * per_axis * per_axis;
  }
  int64_t places() const { return sizes_[0] * sizes_[1] * sizes_[2]; }
  int64_t most_taps;

  /// The taps of places [first, first + count) of batch entry n. `strides`: of depth, height and
  /// width in the array that goes with the grid.
  void find(int64_t n, int64_t first, int64_t count, const int64_t* strides,
            PlaceTaps<C>& to) const {
    to.count = count;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t at[3] = {(first + j) / (sizes_[1] * sizes_[2]),
                             (first + j) / sizes_[2] % sizes_[1], (first + j) % sizes_[2]};
      to.result[j] = at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
      C coordinate[3];
      read(n, at, coordinate);
      AxisTaps<C> axis[3];
      for (int k = 3 - dims_; k < 3; ++k) axis[k] = axes_[k].taps(coordinate[2 - k]);
      combine(axis, j, to);
    }
  }
  int64_t grid_offset(int64_t n, int64_t place) const {
    const int64_t at[3] = {place / (sizes_[1] * sizes_[2]), place / sizes_[2] % sizes_[1],
                           place % sizes_[2]};
    int64_t offset = n * grid_.strides[0];
    for (int k = 3 - dims_; k < 3; ++k) offset += at[k] * grid_.strides[1 + k - (3 - dims_)];
    return offset;
  }
  int dims() const { return dims_; }

 private:
  void read(int64_t n, const int64_t (&at)[3], C* to) const {
    const int64_t place = (at[0] * sizes_[1] + at[1]) * sizes_[2] + at[2];
    const auto bytes = static_cast<int64_t>(element_size(grid_.dtype));
    load_(grid_.as<const char>() + grid_offset(n, place) * bytes, grid_.strides.back(), dims_, to);
  }
  void combine(const AxisTaps<C> (&axis)[3], int64_t j, PlaceTaps<C>& to) const {
    int64_t tap = 0;
    for (int a = 0; a < axis[0].count; ++a)
      for (int b = 0; b < axis[1].count; ++b)
        for (int c = 0; c < axis[2].count; ++c, ++tap) {
          const size_t i = PlaceTaps<C>::at(tap, j);
          const bool inside =
              axis[0].index[a] >= 0 && axis[1].index[b] >= 0 && axis[2].index[c] >= 0;
          to.offset[i] = inside ? axis[0].index[a] * strides_[0] + axis[1].index[b] * strides_[1] +
                                      axis[2].index[c] * strides_[2]
                                : -1;
          const C d = axis[0].weight[a], h = axis[1].weight[b], w = axis[2].weight[c];
          to.weight[i] = d * h * w;
          to.slope[0][i] = d * h * axis[2].slope[c];  // by x, y and z
          to.slope[1][i] = d * axis[1].slope[b] * w;
          to.slope[2][i] = axis[0].slope[a] * h * w;
        }
    to.taps = tap;
  }

  const View& grid_;
  int dims_;
  LoadFn load_;
  GridAxis<C> axes_[3];
  int64_t strides_[3], sizes_[3];
};

template <class T, class C = accumulate_t<T>>
void sample(const View& input, const View& grid, const View& out, const GridSampleAttrs& attrs) {
  const Sampler<C> sampler(input, grid, attrs);
  const int64_t places = sampler.places(), runs = (places + kPlaces - 1) / kPlaces;
  const int64_t channels = out.sizes[1];
  const bool along_channels = runs_along_channels(input, out);
  parallel_for(out.sizes[0] * runs, 1, [&](int64_t begin, int64_t end) {
    PlaceTaps<C> taps(sampler.most_taps);
    std::vector<C> sums(static_cast<size_t>(std::max(kPlaces, along_channels ? channels : 0)));
    for (int64_t run = begin; run < end; ++run) {
      const int64_t n = run / runs, first = run % runs * kPlaces;
      sampler.find(n, first, std::min(kPlaces, places - first), out.strides.data() + 2, taps);
      const T* const from = input.as<const T>() + n * input.strides[0];
      T* const to = out.as<T>() + n * out.strides[0];
      if (along_channels) {
        for (int64_t j = 0; j < taps.count; ++j) {
          std::fill(sums.begin(), sums.end(), C(0));
          for (int64_t t = 0; t < taps.taps; ++t) {
            const size_t i = taps.at(t, j);
            if (taps.offset[i] < 0) continue;
            const T* const x = from + taps.offset[i];
            const C weight = taps.weight[i];
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c)
              sums[static_cast<size_t>(c)] += weight * convert_element<C>(x[c]);
          }
          for (int64_t c = 0; c < channels; ++c)
            to[taps.result[j] + c] = store_element<T>(sums[static_cast<size_t>(c)]);
        }
        continue;
      }
      for (int64_t c = 0; c < channels; ++c) {
        const T* const x = from + c * input.strides[1];
        std::fill(sums.begin(), sums.end(), C(0));
        for (int64_t t = 0; t < taps.taps; ++t) {
          const int64_t* const offset = taps.offset.data() + t * kPlaces;
          const C* const weight = taps.weight.data() + t * kPlaces;
          for (int64_t j = 0; j < taps.count; ++j)
            if (offset[j] >= 0)
              sums[static_cast<size_t>(j)] += weight[j] * convert_element<C>(x[offset[j]]);
        }
        for (int64_t j = 0; j < taps.count; ++j)
          to[taps.result[j] + c * out.strides[1]] = store_element<T>(sums[static_cast<size_t>(j)]);
      }
    }
  });
}

// The gradient of the input: each task owns the planes of a few channels. `out` is row-major.
template <class T, class C = accumulate_t<T>>
void collect_input(const View& grad, const View& grid, const View& out,
                   const GridSampleAttrs& attrs) {
  const Sampler<C> sampler(out, grid, attrs);
  const int64_t places = sampler.places(), channels = out.sizes[1];
  const int64_t plane = out.sizes[2] * out.sizes[3] * out.sizes[4];
  const int64_t blocks = (channels + kChannels - 1) / kChannels;
  parallel_for(out.sizes[0] * blocks, 1, [&](int64_t begin, int64_t end) {
    PlaceTaps<C> taps(sampler.most_taps);
    std::vector<C> sums(static_cast<size_t>(std::min(kChannels, channels) * plane));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t n = block / blocks, first_channel = block % blocks * kChannels;
      const int64_t count = std::min(kChannels, channels - first_channel);
      std::fill(sums.begin(), sums.end(), C(0));
      for (int64_t first = 0; first < places; first += kPlaces) {
        sampler.find(n, first, std::min(kPlaces, places - first), grad.strides.data() + 2, taps);
        for (int64_t c = 0; c < count; ++c) {
          const T* const g =
              grad.as<const T>() + n * grad.strides[0] + (first_channel + c) * grad.strides[1];
          C* const to = sums.data() + c * plane;
          for (int64_t j = 0; j < taps.count; ++j) {
            const C value = convert_element<C>(g[taps.result[j]]);
            for (int64_t t = 0; t < taps.taps; ++t) {
              const size_t i = taps.at(t, j);
              if (taps.offset[i] >= 0) to[taps.offset[i]] += taps.weight[i] * value;
            }
          }
        }
      }
      T* const to = out.as<T>() + n * out.strides[0] + first_channel * out.strides[1];
      for (int64_t i = 0; i < count * plane; ++i)
        to[i] = store_element<T>(sums[static_cast<size_t>(i)]);
    }
  });
}

// The gradient of the grid: places are independent.
template <class T, class C = accumulate_t<T>>
void collect_grid(const View& grad, const View& input, const View& grid, const View& out,
                  const GridSampleAttrs& attrs) {
  const Sampler<C> sampler(input, grid, attrs);
  const Sampler<C> target(input, out, attrs);  // places in `out` instead of in the grid
  const int64_t places = sampler.places(), runs = (places + kPlaces - 1) / kPlaces;
  parallel_for(grad.sizes[0] * runs, 1, [&](int64_t begin, int64_t end) {
    PlaceTaps<C> taps(sampler.most_taps);
    for (int64_t run = begin; run < end; ++run) {
      const int64_t n = run / runs, first = run % runs * kPlaces;
      sampler.find(n, first, std::min(kPlaces, places - first), grad.strides.data() + 2, taps);
      C sums[3][kPlaces] = {};
      for (int64_t c = 0; c < input.sizes[1]; ++c) {
        const T* const x = input.as<const T>() + n * input.strides[0] + c * input.strides[1];
        const T* const g = grad.as<const T>() + n * grad.strides[0] + c * grad.strides[1];
        for (int64_t j = 0; j < taps.count; ++j) {
          const C value = convert_element<C>(g[taps.result[j]]);
          for (int64_t t = 0; t < taps.taps; ++t) {
            const size_t i = taps.at(t, j);
            if (taps.offset[i] < 0) continue;
            const C part = value * convert_element<C>(x[taps.offset[i]]);
            for (int k = 0; k < 3; ++k) sums[k][j] += taps.slope[k][i] * part;
          }
        }
      }
      for (int64_t j = 0; j < taps.count; ++j) {
        T* const to = out.as<T>() + target.grid_offset(n, first + j);
        for (int k = 0; k < sampler.dims(); ++k)
          to[k * out.strides.back()] = store_element<T>(sums[k][j]);
      }
    }
  });
}

void grid_sample_kernel(const KernelContext& context, const GridSampleAttrs& attrs) {
  const int dims = context.input(0).dim() - 2;
  const View input = pool::as_five_dims(context.input(0), dims);
  const View out = pool::as_five_dims(context.output(), dims);
  if (out.numel == 0) return;
  visit_floating(out.dtype, context.op,
                 [&]<class T>() { sample<T>(input, context.input(1), out, attrs); });
}

void grid_sample_backward_kernel(const KernelContext& context, const GridSampleAttrs& attrs) {
  const int dims = context.input(1).dim() - 2;
  const View grad = pool::as_five_dims(context.input(0), dims);
  const View input = pool::as_five_dims(context.input(1), dims);
  const View out = pool::as_five_dims(context.output(0), dims);
  const View& grid = context.input(2);
  visit_floating(grad.dtype, context.op, [&]<class T>() {
    if (out.numel > 0) collect_input<T>(grad, grid, out, attrs);
    if (grid.numel > 0) collect_grid<T>(grad, input, grid, context.output(1), attrs);
  });
}

}  // namespace

void register_grid_sample_cpu() {
  grid_sample_op.set_kernel(DeviceType::cpu, grid_sample_kernel);
  grid_sample_backward_op.set_kernel(DeviceType::cpu, grid_sample_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
