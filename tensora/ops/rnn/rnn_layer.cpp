#include "tensora/ops/rnn/rnn_layer.h"

#include <algorithm>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/matrix/addmm.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/rnn/rnn_cell.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/split.h"

namespace tensora {
namespace {

using rnn::Kind;

Tensor rows_of(const Tensor& x, int64_t start, int64_t count) {
  return start == 0 && count == x.size(0) ? x : narrow(x, 0, start, count);
}
Tensor sum_of(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}

// The rows of one step among all.
struct Step {
  size_t time;
  int64_t start, rows;
};
// In the order in which they are computed.
std::vector<Step> steps_of(const RnnLayerAttrs& attrs) {
  std::vector<Step> steps;
  int64_t start = 0;
  for (size_t t = 0; t < attrs.batch_sizes.size(); ++t) {
    steps.push_back({t, start, attrs.batch_sizes[t]});
    start += attrs.batch_sizes[t];
  }
  if (attrs.reverse) std::reverse(steps.begin(), steps.end());
  return steps;
}

// Note [Sequences of different lengths]
// A state has a row for each sequence that takes part in the step. Forwards, sequences end, and
// their last rows are kept for the result; backwards in time, sequences begin, with their rows of
// the initial state. In the gradient the two are exchanged.
class State {
 public:
  State(const Tensor& initial, int64_t rows) : initial_(initial) {
    if (initial.defined()) now = rows_of(initial, 0, rows);
  }
  void resize(int64_t rows) {
    if (!now.defined() || now.size(0) == rows) return;
    const int64_t before = now.size(0);
    if (rows < before) {
      ended_.push_back(narrow(now, 0, rows, before - rows));
      now = narrow(now, 0, 0, rows);
    } else {
      now = cat({now, narrow(initial_, 0, before, rows - before)}, 0);
    }
  }
  // All sequences' last rows.
  Tensor last() const {
    std::vector<Tensor> parts = {now};
    parts.insert(parts.end(), ended_.rbegin(), ended_.rend());
    return parts.size() == 1 ? now : cat(parts, 0);
  }
  Tensor now;

 private:
  Tensor initial_;
  std::vector<Tensor> ended_;
};

// Whether lstm_layer can do it.
bool in_one_go(const RnnLayerAttrs& attrs, const Tensor& gates, const Tensor& projection) {
  const std::vector<int64_t>& sizes = attrs.batch_sizes;
  return attrs.kind == Kind::lstm && !projection.defined() && sizes.size() > 1 &&
         sizes.front() == sizes.back() && gates.numel() > 0 && gates.dtype() == kFloat32;
}

Tensors step_by_step(Args in, const RnnLayerAttrs& attrs) {
  const auto input = [&](size_t i) { return i < in.size() ? *in[i] : Tensor(); };
  const Tensor &gates = *in[0], w = t(*in[2]), bias = input(4), projection = input(5);
  const std::vector<Step> steps = steps_of(attrs);
  State hidden(*in[1], steps[0].rows), cell(input(3), steps[0].rows);
  std::vector<Tensor> y(steps.size()), values(steps.size()), cells(steps.size());
  for (const Step& step : steps) {
    hidden.resize(step.rows);
    cell.resize(step.rows);
    const Tensor x = rows_of(gates, step.start, step.rows);
    if (attrs.kind == Kind::gru) {
      const Tensor from_hidden = bias.defined() ? addmm(bias, hidden.now, w) : mm(hidden.now, w);
      const Tensors results = apply_all(gru_step_op, {x, from_hidden, hidden.now}, {attrs.keep});
      hidden.now = results[0];
      if (attrs.keep) values[step.time] = results[1];
    } else {
      const Tensor sums = addmm(x, hidden.now, w);
      if (attrs.kind == Kind::lstm) {
        const Tensors results = apply_all(lstm_step_op, {sums, cell.now}, {attrs.keep});
        hidden.now = projection.defined() ? mm(results[0], t(projection)) : results[0];
        cell.now = results[1];
        if (attrs.keep) values[step.time] = results[2];
        cells[step.time] = results[1];
      } else {
        hidden.now = attrs.kind == Kind::tanh ? tanh(sums) : relu(sums);
      }
    }
    y[step.time] = hidden.now;
  }
  Tensors results{cat(y, 0), hidden.last()};
  if (attrs.kind == Kind::lstm) results.push_back(cell.last());
  if (attrs.keep && attrs.kind <= Kind::gru) results.push_back(cat(values, 0));
  if (attrs.keep && attrs.kind == Kind::lstm) results.push_back(cat(cells, 0));
  return results;
}

Tensors layer_reference(Args in, const RnnLayerAttrs& attrs) {
  if (!in_one_go(attrs, *in[0], in.size() > 5 ? *in[5] : Tensor())) return step_by_step(in, attrs);
  return apply_all(lstm_layer_op,
                   {contiguous(*in[0]), contiguous(*in[1]), contiguous(*in[2]), contiguous(*in[3])},
                   attrs);
}

Tensors lstm_backward_reference(Args in, const RnnLayerAttrs& attrs) {
  const Tensor &dy = *in[0], &w = *in[3], &values = *in[4], &cells = *in[5], &cx = *in[6];
  const std::vector<Step> steps = steps_of(attrs);
  Tensor dh = *in[1], dc = *in[2];
  std::vector<Tensor> gates(steps.size());
  for (size_t s = steps.size(); s-- > 0;) {
    const auto part = [&](const Tensor& all, size_t step) {
      return all.defined() ? rows_of(all, steps[step].start, steps[step].rows) : Tensor();
    };
    dh = sum_of(dh, part(dy, s));
    const Tensors grads =
        apply_all(lstm_step_backward_op,
                  {dh, dc, part(values, s), s > 0 ? part(cells, s - 1) : cx, part(cells, s)});
    gates[steps[s].time] = grads[0];
    dc = grads[1];
    dh = mm(grads[0], w);
  }
  Tensors results{cat(gates, 0), dh};
  results.push_back(dc);
  return results;
}

// The gradient, from the last step to the first. One product of all steps gives that of the
// weights.
class LayerBackward {
 public:
  LayerBackward(Vjp& vjp, const RnnLayerAttrs& attrs)
      : vjp_(vjp), attrs_(attrs), steps_(steps_of(attrs)), lstm_(attrs.kind == Kind::lstm) {
    y_ = vjp.output(0);
    hx_ = vjp.input(1);
    w_ = vjp.input(2);
    if (lstm_) cx_ = vjp.input(3);
    if (vjp.input_count() > 5) projection_ = vjp.input(5);
    if (attrs.kind > Kind::gru) return;
    check(attrs.keep, "rnn_layer: the gradient needs keep");
    values_ = vjp.output(lstm_ ? 3 : 2);
    more_values_ = vjp.grad(lstm_ ? 3 : 2);
    if (lstm_) {
      cells_ = vjp.output(4);
      more_cells_ = vjp.grad(4);
    }
  }

  void run() {
    if (in_one_go(attrs_, values_, projection_) && !more_values_.defined() &&
        !more_cells_.defined())
      return run_in_one_go();
    const size_t count = steps_.size();
    gates_.resize(count);
    from_hidden_.resize(attrs_.kind == Kind::gru ? count : 0);
    before_.resize(count);
    hidden_grads_.resize(count);
    const auto start = [&](const Tensor& grad, const Tensor& initial) {
      return State(grad.defined() ? grad : zeros_like(initial), steps_.back().rows);
    };
    State dh = start(vjp_.grad(1), hx_);
    State dc = lstm_ ? start(vjp_.grad(2), cx_) : State({}, 0);
    for (size_t s = count; s-- > 0;) {
      dh.resize(steps_[s].rows);
      dc.resize(steps_[s].rows);
      before_[steps_[s].time] = state_before(s, y_, hx_);
      one_step(s, dh.now, dc.now);
    }
    finish(dh.last(), lstm_ ? dc.last() : Tensor());
  }

 private:
  void run_in_one_go() {
    const auto dense = [](const Tensor& x) { return x.defined() ? contiguous(x) : x; };
    const Tensors grads = apply_all(lstm_layer_backward_op,
                                    {dense(vjp_.grad(0)), dense(vjp_.grad(1)), dense(vjp_.grad(2)),
                                     dense(w_), values_, cells_, dense(cx_)},
                                    attrs_);
    const int64_t rows = attrs_.batch_sizes[0], others = y_.size(0) - rows;
    gates_ = {grads[0]};
    before_ = {hx_, narrow(y_, 0, attrs_.reverse ? rows : 0, others)};
    if (attrs_.reverse) std::reverse(before_.begin(), before_.end());
    finish(grads[1], grads[2]);
  }

  // What a state was before step s: a part of all steps' states, or of the initial one.
  Tensor state_before(size_t s, const Tensor& all, const Tensor& initial) const {
    const int64_t rows = steps_[s].rows;
    if (s == 0) return rows_of(initial, 0, rows);
    const Step& previous = steps_[s - 1];
    const Tensor kept = rows_of(all, previous.start, std::min(rows, previous.rows));
    if (rows <= previous.rows) return kept;
    return cat({kept, narrow(initial, 0, previous.rows, rows - previous.rows)}, 0);
  }
  Tensor part(const Tensor& all, const Step& step) const {
    return all.defined() ? rows_of(all, step.start, step.rows) : Tensor();
  }

  // Replaces the gradients of the states after step s by those before it.
  void one_step(size_t s, Tensor& dh, Tensor& dc) {
    const Step& step = steps_[s];
    dh = sum_of(dh, part(vjp_.grad(0), step));
    if (attrs_.kind == Kind::gru) {
      const Tensor values = part(values_, step);
      Tensors grads = apply_all(gru_step_backward_op, {dh, values, before_[step.time]});
      if (more_values_.defined()) {
        const auto more = gru_values_vjp(part(more_values_, step), values);
        for (size_t i : {0u, 1u}) grads[i] = grads[i] + more[i];
      }
      gates_[step.time] = grads[0];
      from_hidden_[step.time] = grads[1];
      dh = addmm(grads[2], grads[1], w_);
      return;
    }
    if (lstm_) {
      if (projection_.defined()) {
        hidden_grads_[step.time] = dh;
        dh = mm(dh, projection_);
      }
      dc = sum_of(dc, part(more_cells_, step));
      const Tensor values = part(values_, step);
      const Tensors grads =
          apply_all(lstm_step_backward_op,
                    {dh, dc, values, state_before(s, cells_, cx_), part(cells_, step)});
      gates_[step.time] = grads[0];
      if (more_values_.defined())
        gates_[step.time] = grads[0] + lstm_values_vjp(part(more_values_, step), values);
      dc = grads[1];
    } else {
      const Tensor y = part(y_, step);
      gates_[step.time] = attrs_.kind == Kind::tanh ? dh * (1 - y * y) : where(gt(y, 0), dh, 0);
    }
    dh = mm(gates_[step.time], w_);
  }

  void finish(const Tensor& dhx, const Tensor& dcx) {
    const Tensor gates = gates_.size() == 1 ? gates_[0] : cat(gates_, 0);
    const Tensor sums = attrs_.kind == Kind::gru ? cat(from_hidden_, 0) : gates;
    if (vjp_.needs(0)) vjp_.set(0, gates);
    if (vjp_.needs(1)) vjp_.set(1, dhx);
    if (vjp_.needs(2)) vjp_.set(2, mm(t(sums), cat(before_, 0)));
    if (lstm_ && vjp_.needs(3)) vjp_.set(3, dcx);
    if (vjp_.input_count() > 4 && vjp_.needs(4)) vjp_.set(4, sum(sums, {0}));
    if (projection_.defined() && vjp_.needs(5)) {
      const Tensor hidden = chunk(values_, 4, 1)[3] * tanh(cells_);
      vjp_.set(5, mm(t(cat(hidden_grads_, 0)), hidden));
    }
  }

  Vjp& vjp_;
  const RnnLayerAttrs& attrs_;
  std::vector<Step> steps_;
  bool lstm_;
  Tensor y_, hx_, w_, cx_, projection_, values_, more_values_, cells_, more_cells_;
  std::vector<Tensor> gates_, from_hidden_, before_, hidden_grads_;
};

}  // namespace

constinit OpDef<RnnLayerAttrs> rnn_layer_op = define(Op<RnnLayerAttrs>{
    .name = "rnn_layer",
    .inputs = {"gates", "hx", "w_hh", "cx?", "b_hh?", "w_hr?"},
    .internal = true,
    .reference = layer_reference,
    .vjp = [](Vjp& vjp, const RnnLayerAttrs& attrs) { LayerBackward(vjp, attrs).run(); },
    .saves = Saves{}.rest(in_from(1) | out(0) | out(2) | out(3) | out(4)),
});

constinit OpDef<RnnLayerAttrs> lstm_layer_op = define(Op<RnnLayerAttrs>{
    .name = "lstm_layer",
    .inputs = {"gates", "hx", "w_hh", "cx"},
    .internal = true,
    .infer =
        [](Infer& infer, const RnnLayerAttrs& attrs) {
          const Shape state = infer[1].sizes(), all = {infer[0].sizes()[0], state[1]};
          for (const Shape& sizes : {all, state, state}) infer.output(sizes, kFloat32);
          if (!attrs.keep) return;
          infer.output(infer[0].sizes(), kFloat32);
          infer.output(all, kFloat32);
        },
    .reference = step_by_step,
    .gradient = Gradient::by_reference,
    .accepts = set_of(kFloat32),
});

constinit OpDef<RnnLayerAttrs> lstm_layer_backward_op = define(Op<RnnLayerAttrs>{
    .name = "lstm_layer_backward",
    .inputs = {"grad_y?", "grad_h?", "grad_c?", "w_hh", "values", "cells", "cx"},
    .internal = true,
    .infer =
        [](Infer& infer, const RnnLayerAttrs&) {
          for (size_t like : {4u, 6u, 6u}) infer.output(infer[like].sizes(), kFloat32);
        },
    .reference = lstm_backward_reference,
    .gradient = Gradient::by_reference,
    .accepts = set_of(kFloat32),
});

void register_rnn_layer(OpRegistry& registry) {
  registry.add(rnn_layer_op);
  registry.add(lstm_layer_op);
  registry.add(lstm_layer_backward_op);
}

}  // namespace tensora
