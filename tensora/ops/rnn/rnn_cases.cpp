#include "tensora/ops/rnn/rnn.h"

#include <cmath>

#include "tensora/ops/rnn/packed_sequence.h"
#include "tensora/ops/rnn/rnn_cell.h"
#include "tensora/ops/rnn/rnn_layer.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

using rnn::Kind;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

struct Sample {
  const char* name;
  Kind kind;
  int64_t layers = 1;
  bool bidirectional = false, biases = true, batch_first = false;
  std::vector<int64_t> lengths = {};  // empty: all as long as the input
  int64_t projected = 0;
  int64_t steps = 3, batch = 2, features = 3, hidden = 2;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t state() const { return projected ? projected : hidden; }
  int64_t gates() const { return (kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1) * hidden; }
  size_t per_layer() const { return (biases ? 4 : 2) + (projected ? 1 : 0); }
  size_t states() const { return kind == Kind::lstm ? 2 : 1; }
};

std::vector<Input> inputs_of(const Sample& s) {
  std::vector<Input> inputs;
  const auto add = [&](const Shape& sizes) {
    inputs.push_back({.sizes = sizes, .low = -1, .high = 1});
  };
  add(s.batch_first ? Shape{s.batch, s.steps, s.features} : Shape{s.steps, s.batch, s.features});
  add({s.layers * s.directions(), s.batch, s.state()});
  if (s.kind == Kind::lstm) add({s.layers * s.directions(), s.batch, s.hidden});
  for (int64_t i = 0; i < s.layers * s.directions(); ++i) {
    add({s.gates(), i < s.directions() ? s.features : s.state() * s.directions()});
    add({s.gates(), s.state()});
    if (s.biases) add({s.gates()}), add({s.gates()});
    if (s.projected) add({s.state(), s.hidden});
  }
  return inputs;
}

using Vector = std::vector<double>;

Vector product(const Array& w, const Vector& x) {
  Vector y(static_cast<size_t>(w.sizes[0]), 0);
  for (int64_t i = 0; i < w.sizes[0]; ++i)
    for (int64_t j = 0; j < w.sizes[1]; ++j)
      y[static_cast<size_t>(i)] += w.at({i, j}) * x[static_cast<size_t>(j)];
  return y;
}
void add_to(Vector& y, const Array& b) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += b.values[i];
}

// One step of one sequence, by the formulas of PyTorch's documentation.
void advance(const Sample& s, std::span<const Array> w, const Vector& x, Vector& h, Vector& c) {
  Vector from_x = product(w[0], x), from_h = product(w[1], h);
  if (s.biases) add_to(from_x, w[2]), add_to(from_h, w[3]);
  const auto n = static_cast<size_t>(s.hidden);
  Vector next(n);
  for (size_t j = 0; j < n; ++j) {
    const auto sum = [&](size_t gate) { return from_x[gate * n + j] + from_h[gate * n + j]; };
    if (s.kind == Kind::lstm) {
      c[j] = sigmoid_of(sum(1)) * c[j] + sigmoid_of(sum(0)) * std::tanh(sum(2));
      next[j] = sigmoid_of(sum(3)) * std::tanh(c[j]);
    } else if (s.kind == Kind::gru) {
      const double r = sigmoid_of(sum(0)), z = sigmoid_of(sum(1));
      next[j] = (1 - z) * std::tanh(from_x[2 * n + j] + r * from_h[2 * n + j]) + z * h[j];
    } else {
      next[j] = s.kind == Kind::tanh ? std::tanh(sum(0)) : std::max(0.0, sum(0));
    }
  }
  h = s.projected ? product(w[s.per_layer() - 1], next) : next;
}

ArrayList simulated(Arrays in, const Sample& s) {
  Array h_n(in[1].sizes), c_n(s.states() == 2 ? in[2].sizes : Shape{0});
  Array y(s.batch_first ? Shape{s.batch, s.steps, s.state() * s.directions()}
                        : Shape{s.steps, s.batch, s.state() * s.directions()});
  const auto vector_at = [](const Array& a, int64_t i, int64_t b) {
    const auto begin = a.values.begin() + (i * a.sizes[1] + b) * a.sizes[2];
    return Vector(begin, begin + a.sizes[2]);
  };
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = s.lengths.empty() ? s.steps : s.lengths[static_cast<size_t>(b)];
    std::vector<Vector> x;
    for (int64_t t = 0; t < length; ++t)
      x.push_back(s.batch_first ? vector_at(in[0], b, t) : vector_at(in[0], t, b));
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      std::vector<Vector> outputs(x.size());
      for (int64_t d = 0; d < s.directions(); ++d) {
        const int64_t i = layer * s.directions() + d;
        Vector h = vector_at(in[1], i, b), c;
        if (s.states() == 2) c = vector_at(in[2], i, b);
        const auto w = in.subspan(1 + s.states() + static_cast<size_t>(i) * s.per_layer());
        for (size_t k = 0; k < x.size(); ++k) {
          const size_t t = d == 0 ? k : x.size() - 1 - k;
          advance(s, w, x[t], h, c);
          outputs[t].insert(outputs[t].end(), h.begin(), h.end());
        }
        for (size_t j = 0; j < h.size(); ++j) h_n.at({i, b, static_cast<int64_t>(j)}) = h[j];
        for (size_t j = 0; j < c.size(); ++j) c_n.at({i, b, static_cast<int64_t>(j)}) = c[j];
      }
      x = outputs;
    }
    for (int64_t t = 0; t < length; ++t)
      for (int64_t j = 0; j < y.sizes[2]; ++j)
        (s.batch_first ? y.at({b, t, j}) : y.at({t, b, j})) =
            x[static_cast<size_t>(t)][static_cast<size_t>(j)];
  }
  if (s.states() == 2) return {y, h_n, c_n};
  return {y, h_n};
}

// Runs padded sequences as they are, others packed.
template <class... State>
auto run_kind(const Sample& s, const Tensor& x, const Tensor* sizes,
              const std::vector<Tensor>& params, const auto& padded, const auto& packed,
              const State&... state) {
  return sizes
             ? packed(x, *sizes, state..., params, s.biases, s.layers, 0.0, false, s.bidirectional)
             : padded(x, state..., params, s.biases, s.layers, 0.0, false, s.bidirectional,
                      s.batch_first);
}

Out run_network(In in, const Sample& s) {
  const std::vector<Tensor> params(in.begin() + 1 + static_cast<std::ptrdiff_t>(s.states()),
                                   in.end());
  PackedSequence sequence;
  if (!s.lengths.empty()) sequence = pack_padded_sequence(in[0], s.lengths, s.batch_first);
  const Tensor& x = s.lengths.empty() ? in[0] : sequence.data;
  const Tensor* const sizes = s.lengths.empty() ? nullptr : &sequence.batch_sizes;
  const auto unpacked = [&](const Tensor& y) {
    if (!sizes) return y;
    PackedSequence result = sequence;
    result.data = y;
    return std::get<0>(pad_packed_sequence(result, s.batch_first));
  };
  if (s.kind == Kind::lstm) {
    const std::vector<Tensor> states = {in[1], in[2]};
    auto [y, h, c] = run_kind(
        s, x, sizes, params, [](const auto&... a) { return lstm(a...); },
        [](const auto&... a) { return lstm(a...); }, states);
    return {unpacked(y), h, c};
  }
  const auto both = [&](const auto& function) {
    auto [y, h] = run_kind(s, x, sizes, params, function, function, in[1]);
    return Out{unpacked(y), h};
  };
  if (s.kind == Kind::gru) return both([](const auto&... a) { return gru(a...); });
  if (s.kind == Kind::tanh) return both([](const auto&... a) { return rnn_tanh(a...); });
  return both([](const auto&... a) { return rnn_relu(a...); });
}

const char* name_of(Kind kind) {
  return kind == Kind::lstm   ? "lstm"
         : kind == Kind::gru  ? "gru"
         : kind == Kind::tanh ? "rnn_tanh"
                              : "rnn_relu";
}

void add_networks(Cases& cases) {
  const Sample samples[] = {
      {.name = "one layer", .kind = Kind::lstm},
      {.name = "two layers, both directions",
       .kind = Kind::lstm,
       .layers = 2,
       .bidirectional = true},
      {.name = "without biases, batch first",
       .kind = Kind::lstm,
       .biases = false,
       .batch_first = true},
      {.name = "projected", .kind = Kind::lstm, .layers = 2, .projected = 1},
      {.name = "packed",
       .kind = Kind::lstm,
       .bidirectional = true,
       .lengths = {4, 2, 2},
       .steps = 4,
       .batch = 3},
      {.name = "one layer", .kind = Kind::gru},
      {.name = "without biases, both directions",
       .kind = Kind::gru,
       .bidirectional = true,
       .biases = false},
      {.name = "packed",
       .kind = Kind::gru,
       .layers = 2,
       .bidirectional = true,
       .lengths = {4, 2, 1},
       .steps = 4,
       .batch = 3},
      {.name = "one layer", .kind = Kind::tanh},
      {.name = "packed, batch first",
       .kind = Kind::tanh,
       .bidirectional = true,
       .batch_first = true,
       .lengths = {3, 1}},
      {.name = "two layers", .kind = Kind::relu, .layers = 2},
      {.name = "wide", .kind = Kind::lstm, .steps = 2, .batch = 3, .features = 5, .hidden = 150},
  };
  for (const Sample& sample : samples) {
    std::map<Mode, std::string> opt_out;
    if (sample.hidden > 100) opt_out[Mode::grad] = "is large";
    if (!sample.lengths.empty()) opt_out[Mode::jit] = "reads the lengths";
    cases.add({.op = name_of(sample.kind),
               .name = sample.name,
               .inputs = inputs_of(sample),
               .run = [=](In x) { return run_network(x, sample); },
               .reference = [=](Arrays x) { return simulated(x, sample); },
               .tolerance = 30,
               .opt_out = opt_out});
  }
}

void add_cells(Cases& cases) {
  for (const Kind kind : {Kind::lstm, Kind::gru, Kind::tanh, Kind::relu}) {
    Sample sample{.name = "", .kind = kind, .steps = 1};
    std::vector<Input> inputs = inputs_of(sample);
    for (size_t i = 0; i < 1 + sample.states(); ++i) inputs[i].sizes.erase(0);
    cases.add({.op = concat(kind == Kind::lstm ? "lstm" : name_of(kind), "_cell"),
               .name = "a batch",
               .inputs = inputs,
               .run =
                   [=](In x) {
                     if (kind == Kind::lstm) {
                       auto [h, c] = lstm_cell(x[0], {x[1], x[2]}, x[3], x[4], x[5], x[6]);
                       return Out{h, c};
                     }
                     if (kind == Kind::gru)
                       return one(gru_cell(x[0], x[1], x[2], x[3], x[4], x[5]));
                     if (kind == Kind::tanh)
                       return one(rnn_tanh_cell(x[0], x[1], x[2], x[3], x[4], x[5]));
                     return one(rnn_relu_cell(x[0], x[1], x[2], x[3], x[4], x[5]));
                   },
               .reference =
                   [=](Arrays x) {
                     ArrayList widened(x.begin(), x.end());
                     for (size_t i = 0; i < 1 + sample.states(); ++i) widened[i].sizes.insert(0, 1);
                     ArrayList all = simulated(widened, sample);
                     for (Array& array : all) array.sizes.erase(0);
                     all.erase(all.begin());
                     return all;
                   },
               .tolerance = 30});
  }
  cases.add({.op = "lstm_cell",
             .name = "no batch, no biases",
             .inputs = {{{3}}, {{1}}, {{1}}, {{4, 3}}, {{4, 1}}},
             .run =
                 [](In x) {
                   auto [h, c] = lstm_cell(x[0], {x[1], x[2]}, x[3], x[4]);
                   return Out{h, c};
                 },
             .reference =
                 [](Arrays x) {
                   const Sample sample{
                       .name = "", .kind = Kind::lstm, .biases = false, .hidden = 1};
                   Vector h = x[1].values, c = x[2].values;
                   advance(sample, x.subspan(3), x[0].values, h, c);
                   Array hidden(Shape{1}), cell(Shape{1});
                   hidden.values = h;
                   cell.values = c;
                   return ArrayList{hidden, cell};
                 },
             .tolerance = 30});
}

void add_packing(Cases& cases) {
  cases.add({.op = "pack_padded_sequence",
             .name = "unsorted",
             .inputs = {{{3, 2, 2}}},
             .run =
                 [](In x) {
                   const PackedSequence packed = pack_padded_sequence(
                       x[0], std::vector<int64_t>{1, 3}, false, /*enforce_sorted=*/false);
                   return Out{packed.data, packed.batch_sizes};
                 },
             .reference =
                 [](Arrays x) {
                   Array data(Shape{4, 2}), sizes(Shape{3});
                   const int64_t rows[][2] = {{0, 1}, {0, 0}, {1, 1}, {2, 1}};
                   for (int64_t i = 0; i < 4; ++i)
                     for (int64_t j = 0; j < 2; ++j)
                       data.at({i, j}) = x[0].at({rows[i][0], rows[i][1], j});
                   sizes.values = {2, 1, 1};
                   return ArrayList{data, sizes};
                 },
             .opt_out = {{Mode::meta, "batch_sizes is on the cpu"}},
             .output_dtypes = {{}, kInt64}});
  cases.add({.op = "pad_packed_sequence",
             .name = "longer",
             .inputs = {{{3, 2, 2}}},
             .run =
                 [](In x) {
                   auto [padded, lengths] = pad_packed_sequence(
                       pack_padded_sequence(x[0], std::vector<int64_t>{1, 3}, false, false), true,
                       7, 4);
                   return Out{padded, lengths};
                 },
             .reference =
                 [](Arrays x) {
                   Array padded(Shape{2, 4, 2}, 7), lengths(Shape{2});
                   for (int64_t j = 0; j < 2; ++j) {
                     padded.at({0, 0, j}) = x[0].at({0, 0, j});
                     for (int64_t t = 0; t < 3; ++t) padded.at({1, t, j}) = x[0].at({t, 1, j});
                   }
                   lengths.values = {1, 3};
                   return ArrayList{padded, lengths};
                 },
             .opt_out = {{Mode::meta, "reads the lengths"}, {Mode::jit, "reads the lengths"}},
             .output_dtypes = {{}, kInt64}});
  cases.add({.op = "pad_sequence",
             .name = "two",
             .inputs = {{{3, 2}}, {{1, 2}}},
             .run =
                 [](In x) {
                   return one(pad_sequence({x[0], x[1]}, true, 5));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 3, 2}, 5);
                   for (int64_t i = 0; i < 6; ++i) out[i] = x[0][i];
                   for (int64_t i = 0; i < 2; ++i) out[6 + i] = x[1][i];
                   return one(out);
                 }});
}

void add_errors(Cases& cases) {
  const auto x = [] { return zeros({3, 2, 4}); };
  const auto h = [] { return zeros({1, 2, 5}); };
  const auto params = [] {
    return std::vector<Tensor>{zeros({20, 4}), zeros({20, 5}), zeros({20}), zeros({20})};
  };
  cases.error("lstm", "states", "expected two states, hidden and cell, got 1",
              [=] { lstm(x(), {h()}, params(), true, 1, 0, false, false, false); });
  cases.error("lstm", "parameters", "expected 4 parameters for each of 2 layers", [=] {
    const Tensor both = zeros({2, 2, 5});
    lstm(x(), {both, both}, params(), true, 1, 0, false, true, false);
  });
  cases.error("lstm", "features", "w_ih of layer 0 must have shape [20, 3], got [20, 4]", [=] {
    lstm(zeros({3, 2, 3}), {h(), h()}, params(), true, 1, 0, false, false, false);
  });
  cases.error("lstm", "batch", "the hidden state must have shape [1, 2, H], got [1, 3, 5]", [=] {
    lstm(x(), {zeros({1, 3, 5}), h()}, params(), true, 1, 0, false, false, false);
  });
  cases.error("gru", "dims", "gru: input must have 3 dims", [=] {
    gru(zeros({3, 4}), h(), params(), true, 1, 0, false, false, false);
  });
  cases.error("gru", "no steps", "at least one step", [=] {
    gru(zeros({0, 2, 4}), h(), params(), true, 1, 0, false, false, false);
  });
  cases.error("lstm_cell", "batch", "states must have a row of the hidden size", [=] {
    lstm_cell(zeros({2, 4}), {zeros({1, 5}), zeros({2, 5})}, params()[0], params()[1]);
  });
  cases.error("pack_padded_sequence", "growing", "lengths must not grow", [=] {
    pack_padded_sequence(x(), std::vector<int64_t>{1, 3});
  });
  cases.error("pack_padded_sequence", "too long", "lengths must be between 1 and 3, got 4", [=] {
    pack_padded_sequence(x(), std::vector<int64_t>{4, 3});
  });
}

}  // namespace

void rnn_cases(Cases& cases) {
  add_networks(cases);
  add_cells(cases);
  add_packing(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
