// The same rows as bench/core.cpp, by LibTorch. Built and run by bench/core.py where LibTorch is
// installed; never part of the product.
#include <torch/torch.h>

#include <cstring>

#include "bench/timing.h"

namespace {

const char* wanted = "";

template <class Body>
void row(const char* name, double scale, const char* unit, Body&& body, double seconds = 0.5) {
  if (std::strstr(name, wanted) == nullptr) return;
  const double median = bench::measure(body, seconds).median_s;
  bench::report(name, std::strcmp(unit, "GB/s") == 0 ? scale / median * 1e-9 : median * scale, unit,
                true);
}

void overhead() {
  const auto x = torch::ones({1}), one = torch::ones({1});
  const auto leaf = torch::ones({1}, torch::requires_grad());
  auto target = torch::ones({1});
  row("add1", 1e9, "ns", [&] { const auto y = torch::add(x, one); });
  row("add1_grad", 1e9, "ns", [&] { const auto y = torch::add(leaf, one); });
  row("add1_inplace", 1e9, "ns", [&] { target.add_(one); });
  row("empty1", 1e9, "ns", [&] { const auto y = torch::empty({1}); });
  if (std::strstr("chain100_backward", wanted) == nullptr) return;
  std::vector<double> times;
  for (int round = 0; round < 600; ++round) {
    auto start = torch::ones({1}, torch::requires_grad());
    auto y = start;
    for (int i = 0; i < 50; ++i) y = y * one + one;
    const double begin = bench::now();
    y.backward();
    times.push_back((bench::now() - begin) / 100);
  }
  std::sort(times.begin(), times.end());
  bench::report("chain100_backward", times[times.size() / 2] * 1e9, "ns/op", true);
}

void pointwise() {
  constexpr int64_t count = int64_t{16} << 20;
  const auto x = torch::randn({count}), y = torch::randn({count});
  const double bytes = double(count) * 4;
  row("relu_16M", 2 * bytes, "GB/s", [&] { const auto z = torch::relu(x); });
  row("add_16M", 3 * bytes, "GB/s", [&] { const auto z = torch::add(x, y); });
  row("exp_16M", 2 * bytes, "GB/s", [&] { const auto z = torch::exp(x); });
  row("sigmoid_16M", 2 * bytes, "GB/s", [&] { const auto z = torch::sigmoid(x); });
  row("gelu_16M", 2 * bytes, "GB/s", [&] { const auto z = torch::gelu(x); });
  row("tanh_16M", 2 * bytes, "GB/s", [&] { const auto z = torch::tanh(x); });
}

void reductions() {
  if (std::strstr("reduce", wanted) == nullptr) return;
  const auto x = torch::rand({16384, 4096});
  const double bytes = double(x.numel()) * 4;
  row(
      "reduce_sum_all", bytes, "GB/s", [&] { const auto z = x.sum(); }, 1.0);
  row(
      "reduce_sum_rows", bytes, "GB/s", [&] { const auto z = x.sum(1); }, 1.0);
  row(
      "reduce_sum_cols", bytes, "GB/s", [&] { const auto z = x.sum(0); }, 1.0);
  row(
      "reduce_max_all", bytes, "GB/s", [&] { const auto z = x.amax(); }, 1.0);
}

void products() {
  for (const int64_t n : {128, 256}) {
    const std::string name = "matmul_" + std::to_string(n);
    if (name.find(wanted) == std::string::npos) continue;
    const auto a = torch::randn({n, n}), b = torch::randn({n, n});
    const double seconds = bench::measure([&] { const auto c = torch::matmul(a, b); }).mean_s;
    bench::report(name.c_str(), seconds * 1e6, "us", true);
  }
}

void training() {
  for (const int64_t batch : {64, 256}) {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(784, 512), torch::nn::ReLU(),
                                torch::nn::Linear(512, 512), torch::nn::ReLU(),
                                torch::nn::Linear(512, 10));
    torch::optim::Adam optimizer(model->parameters(), 1e-3);
    const auto x = torch::randn({batch, 784});
    const auto labels = torch::randint(0, 10, {batch}, torch::kLong);
    const std::string name = "mlp_b" + std::to_string(batch);
    row(
        name.c_str(), 1e3, "ms",
        [&] {
          optimizer.zero_grad();
          auto loss = torch::nn::functional::cross_entropy(model->forward(x), labels);
          loss.backward();
          optimizer.step();
          volatile float value = loss.item<float>();
          (void)value;
        },
        2.0);
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
}
