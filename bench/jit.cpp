// Chains, norms and softmaxes, eagerly and compiled, for bench/jit.py: inputs come from formulas
// that PyTorch's side knows too, and samples of the results go out with the times.
#include <time.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "bench/timing.h"
#include "tensora/jit/compile.h"
#include "tensora/optim.h"
#include "tensora/tensora.h"

namespace bench {
namespace {

using namespace tensora;

Device device = kCPU;

// A GPU's caches would hold the arrays that exceed a processor's: there all are 16 times as large.
int64_t enlarged(int64_t size, int64_t factor) { return device.is_cpu() ? size : size * factor; }

// The fractional parts of multiples of an irrational number, between -1.7 and 1.7. `number` makes
// different inputs.
Tensor numbers(const Shape& sizes, int number = 0) {
  const Tensor multiples = arange(sizes.numel(), {.dtype = kFloat64, .device = device}) *
                           (0.6180339887498949 + 0.0625 * number);
  return ((multiples - floor(multiples) - 0.5) * 3.4).to(kFloat32).reshape(sizes);
}

/// A function without arguments, and how many arrays of `array_bytes` it must read and write.
struct Row {
  std::string name;
  std::function<Tensor()> run;
  double array_bytes = 0;
  int arrays = 0;
};

// Five ops, or four times five; `o` is broadcast, or transposed.
Tensor chain(const Tensor& x, const Tensor& o, int blocks) {
  Tensor y = x;
  for (int i = 0; i < blocks; ++i) {
    y = y * o + (0.25 + 0.25 * i);
    y = (i == 3 ? y.tanh() : y.relu()) * 0.5 - o;
  }
  return y;
}

void add_chains(std::vector<Row>& rows) {
  const int64_t side = enlarged(2048, 4);
  for (const DType dtype : {kFloat32, kBFloat16})
    for (const int blocks : {1, 4}) {
      const std::string name =
          std::string("chain") + (blocks == 1 ? "5" : "20") + (dtype == kFloat32 ? "" : "_bf16");
      const Tensor x = numbers({side, side}).to(dtype);
      const auto add = [&](const char* kind, const Tensor& o) {
        rows.push_back({name + "_" + kind, [=] { return chain(x, o, blocks); },
                        static_cast<double>(x.nbytes()), o.numel() == x.numel() ? 3 : 2});
      };
      add("row", numbers({side}, 1).to(dtype));
      add("column", numbers({side, 1}, 1).to(dtype));
      add("transposed", numbers({side, side}, 1).to(dtype).transpose(0, 1));
    }
}

// The gradient of a function's input, and the other way round through it.
Tensor with_gradient(const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                     const Tensor& grad) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor result = function(leaf);
  result.backward(grad);
  return leaf.grad();
}

void add_blocks(std::vector<Row>& rows) {
  const int64_t tokens = enlarged(4096, 16), images = enlarged(24, 16), side = enlarged(2048, 4);
  const Tensor x = numbers({tokens, 768}), residual = numbers({tokens, 768}, 1);
  const Tensor weight = numbers({768}, 2), bias = numbers({768}, 3);
  const Tensor grad = numbers({tokens, 768}, 4);
  const auto norm = [=](const Tensor& in) {
    return layer_norm(in + residual, {768}, weight, bias);
  };
  const Tensor scores = numbers({images, 256, 256}), score_grad = numbers({images, 256, 256}, 4);
  const Tensor mask = ones({256, 256}, {.device = device}).triu(1).to(kBool);
  const auto attention = [=](const Tensor& in) {
    return softmax((in * 0.125).masked_fill(mask, -INFINITY), -1);
  };
  const Tensor gate = numbers({side, side}), up = numbers({side, side}, 1),
               gate_grad = numbers({side, side}, 4);
  const auto swiglu = [=](const Tensor& in) { return silu(in) * up; };
  const auto add = [&](const char* name, const std::function<Tensor(const Tensor&)>& function,
                       const Tensor& in, const Tensor& out_grad, int forward, int both) {
    const double bytes = static_cast<double>(in.nbytes());
    rows.push_back({name, [=] { return function(in); }, bytes, forward});
    rows.push_back({std::string(name) + "_backward",
                    [=] { return with_gradient(function, in, out_grad); }, bytes, both});
  };
  // Behind the names: the arrays read and written forward; and with the gradient of the input, for
  // which forward's inputs and the gradient of the result are enough. Only the input's gradient is
  // used, the function's result is not.
  add("residual_norm", norm, x, grad, 3, 4);
  add("masked_softmax", attention, scores, score_grad, 2, 3);
  add("swiglu", swiglu, gate, gate_grad, 3, 4);
}

// What a call costs beside its arithmetic: tensors of 16 elements, with one to twenty ops, and the
// training step of a network of two layers.
void add_calls(std::vector<Row>& rows) {
  const Tensor x = numbers({16}), o = numbers({16}, 1);
  rows.push_back({"call1", [=] { return x * o; }, 64, 3});
  rows.push_back({"call5", [=] { return chain(x, o, 1); }, 64, 3});
  rows.push_back({"call20", [=] { return chain(x, o, 4); }, 64, 3});
  const Tensor in = numbers({8, 16}, 2), wanted = numbers({8, 4}, 3);
  std::vector<Tensor> weights;
  for (const Tensor& start :
       {numbers({32, 16}, 4), numbers({32}, 5), numbers({4, 32}, 6), numbers({4}, 7)})
    weights.push_back((start * 0.1).requires_grad_());
  auto optimizer =
      std::make_shared<optim::SGD>(weights, optim::SGDOptions{.lr = 1e-9, .momentum = 0.9});
  rows.push_back({"call_step",
                  [=] {
                    const Tensor hidden = linear(in, weights[0], weights[1]).relu();
                    const Tensor loss = mse_loss(linear(hidden, weights[2], weights[3]), wanted);
                    loss.backward();
                    optimizer->step();
                    optimizer->zero_grad();
                    return loss.detach();
                  },
                  64, 3});
}

// Training steps with activations, norms and optimizers written by hand. What is printed of them
// are the first weights. Few bytes are the least that they need: the weights, read and written.
void update(const std::vector<Tensor>& weights) {
  const no_grad silent;
  for (const Tensor& weight : weights) {
    weight.sub_(weight.grad() * 1e-9);  // the next call does the same
    weight.set_grad({});
  }
}

Tensor gelu_step(const Tensor& x, const Tensor& target, const std::vector<Tensor>& w) {
  const Tensor a = matmul(x, w[0]) + w[1];
  const Tensor gelu = a * 0.5 * ((a + a * a * a * 0.044715) * 0.7978845608).tanh().add(1);
  (matmul(gelu, w[2]) - target).square().mean().backward();
  update(w);
  return w[0].detach().clone();
}

Tensor swiglu_step(const Tensor& x, const Tensor& target, const std::vector<Tensor>& w) {
  Tensor y = x;
  for (size_t i = 0; i < w.size(); i += 4) {
    const Tensor norm = y * (y * y).mean({-1}, true).add(1e-5).rsqrt() * w[i];
    y = y + matmul(silu(matmul(norm, w[i + 1])) * matmul(norm, w[i + 2]), w[i + 3]);
  }
  (y - target).square().mean().backward();
  update(w);
  return w[1].detach().clone();
}

void add_steps(std::vector<Row>& rows) {
  const int64_t tokens = 1024, width = 256, hidden = 2048;
  const Tensor x = numbers({tokens, width}), target = numbers({tokens, width}, 1);
  const auto add = [&](const char* name, const auto& step, const std::vector<Shape>& shapes) {
    const auto weights = std::make_shared<std::vector<Tensor>>();
    int64_t bytes = 0;
    for (const Shape& sizes : shapes) {
      weights->push_back((numbers(sizes, 2) * 0.02).requires_grad_());
      bytes += weights->back().nbytes();
    }
    rows.push_back(
        {name, [=] { return step(x, target, *weights); }, static_cast<double>(bytes), 2});
  };
  add("gelu_step", gelu_step, {{width, hidden}, {hidden}, {hidden, width}});
  const std::vector<Shape> layer = {{width}, {width, hidden}, {width, hidden}, {hidden, width}};
  std::vector<Shape> layers = layer;
  layers.insert(layers.end(), layer.begin(), layer.end());
  add("swiglu_step", swiglu_step, layers);
  // Momentum of many small tensors.
  const auto all = std::make_shared<std::vector<Tensor>>();
  for (int i = 0; i < 64 * 3; ++i) all->push_back(numbers({300 + i / 3}, i % 3));
  rows.push_back({"momentum_step",
                  [=] {
                    const no_grad silent;
                    for (size_t i = 0; i < all->size(); i += 3) {
                      (*all)[i + 1].mul_(0.9).add_((*all)[i + 2]);
                      (*all)[i].sub_((*all)[i + 1] * 1e-9);
                    }
                    return (*all)[0].clone();
                  },
                  static_cast<double>(64 * 330 * 4), 5});
}

double difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(kFloat64), y = b.to(kFloat64);
  return ((x - y).abs().max() / y.abs().max()).item<double>();
}

// Seconds of the wall clock, or of the processor: on a machine that others use too, one thread's
// work takes the same processor time, whoever else runs.
bool processor_time = false;
double seconds_now() {
  if (!processor_time) return now();
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Body>
double time_of(Body&& body, double seconds) {
  if (!device.is_cpu()) {  // calls queue up, as in a program; the wait is shared by many
    constexpr int kCalls = 20;
    const auto calls = [&] {
      for (int i = 0; i < kCalls; ++i) body();
      synchronize(device);
    };
    return measure(calls, seconds).median_s / kCalls;
  }
  if (!processor_time) return measure(body, seconds).median_s;
  for (int i = 0; i < 3; ++i) body();
  const double once = seconds_now();
  body();
  const int group = std::max(1, static_cast<int>(100e-6 / std::max(seconds_now() - once, 1e-7)));
  std::vector<double> times;
  const double start = seconds_now();
  while (seconds_now() - start < seconds || times.size() < 5) {
    const double begin = seconds_now();
    for (int i = 0; i < group; ++i) body();
    times.push_back((seconds_now() - begin) / group);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Bytes per second of a copy, read and written: what a fused kernel can reach.
double copy_speed(double seconds) {
  const Tensor from = numbers({enlarged(2048, 4), enlarged(2048, 4)});
  Tensor to = empty_like(from);
  const double taken = time_of([&] { to.copy_(from); }, seconds);
  return 2 * static_cast<double>(from.nbytes()) / taken;
}

void run(const Row& row, double seconds, int rounds, bool wide) {
  const auto compiled = compile(row.run, {.name = row.name, .wide = wide});
  const Tensor expected = row.run();  // and the pages of eager's results
  const double begin = seconds_now();
  const Tensor result = compiled();
  synchronize(device);
  const double first = seconds_now() - begin;
  std::vector<double> times[2];
  for (int i = 0; i < rounds; ++i) {
    times[0].push_back(time_of(row.run, seconds));
    times[1].push_back(time_of([&] { compiled(); }, seconds));
  }
  for (std::vector<double>& list : times) std::sort(list.begin(), list.end());
  const size_t middle = static_cast<size_t>(rounds) / 2;
  std::printf(
      "{\"name\": \"%s\", \"eager_us\": %.6g, \"compiled_us\": %.6g, \"first_ms\": %.6g, "
      "\"bytes\": %.0f, \"difference\": %.3g, \"samples\": [",
      row.name.c_str(), times[0][middle] * 1e6, times[1][middle] * 1e6, first * 1e3,
      row.array_bytes * row.arrays, difference(result, expected));
  const Tensor flat = result.to(kFloat64).reshape({-1});
  constexpr int64_t kSamples = 64;
  for (int64_t i = 0; i < kSamples; ++i)
    std::printf("%s%.9g", i ? ", " : "",
                flat.select(0, i * (flat.numel() - 1) / (kSamples - 1)).item<double>());
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  std::string filter;
  double seconds = 0.3;
  int rounds = 3;
  bool explains = false, wide = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--filter") filter = value;
    if (flag == "--seconds") seconds = std::stod(value);
    if (flag == "--rounds") rounds = std::max(1, std::stoi(value));
    if (flag == "--explain") explains = value == "1";
    if (flag == "--wide") wide = value == "1";
    if (flag == "--clock") bench::processor_time = value == "cpu";
    if (flag == "--device") bench::device = tensora::Device(value);
  }
  try {
    if (!explains) std::printf("{\"copy\": %.6g}\n", bench::copy_speed(seconds));
    std::vector<bench::Row> rows;
    bench::add_chains(rows);
    bench::add_blocks(rows);
    bench::add_calls(rows);
    bench::add_steps(rows);
    for (const bench::Row& row : rows) {
      if (row.name.find(filter) == std::string::npos) continue;
      if (explains)
        std::printf("%s\n", tensora::compile(row.run, {.name = row.name}).explain().c_str());
      else
        bench::run(row, seconds, rounds, wide);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensora-bench-jit: %s\n", error.what());
    return 1;
  }
}
