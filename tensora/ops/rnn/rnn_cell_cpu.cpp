#include "tensora/ops/rnn/rnn_cell.h"

#include <algorithm>
#include <utility>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/rnn/rnn_cell_formulas.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 128;

// One column block of a matrix: as wide as the hidden state. Null: zeros, or not wanted.
struct Block {
  char* data = nullptr;
  int64_t row = 0, column = 0;  // strides in bytes, in elements
  int64_t bytes = 0;
  LoadFn load = nullptr;
  StoreFn store = nullptr;
};

template <class C, int count>
class Blocks {
 public:
  // `blocks` column blocks of `width` columns; `view` may be null.
  void add(const View* view, int blocks, int64_t width) {
    for (int k = 0; k < blocks; ++k) {
      Block& block = list[filled_++];
      if (!view) continue;
      block.bytes = static_cast<int64_t>(element_size(view->dtype));
      block.data = view->as<char>() + k * width * view->strides[1] * block.bytes;
      block.row = view->strides[0] * block.bytes;
      block.column = view->strides[1];
      block.load = load_fn<C>(view->dtype);
      block.store = store_fn<C>(view->dtype);
    }
  }
  Block list[count];

 private:
  int filled_ = 0;
};

template <class F, class C, size_t... I, size_t... O>
void compute(const C (&in)[F::kIn][kTile], C (&out)[F::kOut][kTile], int64_t n,
             std::index_sequence<I...>, std::index_sequence<O...>) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    C y[F::kOut];
    F()(y, in[I][j]...);
    ((out[O][j] = y[O]), ...);
  }
}

template <class F, class C>
void run(const Blocks<C, F::kIn>& in, const Blocks<C, F::kOut>& out, int64_t rows, int64_t width) {
  const int64_t tiles = (width + kTile - 1) / kTile;
  parallel_for(rows * tiles, 8, [&](int64_t begin, int64_t end) {
    C values[F::kIn][kTile], results[F::kOut][kTile];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / tiles, first = i % tiles * kTile, n = std::min(kTile, width - first);
      for (int k = 0; k < F::kIn; ++k) {
        const Block& block = in.list[k];
        if (block.data)
          block.load(block.data + row * block.row + first * block.column * block.bytes,
                     block.column, n, values[k]);
        else
          std::fill_n(values[k], n, C(0));
      }
      compute<F, C>(values, results, n, std::make_index_sequence<F::kIn>(),
                    std::make_index_sequence<F::kOut>());
      for (int k = 0; k < F::kOut; ++k) {
        const Block& block = out.list[k];
        if (block.data)
          block.store(results[k], block.data + row * block.row + first * block.column * block.bytes,
                      block.column, n);
      }
    }
  });
}

// How many blocks each input and output consists of.
template <class F>
void run_step(const KernelContext& context, const View& state, std::initializer_list<int> inputs,
              std::initializer_list<int> outputs) {
  const int64_t rows = state.sizes[0], width = state.sizes[1];
  const auto run_as = [&]<class C>() {
    Blocks<C, F::kIn> in;
    Blocks<C, F::kOut> out;
    size_t k = 0;
    for (int blocks : inputs) in.add(context.in[k++], blocks, width);
    k = 0;
    for (int blocks : outputs) {
      out.add(k < context.out.size() ? context.out[k] : nullptr, blocks, width);
      ++k;
    }
    run<F, C>(in, out, rows, width);
  };
  if (state.dtype == kFloat64)
    run_as.template operator()<double>();
  else
    run_as.template operator()<float>();
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

void register_rnn_cell_cpu() {
  lstm_step_op.set_kernel(DeviceType::cpu, lstm_step_kernel);
  lstm_step_backward_op.set_kernel(DeviceType::cpu, lstm_step_backward_kernel);
  gru_step_op.set_kernel(DeviceType::cpu, gru_step_kernel);
  gru_step_backward_op.set_kernel(DeviceType::cpu, gru_step_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
