#include <algorithm>
#include <vector>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/shape/cat.h"

// Note [Arrays side by side]
// Contiguous arrays that are joined along a dim are rows of bytes side by side in the rows of the
// result: the dims before it make the number of rows, the others their widths. One kernel writes
// many of them, from the first byte of the result to the last, in the widest accesses that all
// widths and addresses allow.

namespace tensora::cuda {
namespace {

constexpr int kMostJoined = 32;  // in one launch

struct JoinParams {
  char* to;        // of the first array's row 0
  unsigned pitch;  // of the result's rows; this and the rest in accesses
  unsigned count;  // over all rows and arrays
  Divisor width;   // of all arrays together
  int arrays;
  const char* from[kMostJoined];
  unsigned end[kMostJoined];  // of the array's part of a row
};

template <class T>
__device__ inline const T* source_of(const JoinParams& params, unsigned row, unsigned column) {
  int k = 0;
  while (k + 1 < params.arrays && column >= params.end[k]) ++k;
  const unsigned begin = k == 0 ? 0 : params.end[k - 1];
  return reinterpret_cast<const T*>(params.from[k]) + size_t{row} * (params.end[k] - begin) +
         (column - begin);
}

constexpr unsigned kAccesses = 4;  // of a thread, in flight together

template <class T>
__global__ void __launch_bounds__(kThreads) join_rows(const __grid_constant__ JoinParams params) {
  const unsigned first = blockIdx.x * (kThreads * kAccesses) + threadIdx.x;
  T values[kAccesses];
  T* places[kAccesses];
#pragma unroll
  for (unsigned i = 0; i < kAccesses; ++i) {
    const unsigned at = first + i * kThreads;
    if (at >= params.count) continue;
    const unsigned row = params.width.divide(at), column = at - row * params.width.divisor;
    values[i] = *source_of<T>(params, row, column);
    places[i] = reinterpret_cast<T*>(params.to) + size_t{row} * params.pitch + column;
  }
#pragma unroll
  for (unsigned i = 0; i < kAccesses; ++i)
    if (first + i * kThreads < params.count) *places[i] = values[i];
}

/// Calls body.operator()<T>() with a type of `bytes` bytes.
template <class Body>
void visit_access(int64_t bytes, Body&& body) {
  if (bytes == 16)
    body.template operator()<uint4>();
  else if (bytes == 8)
    body.template operator()<uint2>();
  else if (bytes == 4)
    body.template operator()<unsigned>();
  else if (bytes == 2)
    body.template operator()<unsigned short>();
  else
    body.template operator()<unsigned char>();
}

/// See Note [Arrays side by side]. False, and nothing is queued, where it does not apply.
bool join(const KernelContext& context, int64_t rows) {
  const View& out = context.output();
  if (!out.contiguous || is_quantized(out.dtype) || out.numel == 0) return false;
  std::vector<const View*> arrays;
  const auto width_of = [&](const View& array) {
    return static_cast<int64_t>(array.bytes()) / rows;
  };
  auto together = reinterpret_cast<uintptr_t>(out.data);  // whose lowest bits tell the access
  for (const View* array : context.in) {
    if (array->numel == 0) continue;
    if (!array->contiguous || array->dtype != out.dtype) return false;
    arrays.push_back(array);
    together |= reinterpret_cast<uintptr_t>(array->data) | static_cast<uintptr_t>(width_of(*array));
  }
  const auto access = static_cast<int64_t>(std::min<uintptr_t>(16, together & (~together + 1)));
  constexpr int64_t kMost = int64_t{1} << 31;  // that a Divisor takes
  if (static_cast<int64_t>(out.bytes()) / access >= kMost) return false;
  JoinParams params{};
  params.to = out.as<char>();
  params.pitch = static_cast<unsigned>(width_of(out) / access);
  for (size_t begin = 0; begin < arrays.size(); begin += kMostJoined) {
    const size_t end = std::min<size_t>(arrays.size(), begin + kMostJoined);
    int64_t width = 0;
    params.arrays = 0;
    for (size_t i = begin; i < end; ++i) {
      width += width_of(*arrays[i]) / access;
      params.from[params.arrays] = arrays[i]->as<const char>();
      params.end[params.arrays++] = static_cast<unsigned>(width);
    }
    const DivisorNumbers numbers = divisor_numbers(width);
    params.width = {numbers.divisor, numbers.multiplier, numbers.shift};
    params.count = static_cast<unsigned>(width * rows);
    constexpr unsigned kPerBlock = kThreads * kAccesses;
    visit_access(access, [&]<class T>() {
      Launch{context.op, context.device.index}(
          join_rows<T>, dim3((params.count + kPerBlock - 1) / kPerBlock), dim3(kThreads), params);
    });
    params.to += width * access;
  }
  return true;
}

/// Of how many rows the dims before `dim` make the array.
int64_t rows_before(const View& view, int dim) {
  int64_t rows = 1;
  for (int d = 0; d < dim; ++d) rows *= view.sizes[d];
  return rows;
}

void cat_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (join(context, rows_before(out, dim))) return;
  int64_t start = 0;
  for (const View* from : context.in) {
    if (from->dim() != out.dim()) continue;  // the ignored empty ones
    copy_elements(context.op, *from, part_of(out, dim, start, 1, from->sizes[dim]));
    start += from->sizes[dim];
  }
}

void stack_kernel(const KernelContext& context, const CatAttrs& attrs) {
  const View& out = context.output();
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  if (join(context, rows_before(out, dim))) return;
  int64_t start = 0;
  for (const View* from : context.in) {
    View widened = *from;
    widened.sizes.insert(dim, 1);
    widened.strides.insert(dim, 1);
    widened.update();
    copy_elements(context.op, widened, part_of(out, dim, start++, 1, 1));
  }
}

}  // namespace

void register_cat_cuda() {
  cat_op.set_kernel(DeviceType::cuda, cat_kernel);
  stack_op.set_kernel(DeviceType::cuda, stack_kernel);
}

}  // namespace tensora::cuda
