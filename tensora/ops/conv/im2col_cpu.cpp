// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/conv/im2col.h"

#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/ops/conv/im2col_geometry.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

/// The blocks along one axis whose element `tap` lies inside of the image.
struct Inside {
  int64_t begin, end;
  int64_t offset;  // of that element from block * stride

  Inside(const BlockAxis& a, int64_t tap) : offset(tap * a.dilation - a.padding) {
    const auto first_from = [&](int64_t place) {
      const int64_t distance = place - offset;
      return distance <= 0 ? 0 : std::min(a.blocks, (distance + a.stride - 1) / a.stride);
    };
    begin = first_from(0);
    end = first_from(a.image);
  }
};

/// Every row of the result is one element of all blocks: rows of the image with gaps.
template <class T>
void gather_blocks(const View& in /* N C H W */, const View& out /* N C*kernel blocks */,
                   const BlockAxes& axes) {
  const BlockAxis &high = axes[0], &wide = axes[1];
  const int64_t kernel = high.kernel * wide.kernel, channels = in.sizes[1];
  const int64_t length = high.blocks * wide.blocks;
  const int64_t step = wide.stride * in.strides[3];
  parallel_for(
      in.sizes[0] * channels * kernel, items_per_task(length * static_cast<int64_t>(sizeof(T))),
      [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const int64_t tap = row % kernel, channel = row / kernel % channels;
          const Inside h(high, tap / wide.kernel), w(wide, tap % wide.kernel);
          const T* const plane =
              in.as<const T>() + row / kernel / channels * in.strides[0] + channel * in.strides[1];
          T* to = out.as<T>() + row * length;
          for (int64_t i = 0; i < high.blocks; ++i, to += wide.blocks) {
            if (i < h.begin || i >= h.end || w.begin == w.end) {
              std::fill_n(to, wide.blocks, T{});
              continue;
            }
            const T* const from = plane + (i * high.stride + h.offset) * in.strides[2] +
                                  (w.begin * wide.stride + w.offset) * in.strides[3];
            std::fill_n(to, w.begin, T{});
            if (step == 1)
              std::copy_n(from, w.end - w.begin, to + w.begin);
            else
              for (int64_t j = w.begin; j < w.end; ++j) to[j] = from[(j - w.begin) * step];
            std::fill_n(to + w.end, wide.blocks - w.end, T{});
          }
        }
      });
}

/// Row y of every plane gathers what the blocks hold of it, in order.
template <class T>
void add_blocks(const View& in /* N C*kernel blocks */, const View& out /* N C H W */,
                const BlockAxes& axes) {
  using C = accumulate_t<T>;
  const BlockAxis &high = axes[0], &wide = axes[1];
  const int64_t kernel = high.kernel * wide.kernel, channels = out.sizes[1];
  const int64_t lines = out.sizes[0] * channels * high.image, step = in.strides[2];
  parallel_for(lines, items_per_task(wide.image * kernel * 8), [&](int64_t first, int64_t last) {
    std::vector<C> sums(static_cast<size_t>(wide.image));
    for (int64_t line = first; line < last; ++line) {
      const int64_t y = line % high.image, channel = line / high.image % channels;
      const T* const columns = in.as<const T>() + line / high.image / channels * in.strides[0] +
                               channel * kernel * in.strides[1];
      std::fill(sums.begin(), sums.end(), C(0));
      for (int64_t tap = 0; tap < kernel; ++tap) {
        const Inside h(high, tap / wide.kernel), w(wide, tap % wide.kernel);
        const int64_t distance = y - h.offset;
        if (distance < 0 || distance % high.stride != 0) continue;
        const int64_t i = distance / high.stride;
        if (i < h.begin || i >= h.end) continue;
        const T* const from = columns + tap * in.strides[1] + i * wide.blocks * step;
        C* const to = sums.data() + w.offset;
        if (wide.stride == 1 && step == 1) {
#pragma omp simd
          for (int64_t j = w.begin; j < w.end; ++j) to[j] += convert_element<C>(from[j]);
        } else {
          for (int64_t j = w.begin; j < w.end; ++j)
            to[j * wide.stride] += convert_element<C>(from[j * step]);
        }
      }
      T* const to = out.as<T>() + line * wide.image;
#pragma omp simd
      for (int64_t x = 0; x < wide.image; ++x)
        to[x] = store_element<T>(sums[static_cast<size_t>(x)]);
    }
  });
}

void im2col_kernel(const KernelContext& context, const Im2colAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const BlockAxes axes = block_axes({in.sizes[2], in.sizes[3]}, attrs);
  visit_element_size(out.dtype, [&]<class T>() { gather_blocks<T>(in, out, axes); });
}

void col2im_kernel(const KernelContext& context, const Col2imAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const BlockAxes axes =
      block_axes({out.sizes[2], out.sizes[3]},
                 {attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride});
  visit_computing(out.dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) add_blocks<T>(in, out, axes);
  });
}

}  // namespace

void register_im2col_cpu() {
  im2col_op.set_kernel(DeviceType::cpu, im2col_kernel);
  col2im_op.set_kernel(DeviceType::cpu, col2im_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
