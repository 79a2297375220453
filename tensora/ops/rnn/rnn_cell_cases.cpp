#include "tensora/ops/rnn/rnn_cell.h"

#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/rnn/rnn_layer.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

Out all(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

void add_steps(Cases& cases) {
  cases.add({.op = "lstm_step",
             .name = "three rows",
             .inputs = {{{3, 8}}, {{3, 2}}},
             .run =
                 [](In x) {
                   return all(apply_all(lstm_step_op, {x[0], x[1]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array h(Shape{3, 2}), c = h, values(Shape{3, 8});
                   Array::each(h.sizes, [&](const Shape& at) {
                     double g[4];
                     for (int64_t k = 0; k < 4; ++k) {
                       const double sum = x[0].at({at[0], 2 * k + at[1]});
                       values.at({at[0], 2 * k + at[1]}) = g[k] =
                           k == 2 ? std::tanh(sum) : sigmoid_of(sum);
                     }
                     c.at(at) = g[1] * x[1].at(at) + g[0] * g[2];
                     h.at(at) = g[3] * std::tanh(c.at(at));
                   });
                   return ArrayList{h, c, values};
                 },
             .tolerance = 8});
  cases.add({.op = "gru_step",
             .name = "three rows",
             .inputs = {{{3, 6}}, {{3, 6}}, {{3, 2}}},
             .run =
                 [](In x) {
                   return all(apply_all(gru_step_op, {x[0], x[1], x[2]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array h(Shape{3, 2}), values(Shape{3, 8});
                   Array::each(h.sizes, [&](const Shape& at) {
                     const auto place = [&](int64_t k) { return Shape{at[0], 2 * k + at[1]}; };
                     const double r = sigmoid_of(x[0].at(place(0)) + x[1].at(place(0)));
                     const double z = sigmoid_of(x[0].at(place(1)) + x[1].at(place(1)));
                     const double hn = x[1].at(place(2)), n = std::tanh(x[0].at(place(2)) + r * hn);
                     h.at(at) = (1 - z) * n + z * x[2].at(at);
                     values.at(place(0)) = r;
                     values.at(place(1)) = z;
                     values.at(place(2)) = n;
                     values.at(place(3)) = hn;
                   });
                   return ArrayList{h, values};
                 },
             .tolerance = 8});
}

void add_backward(Cases& cases) {
  for (const bool hidden : {true, false})
    cases.add({.op = "lstm_step_backward",
               .name = hidden ? "of both states" : "of the cell",
               .inputs = {{{2, 3}}, {{2, 3}}, {{2, 12}}, {{2, 3}}, {{2, 3}}},
               .run =
                   [=](In x) {
                     return all(apply_all(lstm_step_backward_op,
                                          {hidden ? x[0] : Tensor(), x[1], x[2], x[3], x[4]}));
                   },
               .reference =
                   [=](Arrays x) {
                     Array gates(Shape{2, 12}), cell(Shape{2, 3});
                     Array::each(cell.sizes, [&](const Shape& at) {
                       const auto place = [&](int64_t k) { return Shape{at[0], 3 * k + at[1]}; };
                       const double i = x[2].at(place(0)), f = x[2].at(place(1));
                       const double g = x[2].at(place(2)), o = x[2].at(place(3));
                       const double dh = hidden ? x[0].at(at) : 0, t = std::tanh(x[4].at(at));
                       const double d = x[1].at(at) + dh * o * (1 - t * t);
                       gates.at(place(0)) = d * g * i * (1 - i);
                       gates.at(place(1)) = d * x[3].at(at) * f * (1 - f);
                       gates.at(place(2)) = d * i * (1 - g * g);
                       gates.at(place(3)) = dh * t * o * (1 - o);
                       cell.at(at) = d * f;
                     });
                     return ArrayList{gates, cell};
                   },
               .tolerance = 8,
               .opt_out = hidden
                              ? std::map<Mode, std::string>{}
                              : std::map<Mode, std::string>{{Mode::grad, "an input is unused"}}});
  cases.add({.op = "gru_step_backward",
             .name = "two rows",
             .inputs = {{{2, 3}}, {{2, 12}}, {{2, 3}}},
             .run =
                 [](In x) {
                   return all(apply_all(gru_step_backward_op, {x[0], x[1], x[2]}));
                 },
             .reference =
                 [](Arrays x) {
                   Array from_x(Shape{2, 9}), from_h(Shape{2, 9}), hx(Shape{2, 3});
                   Array::each(hx.sizes, [&](const Shape& at) {
                     const auto place = [&](int64_t k) { return Shape{at[0], 3 * k + at[1]}; };
                     const double r = x[1].at(place(0)), z = x[1].at(place(1));
                     const double n = x[1].at(place(2)), hn = x[1].at(place(3)), dh = x[0].at(at);
                     const double dn = dh * (1 - z) * (1 - n * n);
                     from_x.at(place(0)) = from_h.at(place(0)) = dn * hn * r * (1 - r);
                     from_x.at(place(1)) = from_h.at(place(1)) =
                         dh * (x[2].at(at) - n) * z * (1 - z);
                     from_x.at(place(2)) = dn;
                     from_h.at(place(2)) = dn * r;
                     hx.at(at) = dh * z;
                   });
                   return ArrayList{from_x, from_h, hx};
                 },
             .tolerance = 8});
}

// Two sequences of three steps, four hidden units: by the formulas of one step, in float64.
constexpr int64_t kBatch = 2, kSteps = 3, kHidden = 4;

ArrayList lstm_layer_of(Arrays x, bool reverse) {
  Array y(Shape{kSteps * kBatch, kHidden}), cells = y, values(Shape{kSteps * kBatch, 4 * kHidden});
  for (int64_t s = 0; s < kSteps; ++s)
    for (int64_t b = 0; b < kBatch; ++b) {
      const int64_t row = (reverse ? kSteps - 1 - s : s) * kBatch + b;
      const int64_t last = reverse ? row + kBatch : row - kBatch;
      for (int64_t j = 0; j < kHidden; ++j) {
        double g[4];
        for (int64_t k = 0; k < 4; ++k) {
          double sum = x[0].at({row, k * kHidden + j});
          for (int64_t i = 0; i < kHidden; ++i)
            sum += x[2].at({k * kHidden + j, i}) * (s ? y.at({last, i}) : x[1].at({b, i}));
          values.at({row, k * kHidden + j}) = g[k] = k == 2 ? std::tanh(sum) : sigmoid_of(sum);
        }
        const double before = s ? cells.at({last, j}) : x[3].at({b, j});
        cells.at({row, j}) = g[1] * before + g[0] * g[2];
        y.at({row, j}) = g[3] * std::tanh(cells.at({row, j}));
      }
    }
  Array last(Shape{kBatch, kHidden}), last_cell = last;
  Array::each(last.sizes, [&](const Shape& at) {
    const Shape from = {(reverse ? 0 : kSteps - 1) * kBatch + at[0], at[1]};
    last.at(at) = y.at(from);
    last_cell.at(at) = cells.at(from);
  });
  return {y, last, last_cell, values, cells};
}

ArrayList lstm_layer_backward_of(Arrays x, bool reverse) {
  Array gates(Shape{kSteps * kBatch, 4 * kHidden}), dh = x[1], dc = x[2];
  for (int64_t s = kSteps; s-- > 0;)
    for (int64_t b = 0; b < kBatch; ++b) {
      const int64_t row = (reverse ? kSteps - 1 - s : s) * kBatch + b;
      const int64_t last = reverse ? row + kBatch : row - kBatch;
      const auto place = [&](int64_t k, int64_t j) { return Shape{row, k * kHidden + j}; };
      for (int64_t j = 0; j < kHidden; ++j) {
        const double i = x[4].at(place(0, j)), f = x[4].at(place(1, j));
        const double g = x[4].at(place(2, j)), o = x[4].at(place(3, j));
        const double h = dh.at({b, j}) + x[0].at({row, j}), t = std::tanh(x[5].at({row, j}));
        const double d = dc.at({b, j}) + h * o * (1 - t * t);
        gates.at(place(0, j)) = d * g * i * (1 - i);
        gates.at(place(1, j)) = d * (s ? x[5].at({last, j}) : x[6].at({b, j})) * f * (1 - f);
        gates.at(place(2, j)) = d * i * (1 - g * g);
        gates.at(place(3, j)) = h * t * o * (1 - o);
        dc.at({b, j}) = d * f;
      }
      for (int64_t j = 0; j < kHidden; ++j) {
        dh.at({b, j}) = 0;
        for (int64_t k = 0; k < 4 * kHidden; ++k)
          dh.at({b, j}) += gates.at({row, k}) * x[3].at({k, j});
      }
    }
  return {gates, dh, dc};
}

void add_sequences(Cases& cases) {
  const Input rows = {{kSteps * kBatch, kHidden}}, state = {{kBatch, kHidden}};
  const Input gates = {{kSteps * kBatch, 4 * kHidden}}, w = {{4 * kHidden, kHidden}};
  const auto run = [](const OpDef<RnnLayerAttrs>& op, In x, bool reverse) {
    std::vector<Tensor> dense;
    for (const Tensor& each : x) dense.push_back(contiguous(each));
    const RnnLayerAttrs attrs{.batch_sizes = {2, 2, 2}, .reverse = reverse};
    return all(detail::apply_all(op, args_of(dense), &attrs));
  };
  for (const bool reverse : {false, true}) {
    const char* const name = reverse ? "from the last" : "from the first";
    cases.add({.op = "lstm_layer",
               .name = name,
               .inputs = {gates, state, w, state},
               .run = [=](In x) { return run(lstm_layer_op, x, reverse); },
               .reference = [=](Arrays x) { return lstm_layer_of(x, reverse); },
               .dtypes = {kFloat32},
               .tolerance = 30});
    cases.add({.op = "lstm_layer_backward",
               .name = name,
               .inputs = {rows, state, state, w, gates, rows, state},
               .run = [=](In x) { return run(lstm_layer_backward_op, x, reverse); },
               .reference = [=](Arrays x) { return lstm_layer_backward_of(x, reverse); },
               .dtypes = {kFloat32},
               .tolerance = 100});
  }
}

}  // namespace

void rnn_cell_cases(Cases& cases) {
  add_sequences(cases);
  add_steps(cases);
  add_backward(cases);
  cases.add({.op = "rnn_layer",
             .name = "two sequences of different lengths",
             .inputs = {{{3, 1}}, {{2, 1}}, {{1, 1}}},
             .run =
                 [](In x) {
                   const RnnLayerAttrs attrs{.kind = rnn::Kind::tanh, .batch_sizes = {2, 1}};
                   return all(apply_all(rnn_layer_op, {x[0], x[1], x[2]}, attrs));
                 },
             .reference =
                 [](Arrays x) {
                   Array y(Shape{3, 1}), last(Shape{2, 1});
                   y[0] = std::tanh(x[0][0] + x[2][0] * x[1][0]);
                   y[1] = std::tanh(x[0][1] + x[2][0] * x[1][1]);
                   y[2] = std::tanh(x[0][2] + x[2][0] * y[0]);
                   last[0] = y[2];
                   last[1] = y[1];
                   return ArrayList{y, last};
                 },
             .tolerance = 8});
}

}  // namespace tensora::suite
