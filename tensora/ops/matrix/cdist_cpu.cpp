// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/matrix/cdist.h"

#include "tensora/base/thread_pool.h"
#include "tensora/ops/matrix/cdist_values.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

using namespace distances;

/// Rows of a batch of matrices: where row i of matrix b starts, and how far its elements are apart.
template <class T>
class Rows {
 public:
  explicit Rows(const View& view) : view_(view), last_(view.dim() - 1) {}
  T* operator()(int64_t batch, int64_t row) const {
    int64_t offset = row * view_.strides[last_ - 1];
    for (int d = last_ - 2; d >= 0; --d) {
      offset += batch % view_.sizes[d] * view_.strides[d];
      batch /= view_.sizes[d];
    }
    return view_.as<T>() + offset;
  }
  int64_t count() const { return view_.sizes[last_ - 1]; }
  int64_t length() const { return view_.sizes[last_]; }
  int64_t stride() const { return view_.strides[last_]; }

 private:
  const View& view_;
  int last_;
};

template <class T, class N>
T distance(const N& norm, const T* a, int64_t a_stride, const T* b, int64_t b_stride,
           int64_t length) {
  constexpr int kLanes = 16;  // sums side by side: the loop is vectorised as it is written
  T lanes[kLanes] = {};
  int64_t k = 0;
  if (a_stride == 1 && b_stride == 1)
    for (; k + kLanes <= length; k += kLanes)
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane)
        lanes[lane] = norm.add(lanes[lane], a[k + lane] - b[k + lane]);
  T acc = 0;
  for (; k < length; ++k) acc = norm.add(acc, a[k * a_stride] - b[k * b_stride]);
  for (const T lane : lanes) acc = norm.combine(acc, lane);
  return norm.finish(acc);
}

template <class T>
void all_distances(const View& x1, const View& x2, const View& out, double p) {
  const Rows<const T> a(x1), b(x2);
  const Rows<T> to(out);
  const int64_t rows = a.count(), columns = b.count(), length = a.length();
  visit_norm<T>(p, [&](auto norm) {
    const int64_t grain = std::max<int64_t>(1, 32768 / (columns * (length + 1) + 1));
    parallel_for(out.numel / std::max<int64_t>(columns, 1), grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const T* const point = a(item / rows, item % rows);
        T* const result = to(item / rows, item % rows);
        for (int64_t j = 0; j < columns; ++j)
          result[j * to.stride()] =
              distance<T>(norm, point, a.stride(), b(item / rows, j), b.stride(), length);
      }
    });
  });
}

void cdist_kernel(const KernelContext& context, const CdistAttrs& attrs) {
  if (context.output().numel == 0) return;
  if (context.output().dtype == DType::float64)
    all_distances<double>(context.input(0), context.input(1), context.output(), attrs.p);
  else
    all_distances<float>(context.input(0), context.input(1), context.output(), attrs.p);
}

template <class T>
void all_slopes(const KernelContext& context, double p) {
  const Rows<const T> g(context.input(0)), a(context.input(1)), b(context.input(2)),
      distances(context.input(3));
  const View& out = context.output();
  const Rows<T> to(out);
  const int64_t rows = a.count(), columns = b.count(), length = a.length();
  visit_norm<T>(p, [&](auto norm) {
    const int64_t grain = std::max<int64_t>(1, 32768 / ((columns + 1) * length + 1));
    parallel_for(out.numel / length, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t batch = item / rows, row = item % rows;
        const T* const point = a(batch, row);
        const T *const grads = g(batch, row), *const lengths = distances(batch, row);
        T* const result = to(batch, row);
        for (int64_t k = 0; k < length; ++k) result[k * to.stride()] = 0;
        for (int64_t j = 0; j < columns; ++j) {
          const T grad = grads[j * g.stride()], apart = lengths[j * distances.stride()];
          const T* const other = b(batch, j);
#pragma omp simd
          for (int64_t k = 0; k < length; ++k)
            result[k * to.stride()] +=
                grad * norm.slope(point[k * a.stride()] - other[k * b.stride()], apart);
        }
      }
    });
  });
}

void cdist_backward_kernel(const KernelContext& context, const CdistAttrs& attrs) {
  if (context.output().numel == 0) return;
  if (context.output().dtype == DType::float64)
    all_slopes<double>(context, attrs.p);
  else
    all_slopes<float>(context, attrs.p);
}

}  // namespace

void register_cdist_cpu() {
  cdist_op.set_kernel(DeviceType::cpu, cdist_kernel);
  cdist_backward_op.set_kernel(DeviceType::cpu, cdist_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
