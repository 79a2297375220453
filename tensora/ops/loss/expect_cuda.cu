#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/loss/expect.h"

namespace tensora::cuda {
namespace {

struct ExpectParams {
  Walk<1> walk;
  const char* in;
  unsigned count;
  DType dtype;
  double low, high;
  bool nan_passes;
  const char *function, *sentence;
  Fault* fault;
};

__global__ void __launch_bounds__(kThreads)
    check_elements(const __grid_constant__ ExpectParams params) {
  for (unsigned i = blockIdx.x * kThreads + threadIdx.x; i < params.count;
       i += gridDim.x * kThreads) {
    int at[1];
    params.walk.offsets(i, at);
    const double x = load_any<double>(params.in + at[0], params.dtype);
    const bool fits = (x >= params.low && x <= params.high) || (params.nan_passes && x != x);
    if (!fits) note_fault(params.fault, params.function, params.sentence);
  }
}

void expect_kernel(const KernelContext& context, const ExpectAttrs& attrs) {
  const View& in = context.input(0);
  if (in.numel == 0) return;
  const int device = context.device.index;
  const Expectation& expected = kExpectations[static_cast<int>(attrs.what)];
  ExpectParams params{};
  params.dtype = in.dtype;
  params.low = expected.low;
  params.high = expected.high;
  params.nan_passes = expected.nan_passes;
  params.function = expected.function;
  params.sentence = expected.sentence;
  params.fault = device_fault(device);
  const View* const views[] = {&in};
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.in = part.data[0];
    params.count = static_cast<unsigned>(part.count());
    const unsigned most = 16u * static_cast<unsigned>(device_info(device).multiprocessors);
    const unsigned blocks = (params.count + kThreads - 1) / kThreads;
    Launch{context.op, device}(check_elements, dim3(blocks < most ? blocks : most), dim3(kThreads),
                               params);
  });
}

}  // namespace

void register_expect_cuda() { expect_op.set_kernel(DeviceType::cuda, expect_kernel); }

}  // namespace tensora::cuda
