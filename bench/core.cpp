// Our side of `./dev bench core`: op overhead, large pointwise ops, reductions and a training step.
// Every row is first checked against a plain computation in double. bench/core.py runs this beside
// the peers and prints the table.
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "bench/mlp.h"
#include "bench/timing.h"
#include "tensora/tensora.h"

using namespace tensora;

namespace {

const char* wanted = "";
bool all_correct = true;

bool skip(const char* name) { return std::strstr(name, wanted) == nullptr; }

void report(const char* name, double value, const char* unit, bool correct) {
  all_correct &= correct;
  bench::report(name, value, unit, correct);
}

bool close(double got, double expected, double tolerance) {
  return std::abs(got - expected) <= tolerance * (1 + std::abs(expected));
}

void overhead() {
  const Tensor x = ones({1}), one = ones({1});
  const Tensor leaf = ones({1}, {.requires_grad = true});
  const auto row = [](const char* name, const std::function<double()>& value, double expected,
                      auto&& body) {
    if (skip(name)) return;
    const bool correct = close(value(), expected, 1e-6);
    report(name, bench::measure(body).median_s * 1e9, "ns", correct);
  };
  row(
      "add1", [&] { return (x + one).item<double>(); }, 2, [&] { const Tensor y = x + one; });
  row(
      "add1_grad", [&] { return (leaf + one).item<double>(); }, 2,
      [&] { const Tensor y = leaf + one; });
  row(
      "add1_inplace", [&] { return x.clone().add_(one).item<double>(); }, 2, [&] { x.add_(one); });
  row(
      "empty1", [&] { return double(empty({1}).numel()); }, 1,
      [&] { const Tensor y = empty({1}); });

  if (skip("chain100_backward")) return;
  // 50 times (y * 1) + 1: only the backward is timed, per op.
  std::vector<double> times;
  bool correct = true;
  for (int round = 0; round < 600; ++round) {
    const Tensor start = full({1}, 2.0, {.requires_grad = true});
    Tensor y = start;
    for (int i = 0; i < 50; ++i) y = y * one + one;
    const double begin = bench::now();
    y.backward();
    times.push_back((bench::now() - begin) / 100);
    correct &= close(start.grad().item<double>(), 1, 1e-6) && close(y.item<double>(), 52, 1e-6);
  }
  std::sort(times.begin(), times.end());
  report("chain100_backward", times[times.size() / 2] * 1e9, "ns/op", correct);
}

void pointwise() {
  constexpr int64_t count = int64_t{16} << 20;
  manual_seed(1);
  const Tensor x = randn({count}), y = randn({count});
  const auto row = [&](const char* name, int arrays, auto&& op,
                       double (*expected)(double, double)) {
    if (skip(name)) return;
    const Tensor result = op();
    bool correct = true;
    for (int64_t i = 0; i < count; i += 99991)
      correct &= close(result.data_ptr<float>()[i],
                       expected(x.data_ptr<float>()[i], y.data_ptr<float>()[i]), 3e-6);
    const double seconds = bench::measure([&] { const Tensor out = op(); }).median_s;
    report(name, double(arrays) * double(count) * 4 / seconds * 1e-9, "GB/s", correct);
  };
  row(
      "relu_16M", 2, [&] { return relu(x); }, [](double a, double) { return std::max(a, 0.0); });
  row(
      "add_16M", 3, [&] { return add(x, y); }, [](double a, double b) { return a + b; });
  row(
      "exp_16M", 2, [&] { return exp(x); }, [](double a, double) { return std::exp(a); });
  row(
      "sigmoid_16M", 2, [&] { return sigmoid(x); },
      [](double a, double) { return 1 / (1 + std::exp(-a)); });
  row(
      "gelu_16M", 2, [&] { return gelu(x); },
      [](double a, double) { return a * 0.5 * std::erfc(-a / std::sqrt(2.0)); });
  row(
      "tanh_16M", 2, [&] { return tanh(x); }, [](double a, double) { return std::tanh(a); });
}

// The speed at which the same pool can merely read memory: the ceiling of a reduction.
double read_bandwidth(const Tensor& x) {
  const uint64_t* words = static_cast<const uint64_t*>(x.data_ptr());
  const int64_t count = static_cast<int64_t>(x.nbytes() / 8);
  std::atomic<uint64_t> sink{0};
  const double seconds = bench::measure([&] {
                           parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
                             uint64_t lanes[16] = {};
                             int64_t i = begin;
                             for (; i + 16 <= end; i += 16)
                               for (int lane = 0; lane < 16; ++lane) lanes[lane] ^= words[i + lane];
                             for (int lane = 1; lane < 16; ++lane) lanes[0] ^= lanes[lane];
                             sink.fetch_xor(lanes[0], std::memory_order_relaxed);
                           });
                         }).median_s;
  return double(x.nbytes()) / seconds * 1e-9;
}

void reductions() {
  constexpr int64_t rows = 16384, cols = 4096;  // 256 MiB: far more than any cache here
  if (skip("reduce")) return;
  manual_seed(2);
  const Tensor x = rand({rows, cols});
  double total = 0, first_row = 0, first_col = 0, largest = 0;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const double value = x.data_ptr<float>()[i];
    total += value;
    largest = std::max(largest, value);
    if (i < cols) first_row += value;
    if (i % cols == 0) first_col += value;
  }
  const auto row = [&](const char* name, double expected, auto&& op) {
    const bool correct = close(op().template data_ptr<float>()[0], expected, 1e-5);
    const double seconds = bench::measure([&] { const Tensor out = op(); }, 1.0).median_s;
    report(name, double(x.nbytes()) / seconds * 1e-9, "GB/s", correct);
  };
  report("reduce_read_ceiling", read_bandwidth(x), "GB/s", true);
  row("reduce_sum_all", total, [&] { return sum(x); });
  row("reduce_sum_rows", first_row, [&] { return sum(x, {1}); });
  row("reduce_sum_cols", first_col, [&] { return sum(x, {0}); });
  row("reduce_max_all", largest, [&] { return amax(x); });
  report("reduce_read_ceiling_again", read_bandwidth(x), "GB/s", true);
}

// Products small enough that waiting for another thread can cost more than the product.
void products() {
  for (const int64_t n : {128, 256}) {
    const std::string name = "matmul_" + std::to_string(n);
    if (skip(name.c_str())) continue;
    manual_seed(4);
    const Tensor a = randn({n, n}), b = randn({n, n});
    const Tensor exact = matmul(a.to(kFloat64), b.to(kFloat64));
    const bool correct =
        (matmul(a, b).to(kFloat64) - exact).abs().amax().item<double>() < 1e-5 * double(n);
    const double seconds = bench::measure([&] { const Tensor c = matmul(a, b); }).mean_s;
    report(name.c_str(), seconds * 1e6, "us", correct);
  }
}

void training() {
  for (const int64_t batch : {64, 256}) {
    const std::string name = "mlp_b" + std::to_string(batch);
    if (skip(name.c_str())) continue;
    manual_seed(3);
    bench::Mlp model;
    const Tensor x = randn({batch, 784});
    const Tensor labels = randint(0, 10, {batch});
    const bool correct = model.learns(x, labels);
    const double seconds =
        bench::measure([&] { model.step(x, labels).item<double>(); }, 2.0).median_s;
    report(name.c_str(), seconds * 1e3, "ms", correct);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) wanted = argv[1];
  overhead();
  pointwise();
  reductions();
  products();
  training();
  return all_correct ? 0 : 1;
}
