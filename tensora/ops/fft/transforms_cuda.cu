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

/// How the lines of the last dim lie, if they lie evenly.
std::optional<FftLines> lines_of(const View& view) {
  const int last = view.dim() - 1;
  FftLines lines{view.sizes[last] == 1 ? 1 : view.strides[last], 0};
  int64_t count = 1;
  for (int d = last - 1; d >= 0; --d) {
    if (view.sizes[d] == 1) continue;
    if (count == 1) lines.distance = view.strides[d];
    if (view.strides[d] != lines.distance * count) return {};
    count *= view.sizes[d];
  }
  if (count == 1) lines.distance = view.sizes[last] * lines.step;
  if (lines.step < 1 || lines.distance < 1) return {};
  return lines;
}

/// Whether the elements are all that lies between the first and the last of them.
bool is_dense(const View& view) {
  int64_t reach = 1;
  for (int d = 0; d < view.dim(); ++d) {
    if (view.strides[d] < 1 && view.sizes[d] > 1) return false;
    reach += (view.sizes[d] - 1) * view.strides[d];
  }
  return reach == view.numel;
}

enum class Use : uint8_t { read, write };

/// Memory that cuFFT reads or writes: the array itself if cuFFT can tell how it lies, else a copy.
/// The last `dims` dims are transformed.
class Rows {
 public:
  Rows(const KernelContext& context, const View& array, int dims, Use use)
      : context_(context), array_(array), rows_(array) {
    const size_t alignment = 2 * element_size(real_dtype(array.dtype));
    const bool lies_well =
        dims == 1 ? lines_of(array) && (use == Use::read || is_dense(array)) : array.contiguous;
    if (lies_well && reinterpret_cast<uintptr_t>(array.data) % alignment == 0) return;
    memory_.emplace(context.device.index, array.bytes());
    rows_ = row_major(array, memory_->data());
    if (use == Use::read) copy_elements(context.op, array_, rows_);
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

/// Multiplies an array that is dense.
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

/// The same for one dim, where arrays may lie otherwise; `view` is the one of real numbers, if
/// there is one.
FftBatch lines_batch_of(const KernelContext& context, FftKind kind, const View& view,
                        const View& from, const View& to) {
  FftBatch batch = batch_of(context, kind, view, 1);
  if (from.contiguous && to.contiguous) return batch;
  batch.from = lines_of(from);
  batch.to = lines_of(to);
  return batch;
}

/// Complex transforms of `in` over the first `count` of the dims; `out` may be `in`.
void run_complex(const KernelContext& context, const View& in, const View& out, const Dims& dims,
                 int count, bool forward, double scale) {
  View from = in;
  for (int begin = 0; begin < count; begin += kMostDims) {
    Dims part;
    for (int i = begin; i < std::min(count, begin + kMostDims); ++i) part.push_back(dims[i]);
    const Rows source(context, with_last(from, part), part.size(), Use::read);
    const Rows result(context, with_last(out, part), part.size(), Use::write);
    const FftBatch batch =
        part.size() == 1
            ? lines_batch_of(context, FftKind::complex, result.view(), source.view(), result.view())
            : batch_of(context, FftKind::complex, result.view(), part.size());
    run_fft(batch, source.view().data, result.view().data, forward);
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
  const Rows source(context, with_last(context.input(0), {dims.back()}), 1, Use::read);
  const Rows result(context, with_last(context.output(), {dims.back()}), 1, Use::write);
  run_fft(lines_batch_of(context, FftKind::real_to_complex, source.view(), source.view(),
                         result.view()),
          source.view().data, result.view().data, true);
  scale_rows(context, result.view(), attrs.scale);
  result.write_back();
  run_complex(context, context.output(), context.output(), dims, others, true, 1);
}

/// Complex numbers in lines.
template <class C>
struct LinesOf {
  C* data;
  FftLines lines;

  __device__ C& at(int64_t line, int64_t k) const {
    return data[line * lines.distance + k * lines.step];
  }
};

/// Calls body(line, k) for all of `count` lines and k < length. Adjacent threads take adjacent
/// elements of a line, or, with `across`, of adjacent lines.
template <class Body>
__device__ void each_of_lines(int64_t count, int64_t length, bool across, const Body& body) {
  const int64_t fast = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (fast >= (across ? count : length)) return;
  for (int64_t slow = blockIdx.y; slow < (across ? length : count); slow += gridDim.y)
    across ? body(fast, slow) : body(slow, fast);
}

/// Of each line of n elements the first n / 2 + 1 are there: multiplies them, takes the conjugates
/// if that is asked for, and adds the others, which are conjugates of the first.
template <class C, class T>
__global__ void complete_lines(LinesOf<C> lines, int64_t count, int64_t n, T scale, bool conjugate,
                               bool across) {
  each_of_lines(count, n / 2 + 1, across, [&](int64_t line, int64_t k) {
    C value = lines.at(line, k);
    value.x *= scale;
    value.y *= conjugate ? -scale : scale;
    if (scale != 1 || conjugate) lines.at(line, k) = value;
    value.y = -value.y;
    if (k > 0 && n - k > k) lines.at(line, n - k) = value;
  });
}

/// Copies half spectra, multiplied, of lines of n elements to rows. What is its own conjugate is
/// real: its imaginary part becomes 0.
template <class C, class T>
__global__ void copy_half_lines(LinesOf<C> from, LinesOf<C> to, int64_t count, int64_t n, T scale,
                                bool across) {
  each_of_lines(count, n / 2 + 1, across, [&](int64_t line, int64_t k) {
    C value = from.at(line, k);
    value.x *= scale;
    value.y = k == 0 || 2 * k == n ? T(0) : value.y * scale;
    to.at(line, k) = value;
  });
}

constexpr int kLineThreads = 256;

dim3 blocks_of_lines(int64_t count, int64_t length, bool across) {
  const int64_t fast = across ? count : length, slow = across ? length : count;
  return dim3(static_cast<unsigned>((fast + kLineThreads - 1) / kLineThreads),
              static_cast<unsigned>(std::min<int64_t>(slow, 65535)));
}

/// Calls body.operator()<C, T>() with the types of a complex number and its parts.
template <class Body>
void visit_complex(DType dtype, Body&& body) {
  if (real_dtype(dtype) == DType::float64)
    body.template operator()<double2, double>();
  else
    body.template operator()<float2, float>();
}

void real_kernel(const KernelContext& context, const FftAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  const Dims dims = wrapped(context, attrs.dim);
  const Rows source(context, with_last(context.input(0), dims), 1, Use::read);
  const Rows result(context, with_last(out, dims), 1, Use::write);
  FftBatch batch = batch_of(context, FftKind::real_to_complex, source.view(), 1);
  batch.from = lines_of(source.view());
  batch.to = lines_of(result.view());
  run_fft(batch, source.view().data, result.view().data, true);
  const bool across = batch.to->distance < batch.to->step;
  const int64_t n = batch.sizes.back();
  visit_complex(out.dtype, [&]<class C, class T>() {
    Launch{context.op, context.device.index}(
        complete_lines<C, T>, blocks_of_lines(batch.count, n / 2 + 1, across), dim3(kLineThreads),
        LinesOf<C>{result.view().as<C>(), *batch.to}, batch.count, n, static_cast<T>(attrs.scale),
        !attrs.forward, across);
  });
  result.write_back();
}

/// `from`, whose last dim is half of a spectrum of n elements, times `scale`, to `rows`.
void copy_half(const KernelContext& context, const View& from, const View& rows, int64_t n,
               double scale) {
  const FftLines lines = *lines_of(from), packed = *lines_of(rows);
  const int64_t half = n / 2 + 1, count = rows.numel / half;
  const bool across = lines.distance < lines.step;
  visit_complex(rows.dtype, [&]<class C, class T>() {
    Launch{context.op, context.device.index}(
        copy_half_lines<C, T>, blocks_of_lines(count, half, across), dim3(kLineThreads),
        LinesOf<C>{from.as<C>(), lines}, LinesOf<C>{rows.as<C>(), packed}, count, n,
        static_cast<T>(scale), across);
  });
}

void c2r_kernel(const KernelContext& context, const InverseRealFftAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const Dims dims = wrapped(context, attrs.dim);
  const int others = dims.size() - 1;
  const View halves = with_last(in, {dims.back()});
  // A copy, because cuFFT destroys what it reads here.
  const Scratch memory(context.device.index, halves.bytes());
  const View rows = row_major(halves, memory.data());
  if (others > 0) {
    View middle = rows;  // with the dims of the input, in their order
    int d = 0;
    middle.sizes = in.sizes;
    for (int i = 0; i < in.dim(); ++i) middle.strides[i] = i == dims.back() ? 1 : rows.strides[d++];
    middle.update();
    run_complex(context, in, middle, dims, others, false, 1);
    copy_half(context, rows, rows, attrs.last_dim_size, attrs.scale);
  } else {
    const Rows source(context, halves, 1, Use::read);
    copy_half(context, source.view(), rows, attrs.last_dim_size, attrs.scale);
  }
  const Rows result(context, with_last(out, {dims.back()}), 1, Use::write);
  run_fft(lines_batch_of(context, FftKind::complex_to_real, result.view(), rows, result.view()),
          rows.data, result.view().data, false);
  result.write_back();
}

}  // namespace

void register_transforms_cuda() {
  fft_c2c_op.set_kernel(DeviceType::cuda, c2c_kernel);
  fft_r2c_op.set_kernel(DeviceType::cuda, r2c_kernel);
  fft_real_op.set_kernel(DeviceType::cuda, real_kernel);
  fft_c2r_op.set_kernel(DeviceType::cuda, c2r_kernel);
}

}  // namespace tensora::cuda
