#include "tensora/ops/fft/transforms.h"

#include <algorithm>
#include <optional>

#include "tensora/backend/cuda/fft/fft.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

constexpr int kMostDims = 3;  // of one call of cuFFT

/// The view with some dims, counted from 0, behind the others.
View with_last(const View& view, const Dims& dims) {
  View result = view;
  result.sizes = result.strides = {};
  const auto take = [&](int64_t d) {
    result.sizes.push_back(view.sizes[static_cast<int>(d)]);
    result.strides.push_back(view.strides[static_cast<int>(d)]);
  };
  for (int d = 0; d < view.dim(); ++d)
    if (!dims.contains(d)) take(d);
  for (const int64_t d : dims) take(d);
  result.update();
  return result;
}

View row_major(const View& view, char* data) {
  View result = view;
  result.strides = contiguous_strides(view.sizes);
  result.update();
  result.data = data;
  return result;
}

/// Memory that cuFFT reads or writes: the array itself if it lies row by row, else a copy.
class Rows {
 public:
  Rows(const KernelContext& context, const View& array, bool is_read, bool always_copy = false)
      : context_(context), array_(array), rows_(array) {
    const size_t alignment = 2 * element_size(real_dtype(array.dtype));
    if (array.contiguous && !always_copy &&
        reinterpret_cast<uintptr_t>(array.data) % alignment == 0)
      return;
    memory_.emplace(context.device.index, array.bytes());
    rows_ = row_major(array, memory_->data());
    if (is_read) copy_elements(context.op, array_, rows_);
  }
  const View& view() const { return rows_; }
  void write_back() const {
    if (memory_) copy_elements(context_.op, rows_, array_);
  }

 private:
  const KernelContext& context_;
  View array_, rows_;
  std::optional<Scratch> memory_;
};

template <class T>
__global__ void scale_numbers(T* numbers, int64_t count, T factor) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    numbers[i] *= factor;
}

/// Multiplies an array that lies row by row.
void scale_rows(const KernelContext& context, const View& rows, double factor) {
  if (factor == 1 || rows.numel == 0) return;
  const int64_t count = rows.numel * (is_complex(rows.dtype) ? 2 : 1);
  constexpr int kThreads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>((count + kThreads - 1) / kThreads, 8192));
  const Launch launch{context.op, context.device.index};
  if (real_dtype(rows.dtype) == DType::float64)
    launch(scale_numbers<double>, dim3(blocks), dim3(kThreads), rows.as<double>(), count, factor);
  else
    launch(scale_numbers<float>, dim3(blocks), dim3(kThreads), rows.as<float>(), count,
           static_cast<float>(factor));
}

/// The arrays that the last dims of `view` make, which lies row by row.
FftBatch batch_of(const KernelContext& context, FftKind kind, const View& view, int dims) {
  FftBatch batch{context.op, context.device.index, kind, real_dtype(view.dtype)};
  for (int d = view.dim() - dims; d < view.dim(); ++d) batch.sizes.push_back(view.sizes[d]);
  batch.count = view.numel / batch.sizes.numel();
  return batch;
}

/// Complex transforms of `in` over the first `count` of the dims; `out` may be `in`.
void run_complex(const KernelContext& context, const View& in, const View& out, const Dims& dims,
                 int count, bool forward, double scale) {
  View from = in;
  for (int begin = 0; begin < count; begin += kMostDims) {
    Dims part;
    for (int i = begin; i < std::min(count, begin + kMostDims); ++i) part.push_back(dims[i]);
    const Rows source(context, with_last(from, part), true);
    const Rows result(context, with_last(out, part), false);
    run_fft(batch_of(context, FftKind::complex, result.view(), part.size()), source.view().data,
            result.view().data, forward);
    scale_rows(context, result.view(), begin + kMostDims >= count ? scale : 1);
    result.write_back();
    from = out;
  }
}

Dims wrapped(const KernelContext& context, const Dims& dims) {
  return wrap_dims(dims, context.output().dim(), context.op);
}

void c2c_kernel(const KernelContext& context, const FftAttrs& attrs) {
  if (context.output().numel == 0) return;
  run_complex(context, context.input(0), context.output(), wrapped(context, attrs.dim),
              attrs.dim.size(), attrs.forward, attrs.scale);
}

void r2c_kernel(const KernelContext& context, const RealFftAttrs& attrs) {
  if (context.output().numel == 0) return;
  const Dims dims = wrapped(context, attrs.dim);
  const int others = dims.size() - 1;
  const Rows source(context, with_last(context.input(0), {dims.back()}), true);
  const Rows result(context, with_last(context.output(), {dims.back()}), false);
  run_fft(batch_of(context, FftKind::real_to_complex, source.view(), 1), source.view().data,
          result.view().data, true);
  scale_rows(context, result.view(), attrs.scale);
  result.write_back();
  run_complex(context, context.output(), context.output(), dims, others, true, 1);
}

/// Zeros in the imaginary part of one element of each row: what is its own conjugate is real.
void clear_imaginary(const KernelContext& context, const View& rows, int64_t at) {
  View parts = parts_as_reals(rows);
  const int last = parts.dim() - 1;
  parts.data = parts.as<char>() +
               (at * parts.strides[last - 1] + 1) * static_cast<int64_t>(element_size(parts.dtype));
  parts.sizes.resize(last - 1);
  parts.strides.resize(last - 1);
  parts.update();
  fill_elements(context.op, parts, 0);
}

void c2r_kernel(const KernelContext& context, const InverseRealFftAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const Dims dims = wrapped(context, attrs.dim);
  const int others = dims.size() - 1;
  // A copy, because cuFFT destroys what it reads here.
  const Rows source(context, with_last(in, {dims.back()}), others == 0, true);
  if (others > 0) {
    View middle = source.view();  // with the dims of the input, in their order
    int d = 0;
    middle.sizes = in.sizes;
    const Strides strides = middle.strides;
    for (int i = 0; i < in.dim(); ++i) middle.strides[i] = i == dims.back() ? 1 : strides[d++];
    middle.update();
    run_complex(context, in, middle, dims, others, false, 1);
  }
  clear_imaginary(context, source.view(), 0);
  if (attrs.last_dim_size % 2 == 0)
    clear_imaginary(context, source.view(), attrs.last_dim_size / 2);
  const Rows result(context, with_last(out, {dims.back()}), false);
  run_fft(batch_of(context, FftKind::complex_to_real, result.view(), 1), source.view().data,
          result.view().data, false);
  scale_rows(context, result.view(), attrs.scale);
  result.write_back();
}

}  // namespace

void register_transforms_cuda() {
  fft_c2c_op.set_kernel(DeviceType::cuda, c2c_kernel);
  fft_r2c_op.set_kernel(DeviceType::cuda, r2c_kernel);
  fft_c2r_op.set_kernel(DeviceType::cuda, c2r_kernel);
}

}  // namespace tensora::cuda
