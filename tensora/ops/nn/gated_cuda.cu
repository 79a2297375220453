#include "tensora/ops/nn/gated.h"

#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/nn/gated_math.h"

namespace tensora::cuda {
namespace {

// The halves of an input as views of the output's shape.
struct Halves {
  View a, b;

  Halves(const View& input, const View* second, int64_t dim, std::string_view op)
      : a(input), b(second ? *second : input) {
    if (second) return;
    const int at = wrap_dim(dim, input.dim(), op);
    const int64_t half = input.sizes[at] / 2;
    a = part_of(input, at, 0, 1, half);
    b = part_of(input, at, half, 1, half);
  }
};

template <int K>
struct GateParams {
  Walk<K> walk;
  char* data[K];
  unsigned count;  // of groups
};

// The first kWritten arrays are written; forward: y, a, b; backward: da, db, g, a, b.
template <class T, class Pair, int K, int G>
__global__ void __launch_bounds__(kThreads) run_gate(const __grid_constant__ GateParams<K> params) {
  using C = accumulate_t<T>;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  constexpr int kWritten = K == 3 ? 1 : 2;
  int at[K];
  params.walk.offsets(i, at);
  C values[K][G];
#pragma unroll
  for (int k = kWritten; k < K; ++k) load_pack<T>(params.data[k] + at[k], values[k]);
#pragma unroll
  for (int j = 0; j < G; ++j) {
    if constexpr (K == 3)
      values[0][j] = Pair::forward(values[1][j], values[2][j]);
    else
      Pair::backward(values[2][j], values[3][j], values[4][j], values[0][j], values[1][j]);
  }
#pragma unroll
  for (int k = 0; k < kWritten; ++k) store_pack<T>(params.data[k] + at[k], values[k]);
}

template <class T, class Pair, int K>
void launch_gate(const KernelContext& context, const View* const (&views)[K]) {
  constexpr int kGroup = 16 / static_cast<int>(sizeof(T));
  const Launch launch{context.op, context.device.index};
  HostWalk walk = make_walk(views);
  bool grouped = walk.sizes[0] % kGroup == 0;
  for (int k = 0; k < K; ++k) grouped = grouped && has_groups(walk, k, sizeof(T), kGroup);
  if (grouped) group_inner(walk, kGroup);
  each_part(walk, [&](const HostWalk& part, bool) {
    GateParams<K> params{};
    fill_walk(params.walk, part);
    for (int k = 0; k < K; ++k) params.data[k] = part.data[k];
    params.count = static_cast<unsigned>(part.count());
    const dim3 blocks((params.count + kThreads - 1) / kThreads);
    if (grouped)
      launch(run_gate<T, Pair, K, kGroup>, blocks, dim3(kThreads), params);
    else
      launch(run_gate<T, Pair, K, 1>, blocks, dim3(kThreads), params);
  });
}

template <int K>
void run(const KernelContext& context, Gate gate, const View* const (&views)[K]) {
  if (views[0]->numel == 0) return;
  visit_floating(views[0]->dtype, context.op, [&]<class T>() {
    using C = accumulate_t<T>;
    if (gate == Gate::glu)
      launch_gate<T, GluPair<C>>(context, views);
    else
      launch_gate<T, SwigluPair<C>>(context, views);
  });
}

void gate_kernel(const KernelContext& context, const GateAttrs& attrs) {
  const View* const second = context.in.size() > 1 ? context.in[1] : nullptr;
  const Halves in(context.input(0), second, attrs.dim, context.op);
  const View* const views[] = {&context.output(), &in.a, &in.b};
  run(context, attrs.gate, views);
}

void gate_backward_kernel(const KernelContext& context, const GateAttrs& attrs) {
  const View* const second = context.in.size() > 2 ? context.in[2] : nullptr;
  const Halves in(context.input(1), second, attrs.dim, context.op);
  const Halves out(context.output(0), second ? context.out[1] : nullptr, attrs.dim, context.op);
  const View* const views[] = {&out.a, &out.b, &context.input(0), &in.a, &in.b};
  run(context, attrs.gate, views);
}

}  // namespace

void register_gated_cuda() {
  gate_op.set_kernel(DeviceType::cuda, gate_kernel);
  gate_backward_op.set_kernel(DeviceType::cuda, gate_backward_kernel);
}

}  // namespace tensora::cuda
