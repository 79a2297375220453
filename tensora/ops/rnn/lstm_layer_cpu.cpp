#include <algorithm>

#include "tensora/backend/cpu/exponential.h"
#include "tensora/backend/cpu/gemm_product.h"
#include "tensora/backend/cpu/packed_operand.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/rnn/rnn_cell_formulas.h"
#include "tensora/ops/rnn/rnn_layer.h"

// Note [Steps of an LSTM]
// The recurrent weights are packed once for all steps. A step is one parallel region, in which a
// thread computes some of the hidden units: the product for their gates, then the cell. Backwards
// it first multiplies the gradients of the gates of the step that follows. All that a step needs of
// the others is in the matrices of results.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kColumns = 128, kRows = 48;         // hidden units and sequences at once
constexpr int64_t kTileSize = kRows * kColumns + 16;  // tiles not a multiple of 4096 bytes apart
constexpr int64_t kTaskWork = int64_t{1} << 16;       // multiplications

using Weights = PackedOperand;

// A call of the vector library's exp costs as much again as exp itself, because the loop's other
// numbers leave the registers for it.
struct InlineFunctions {
  static float sigmoid(float x) {
    const float e = exponential(-math::abs(x)), share = 1.0f / (1.0f + e);
    return x < 0 ? e * share : share;
  }
  static float tanh(float x) {
    const float e = exponential(-2.0f * math::abs(x)), far = (1.0f - e) / (1.0f + e);
    const float square = x * x;
    const float cubic =
        ((0.016437582f * square - 0.052671814f) * square + 0.13320725f) * square - 0.33332947f;
    const float near = x + x * square * cubic;
    return math::abs(x) < 0.55f ? near : math::copysign(far, x);
  }
};
using Step = rnn::LstmStepBy<InlineFunctions>;
using StepBackward = rnn::LstmStepBackwardBy<InlineFunctions>;

struct Extent {
  int64_t row, rows, panel, panel_end, col, cols;
};

/// Calls body(extent) for blocks of sequences and hidden units, on all threads.
void each_block(const Weights& weights, int64_t batch, int64_t work,
                FunctionRef<void(const Extent&)> body) {
  const int64_t panels = weights.panels();
  const int64_t most = std::max<int64_t>(1, kColumns / weights.column(1));
  const int64_t grain = std::max(ceil_div(kTaskWork, std::max<int64_t>(1, work / panels)),
                                 ceil_div(panels, int64_t{2} * get_num_threads()));
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin, next = 0; panel < end; panel = next) {
      next = std::min(panel + most, end);
      const int64_t col = weights.column(panel), cols = weights.column(next) - col;
      for (int64_t row = 0; row < batch; row += kRows)
        body(Extent{row, std::min(kRows, batch - row), panel, next, col, cols});
    }
  });
}

/// Where the rows of step s begin, in the order in which steps are computed.
struct Steps {
  int64_t batch, hidden, count;
  bool reverse;

  int64_t row(int64_t s) const { return (reverse ? count - 1 - s : s) * batch; }
  int64_t work() const { return 4 * batch * hidden * hidden; }
};
Steps steps_of(const View& state, const RnnLayerAttrs& attrs) {
  return {state.sizes[0], state.sizes[1], static_cast<int64_t>(attrs.batch_sizes.size()),
          attrs.reverse};
}

struct ForwardStep {
  const float *gates = nullptr, *hidden = nullptr, *cell = nullptr;
  float *y = nullptr, *cells = nullptr;
  float* values = nullptr;  // null: they are not kept
};

void forward_block(const Weights* weights, const ForwardStep& step, int64_t hidden,
                   const Extent& at) {
  alignas(64) float sums[4 * kTileSize], unkept[4 * kColumns];
  for (int64_t k = 0; k < 4; ++k)
    weights[k].multiply({step.hidden + at.row * hidden, hidden, 1}, at.rows, at.panel, at.panel_end,
                        sums + k * kTileSize, at.cols);
  for (int64_t i = 0; i < at.rows; ++i) {
    const int64_t place = (at.row + i) * hidden + at.col, wide = place + 3 * (at.row + i) * hidden;
    const float *const sum = sums + i * at.cols, *const x = step.gates + wide;
    const float* const before = step.cell + place;
    float *const y = step.y + place, *const cell = step.cells + place;
    float* const value = step.values ? step.values + wide : unkept;
    const int64_t next = step.values ? hidden : kColumns;
#pragma omp simd
    for (int64_t j = 0; j < at.cols; ++j) {
      float r[6];
      Step()(r, x[j] + sum[j], x[hidden + j] + sum[kTileSize + j],
             x[2 * hidden + j] + sum[2 * kTileSize + j], x[3 * hidden + j] + sum[3 * kTileSize + j],
             before[j]);
      y[j] = r[0];
      cell[j] = r[1];
      value[j] = r[2];
      value[next + j] = r[3];
      value[2 * next + j] = r[4];
      value[3 * next + j] = r[5];
    }
  }
}

void lstm_layer_kernel(const KernelContext& context, const RnnLayerAttrs& attrs) {
  const Steps steps = steps_of(context.input(1), attrs);
  const int64_t hidden = steps.hidden;
  const float* const w = context.input(2).as<const float>();
  const auto gate = [&](int64_t k) {
    return Weights({w + k * hidden * hidden, 1, hidden}, hidden, hidden);
  };
  const Weights weights[4] = {gate(0), gate(1), gate(2), gate(3)};
  float* const y = context.output(0).as<float>();
  // Cells that nobody asked for are kept all the same, in memory of our own.
  const HostScratch<float> unkept(attrs.keep ? 0 : steps.count * steps.batch * hidden);
  float* const cells = attrs.keep ? context.output(4).as<float>() : unkept.data();
  ForwardStep step = {.hidden = context.input(1).as<const float>(),
                      .cell = context.input(3).as<const float>()};
  for (int64_t s = 0; s < steps.count; ++s) {
    const int64_t row = steps.row(s);
    step.gates = context.input(0).as<const float>() + row * 4 * hidden;
    step.values = attrs.keep ? context.output(3).as<float>() + row * 4 * hidden : nullptr;
    step.y = y + row * hidden;
    step.cells = cells + row * hidden;
    each_block(weights[0], steps.batch, steps.work(),
               [&](const Extent& at) { forward_block(weights, step, hidden, at); });
    step.hidden = step.y;
    step.cell = step.cells;
  }
  std::copy_n(step.y, steps.batch * hidden, context.output(1).as<float>());
  std::copy_n(step.cells, steps.batch * hidden, context.output(2).as<float>());
}

// Null: zeros.
struct BackwardStep {
  const float *dy = nullptr, *dh = nullptr, *dc = nullptr;
  const float *values = nullptr, *before = nullptr, *after = nullptr;
  const float* next = nullptr;  // the gradients of the gates of the step that follows
  float *gates = nullptr, *cell = nullptr;
};

void backward_block(const Weights& weights, const BackwardStep& step, int64_t hidden,
                    const Extent& at) {
  alignas(64) float sums[kTileSize], zeros[kColumns] = {};
  if (step.next)
    weights.multiply({step.next + at.row * 4 * hidden, 4 * hidden, 1}, at.rows, at.panel,
                     at.panel_end, sums, at.cols);
  for (int64_t i = 0; i < at.rows; ++i) {
    const int64_t place = (at.row + i) * hidden + at.col, wide = place + 3 * (at.row + i) * hidden;
    const auto line = [&](const float* all) { return all ? all + place : zeros; };
    const float* const dh = step.next ? sums + i * at.cols : line(step.dh);
    const float *const dy = line(step.dy), *const dc = line(step.dc);
    const float *const value = step.values + wide, *const before = step.before + place;
    const float* const after = step.after + place;
    float *const gate = step.gates + wide, *const cell = step.cell + place;
#pragma omp simd
    for (int64_t j = 0; j < at.cols; ++j) {
      float r[5];
      StepBackward()(r, dh[j] + dy[j], dc[j], value[j], value[hidden + j], value[2 * hidden + j],
                     value[3 * hidden + j], before[j], after[j]);
      gate[j] = r[0];
      gate[hidden + j] = r[1];
      gate[2 * hidden + j] = r[2];
      gate[3 * hidden + j] = r[3];
      cell[j] = r[4];
    }
  }
}

void lstm_layer_backward_kernel(const KernelContext& context, const RnnLayerAttrs& attrs) {
  const Steps steps = steps_of(context.input(6), attrs);
  const int64_t hidden = steps.hidden;
  const Weights weights({context.input(3).as<const float>(), hidden, 1}, 4 * hidden, hidden);
  const auto given = [&](size_t i) {
    return context.in[i] ? context.input(i).as<const float>() : nullptr;
  };
  float *const gates = context.output(0).as<float>(), *const cell = context.output(2).as<float>();
  BackwardStep step = {.dh = given(1), .dc = given(2), .cell = cell};
  for (int64_t s = steps.count; s-- > 0;) {
    const int64_t row = steps.row(s);
    step.dy = given(0) ? given(0) + row * hidden : nullptr;
    step.values = given(4) + row * 4 * hidden;
    step.before = s > 0 ? given(5) + steps.row(s - 1) * hidden : given(6);
    step.after = given(5) + row * hidden;
    step.gates = gates + row * 4 * hidden;
    each_block(weights, steps.batch, steps.work(),
               [&](const Extent& at) { backward_block(weights, step, hidden, at); });
    step.next = step.gates;
    step.dc = cell;
  }
  float* const dhx = context.output(1).as<float>();
  each_block(weights, steps.batch, steps.work(), [&](const Extent& at) {
    weights.multiply({step.next + at.row * 4 * hidden, 4 * hidden, 1}, at.rows, at.panel,
                     at.panel_end, dhx + at.row * hidden + at.col, hidden);
  });
}

}  // namespace

void register_lstm_layer_cpu() {
  lstm_layer_op.set_kernel(DeviceType::cpu, lstm_layer_kernel);
  lstm_layer_backward_op.set_kernel(DeviceType::cpu, lstm_layer_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
