#include "tensora/ops/rnn/rnn_cell.h"

#include <algorithm>
#include <utility>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/rnn/rnn_cell_formulas.h"

namespace tensora::cuda {
namespace {

// One column block of a matrix: as wide as the hidden state. Null: zeros, or not wanted.
struct Block {
  char* data;
  int64_t row, column;  // strides in elements
};

template <class F>
struct StepParams {
  Block in[F::kIn], out[F::kOut];
  int64_t rows, width;
};

template <class T, class C>
__device__ C read(const Block& block, int64_t row, int64_t column) {
  if (!block.data) return C(0);
  return load_value<C>(
      reinterpret_cast<const T*>(block.data)[row * block.row + column * block.column]);
}
template <class T, class C>
__device__ void write(const Block& block, int64_t row, int64_t column, C value) {
  if (block.data)
    reinterpret_cast<T*>(block.data)[row * block.row + column * block.column] =
        store_value<T>(value);
}

template <class F, class T, class C, size_t... I, size_t... O>
__device__ void compute(const StepParams<F>& params, int64_t row, int64_t column,
                        std::index_sequence<I...>, std::index_sequence<O...>) {
  C y[F::kOut];
  F()(y, read<T, C>(params.in[I], row, column)...);
  (write<T>(params.out[O], row, column, y[O]), ...);
}

// Grid dim y counts rows.
template <class F, class T, class C>
__global__ void __launch_bounds__(kThreads)
    step_elements(const __grid_constant__ StepParams<F> params) {
  for (int64_t row = blockIdx.y; row < params.rows; row += gridDim.y)
    for (int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; column < params.width;
         column += int64_t{gridDim.x} * blockDim.x)
      compute<F, T, C>(params, row, column, std::make_index_sequence<F::kIn>(),
                       std::make_index_sequence<F::kOut>());
}

int fill_blocks(Block* to, const View* view, int blocks, int64_t width) {
  for (int k = 0; k < blocks; ++k) {
    to[k] = {nullptr, 0, 0};
    if (!view) continue;
    const auto bytes = static_cast<int64_t>(element_size(view->dtype));
    to[k] = {view->as<char>() + k * width * view->strides[1] * bytes, view->strides[0],
             view->strides[1]};
  }
  return blocks;
}

// How many blocks each input and output consists of.
template <class F>
void run_step(const KernelContext& context, const View& state, std::initializer_list<int> inputs,
              std::initializer_list<int> outputs) {
  StepParams<F> params;
  params.rows = state.sizes[0];
  params.width = state.sizes[1];
  if (params.rows == 0 || params.width == 0) return;
  size_t k = 0;
  Block* next = params.in;
  for (int blocks : inputs) next += fill_blocks(next, context.in[k++], blocks, params.width);
  k = 0;
  next = params.out;
  for (int blocks : outputs) {
    next +=
        fill_blocks(next, k < context.out.size() ? context.out[k] : nullptr, blocks, params.width);
    ++k;
  }
  unsigned threads = kThreads;
  while (threads > 32 && threads / 2 >= params.width) threads /= 2;
  const int64_t across = (params.width + threads - 1) / threads;
  const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(across, 1 << 20)),
                    static_cast<unsigned>(std::min<int64_t>(params.rows, 65535)));
  const Launch launch{context.op, context.device.index};
  visit_floating(state.dtype, context.op, [&]<class T>() {
    launch(step_elements<F, T, accumulate_t<T>>, blocks, dim3(threads), params);
  });
}

void lstm_step_kernel(const KernelContext& context, const StepAttrs&) {
  run_step<rnn::LstmStep>(context, context.input(1), {4, 1}, {1, 1, 4});
}
void lstm_step_backward_kernel(const KernelContext& context, const NoAttrs&) {
  run_step<rnn::LstmStepBackward>(context, context.input(3), {1, 1, 4, 1, 1}, {4, 1});
}
void gru_step_kernel(const KernelContext& context, const StepAttrs&) {
  run_step<rnn::GruStep>(context, context.input(2), {3, 3, 1}, {1, 4});
}
void gru_step_backward_kernel(const KernelContext& context, const NoAttrs&) {
  run_step<rnn::GruStepBackward>(context, context.input(2), {1, 4, 1}, {3, 3, 1});
}

}  // namespace

void register_rnn_cell_cuda() {
  lstm_step_op.set_kernel(DeviceType::cuda, lstm_step_kernel);
  lstm_step_backward_op.set_kernel(DeviceType::cuda, lstm_step_backward_kernel);
  gru_step_op.set_kernel(DeviceType::cuda, gru_step_kernel);
  gru_step_backward_op.set_kernel(DeviceType::cuda, gru_step_backward_kernel);
}

}  // namespace tensora::cuda
