#include <vector>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/optim/grad_scale_op.h"
#include "tensora/ops/optim/tensor_list.cuh"

namespace tensora::cuda {
namespace {

// Multiplies a pack by `factor`, if that is not 1, and returns whether all of it was finite.
template <class C>
__device__ inline bool scale_pack(const ListEntry& entry, long long first, int n, C factor) {
  C values[kListPack];
  read_any(entry.data[0], entry.dtypes[0], first, n, values);
  bool finite = true;
#pragma unroll
  for (int i = 0; i < kListPack; ++i) {
    finite &= isfinite(values[i]);
    values[i] *= factor;
  }
  if (factor != C(1)) write_any(entry.data[0], entry.dtypes[0], first, n, values);
  return finite;
}

// All threads that find something store the same number.
__global__ void __launch_bounds__(kThreads) unscale_list(const __grid_constant__ TensorList list,
                                                         const float* inv_scale, float* found_inf) {
  const float factor = inv_scale ? *inv_scale : 1.0f;
  const ListEntry& entry = list.of_block(blockIdx.x);
  bool finite = true;
  each_pack(entry, blockIdx.x, [&](long long first, int n) {
    if (entry.dtypes[0] == DType::float64)
      finite &= scale_pack(entry, first, n, static_cast<double>(factor));
    else
      finite &= scale_pack(entry, first, n, factor);
  });
  if (!finite) *found_inf = 1.0f;
}

void list_unscale_kernel(const KernelContext& context, const ListUnscaleAttrs& attrs) {
  for (size_t i = 0; i < context.out.size(); ++i)  // out of place: results begin as copies
    if (context.input(i).data != context.output(i).data)
      copy_elements(context.op, context.input(i), context.output(i));
  const size_t count = context.in.size() - (attrs.check_only ? 1 : 2);
  std::vector<ListEntry> entries;
  for (size_t i = 1; i <= count; ++i)
    entries.push_back(entry_of(attrs.check_only ? context.input(i) : context.output(i)));
  const float* const inv_scale =
      attrs.check_only ? nullptr : context.input(count + 1).as<const float>();
  float* const found_inf = context.output(0).as<float>();
  each_launch(entries, [&](const TensorList& list, dim3 blocks) {
    Launch{context.op, context.device.index}(unscale_list, blocks, dim3(kThreads), list, inv_scale,
                                             found_inf);
  });
}

__global__ void update_scale(const float* scale, const int* growth_tracker, const float* found_inf,
                             double growth_factor, double backoff_factor, long long growth_interval,
                             float* new_scale, int* new_tracker) {
  const bool infinite = *found_inf != 0;
  const long long successes = static_cast<long long>(*growth_tracker) + 1;
  const bool due = !infinite && successes == growth_interval;
  const double factor = infinite ? backoff_factor : due ? growth_factor : 1.0;
  const auto wanted = static_cast<float>(*scale * factor);
  *new_scale = due && !isfinite(wanted) ? *scale : wanted;
  *new_tracker = infinite || due ? 0 : static_cast<int>(successes);
}

void update_scale_kernel(const KernelContext& context, const UpdateScaleAttrs& attrs) {
  Launch{context.op, context.device.index}(
      update_scale, dim3(1), dim3(1), context.input(0).as<const float>(),
      context.input(1).as<const int>(), context.input(2).as<const float>(), attrs.growth_factor,
      attrs.backoff_factor, static_cast<long long>(attrs.growth_interval),
      context.output(0).as<float>(), context.output(1).as<int>());
}

}  // namespace

void register_grad_scale_cuda() {
  list_unscale_op.set_kernel(DeviceType::cuda, list_unscale_kernel);
  update_scale_op.set_kernel(DeviceType::cuda, update_scale_kernel);
}

}  // namespace tensora::cuda
