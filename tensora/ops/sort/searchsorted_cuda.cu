#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/sort/searchsorted_op.h"

namespace tensora::cuda {
namespace {

struct SearchParams {
  const char* sequence /* rows length */;
  const char* input;
  const int64_t* sorter;  // or null
  char* out;
  long long length, count, per_row;
  IndexLimits limits;  // of the sorter
  bool right, out_int32;
};

// As the CPU's: the comparisons are negated so that NaN goes to the end.
template <class T>
__global__ void __launch_bounds__(kThreads)
    search_sorted(const __grid_constant__ SearchParams params) {
  using C = accumulate_t<T>;
  const long long stride = static_cast<long long>(gridDim.x) * kThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < params.count;
       i += stride) {
    const long long row = params.per_row == params.count ? 0 : i / params.per_row * params.length;
    const T* const sequence = reinterpret_cast<const T*>(params.sequence) + row;
    const C value = load_value<C>(reinterpret_cast<const T*>(params.input)[i]);
    long long begin = 0, count = params.length;
    while (count > 0) {
      const long long half = count / 2;
      long long at = begin + half;
      if (params.sorter) {
        at = params.sorter[row + at];
        if (at < 0 || at >= params.length) {
          note_fault(params.limits.fault, params.limits.op, nullptr, at, params.length,
                     params.limits.dim);
          break;
        }
      }
      const C middle = load_value<C>(sequence[at]);
      const bool before = params.right ? !(middle > value) : !(middle >= value);
      begin = before ? begin + half + 1 : begin;
      count = before ? count - half - 1 : half;
    }
    if (params.out_int32)
      reinterpret_cast<int*>(params.out)[i] = static_cast<int>(begin);
    else
      reinterpret_cast<int64_t*>(params.out)[i] = begin;
  }
}

void searchsorted_kernel(const KernelContext& context, const SearchsortedAttrs& attrs) {
  const View &sequence = context.input(0), &input = context.input(1);
  if (input.numel == 0) return;
  check(context.output().data != sequence.data, context.op,
        "_: the result, of positions, cannot be stored in place");
  const int device = context.device.index;
  SearchParams params{};
  params.sequence = sequence.as<const char>();
  params.input = input.as<const char>();
  if (context.in.size() > 2 && context.in[2]) params.sorter = context.input(2).as<const int64_t>();
  params.out = context.output().as<char>();
  params.length = sequence.sizes.back();
  params.count = input.numel;
  params.per_row = sequence.dim() == 1 ? input.numel : input.sizes.back();
  params.limits = {context.op.data(), device_fault(device), 0, params.length, sequence.dim() - 1};
  params.right = attrs.right;
  params.out_int32 = attrs.out_int32;
  const int64_t blocks = std::min<int64_t>((input.numel + kThreads - 1) / kThreads, 1 << 30);
  visit_dtype(input.dtype, [&]<class T>() {
    Launch{context.op, device}(search_sorted<T>, dim3(static_cast<unsigned>(blocks)),
                               dim3(kThreads), params);
  });
}

}  // namespace

void register_searchsorted_cuda() {
  searchsorted_op.set_kernel(DeviceType::cuda, searchsorted_kernel);
}

}  // namespace tensora::cuda
