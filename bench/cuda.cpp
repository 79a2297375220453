// Our side of `./dev bench cuda`: loops against the memory's bandwidth, matrix
// products, the cost of a launch, a training step. Every row is checked before
// it is timed. bench/cuda.py runs PyTorch's rows of the same names beside it
// and prints the table.
//
// Matrix products, and the training rows called _graph, are replayed from a
// CUDA graph: what the device needs, without the host.
//
//   tensora-bench-cuda [--filter TEXT]     one line of JSON per row
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "bench/mlp.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

const Device kCuda = Device(DeviceType::cuda);
const char* wanted = "";
bool all_correct = true;

using Body = std::function<Tensor()>;
using Check = std::function<bool(const Tensor& result)>;

double group_ms(const Body& body, int calls) {
  cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
  start.record();
  for (int i = 0; i < calls; ++i) body();
  end.record();
  end.synchronize();
  return static_cast<double>(end.milliseconds_since(start)) / calls;
}

/// Milliseconds per call on the device: the median of several groups of calls.
double device_ms(const Body& body) {
  group_ms(body, 3);
  const double once = group_ms(body, 3);
  const int calls = std::clamp(static_cast<int>(10 / std::max(once, 1e-4)), 1, 1000);
  std::vector<double> times;
  for (int group = 0; group < 7; ++group) times.push_back(group_ms(body, calls));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// The same of a recorded graph of up to ten calls: what the device needs, without the host.
double graph_ms(const Body& body) {
  const double once = group_ms(body, 3);
  const int calls = std::clamp(static_cast<int>(1 / std::max(once, 1e-4)), 1, 10);
  cuda::Graph graph(kCuda);
  graph.capture([&] {
    for (int i = 0; i < calls; ++i) body();
  });
  // See Note [The power limit] in cuda.py.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return device_ms([&] {
           graph.replay();
           return Tensor();
         }) /
         calls;
}

/// What a row moves or computes; bench/cuda.py turns it into TB/s or TFLOP/s.
struct Work {
  double bytes = 0, flops = 0;
};

using Measure = double(const Body& body);

void row(const std::string& name, Work work, const Body& body, const Check& check,
         Measure* measure = device_ms) {
  if (name.find(wanted) == std::string::npos) return;
  const bool correct = check(body());
  all_correct &= correct;
  std::printf(
      "{\"name\": \"%s\", \"ms\": %.6g, \"bytes\": %.6g, \"flops\": "
      "%.6g, \"correct\": %s}\n",
      name.c_str(), measure(body), work.bytes, work.flops, correct ? "true" : "false");
  std::fflush(stdout);
}

/// Whether two tensors agree within `tolerance` of the expected one's largest element.
bool close(const Tensor& got, const Tensor& expected, double tolerance) {
  const Tensor want = expected.cpu().to(kFloat64);
  const double scale = want.abs().amax().item<double>();
  const double error = (got.cpu().to(kFloat64) - want).abs().amax().item<double>();
  return got.sizes() == expected.sizes() && error <= tolerance * scale;  // false for NaN
}

constexpr int64_t kRows = 65536, kCols = 4096;
constexpr int64_t kSide = 16384;  // as many elements, 268 million, in a square
constexpr int64_t kLongRows = 1024;

/// The first and the last rows, which the CPU can check.
Tensor ends(const Tensor& x) {
  return x.dim() == 0 ? x : cat({x.narrow(0, 0, 2), x.narrow(0, x.size(0) - 2, 2)}, 0);
}

using In = const Tensor&;

/// The memory-bound rows of one dtype.
class Loops {
 public:
  Loops(DType dtype, const std::string& type)
      : type_(type + "."), tolerance_(dtype == kFloat32 ? 2e-6 : 8e-3) {
    const TensorOptions options = {.dtype = dtype, .device = kCuda};
    manual_seed(1);
    x_ = randn({kRows, kCols}, options);
    y_ = randn({kRows, kCols}, options);
    line_ = randn({kCols}, options);
    column_ = randn({kRows, 1}, options);
    out_ = empty({kRows, kCols}, options);
    bytes_ = static_cast<double>(x_.nbytes());
  }

  void copies() const {
    row(
        type_ + "copy", {.bytes = 2 * bytes_}, [&] { return out_.copy_(x_); },
        [&](In result) { return close(ends(result), ends(x_), 0); });
    const Tensor square = x_.view({kSide, kSide}), turned = out_.view({kSide, kSide});
    row(
        type_ + "transposed_copy", {.bytes = 2 * bytes_},
        [&] { return turned.copy_(square.transpose(0, 1)); },
        [&](In result) {
          return close(result.narrow(0, 5, 2), square.narrow(1, 5, 2).cpu().transpose(0, 1), 0) &&
                 close(result.narrow(1, 9, 2), square.narrow(0, 9, 2).cpu().transpose(0, 1), 0);
        });
    row(
        type_ + "fill", {.bytes = bytes_}, [&] { return out_.fill_(3); },
        [&](In result) {
          return close(ends(result), full({4, kCols}, 3.0), 0);
        });
  }

  void pointwise() const {
    const Binary add = [](In a, In b) { return a + b; };
    pointwise("add", 3, add, y_);
    pointwise("add_row", 2, add, line_);
    pointwise("add_column", 2, add, column_);
    const std::pair<const char*, Tensor (*)(In)> unary[] = {
        {"add_number", [](In a) { return a + 2.0; }}, {"relu", [](In a) { return relu(a); }},
        {"exp", [](In a) { return exp(a); }},         {"sigmoid", [](In a) { return sigmoid(a); }},
        {"tanh", [](In a) { return tanh(a); }},       {"gelu", [](In a) { return gelu(a); }}};
    for (const auto& [name, op] : unary)
      pointwise(
          name, 2, [op = op](In a, In) { return op(a); }, y_);
  }

  void reductions() const {
    row(
        type_ + "sum_all", {.bytes = bytes_}, [&] { return x_.sum(); },
        [&](In result) {
          const Tensor rows = x_.sum({1}, false, kFloat32).cpu().to(kFloat64);
          const double expected = rows.sum().item<double>(), got = result.item<double>();
          return std::abs(got - expected) < tolerance_ * std::abs(expected) + 1;
        });
    row(
        type_ + "sum_rows", {.bytes = bytes_}, [&] { return x_.sum({1}); },
        [&](In result) {
          return close(ends(result), ends(x_).cpu().to(kFloat64).sum({1}), tolerance_ * 4);
        });
    row(
        type_ + "sum_cols", {.bytes = bytes_}, [&] { return x_.sum({0}); },
        [&](In result) {
          const Tensor two = x_.narrow(1, 0, 2).cpu().to(kFloat64);
          return close(result.narrow(0, 0, 2), two.sum({0}), tolerance_ * 4);
        });
    row(
        type_ + "max_rows", {.bytes = bytes_}, [&] { return std::get<1>(max(x_, 1)); },
        [&](In result) {
          return close(ends(result).to(kFloat64), ends(x_).cpu().argmax(1).to(kFloat64), 0);
        });
  }

  void variances() const {
    const auto exact = [](In x, int64_t dim) { return x.cpu().to(kFloat64).var(Dims{dim}); };
    row(
        type_ + "var_rows", {.bytes = bytes_}, [&] { return x_.var(Dims{1}); },
        [&](In result) { return close(ends(result), exact(ends(x_), 1), tolerance_ * 4); });
    const Tensor wide = x_.view({kLongRows, -1});  // rows that do not fit on the chip
    row(
        type_ + "var_long_rows", {.bytes = bytes_}, [&] { return wide.var(Dims{1}); },
        [&](In result) { return close(ends(result), exact(ends(wide), 1), tolerance_ * 4); });
    row(
        type_ + "var_cols", {.bytes = bytes_}, [&] { return x_.var(Dims{0}); },
        [&](In result) {
          return close(result.narrow(0, 0, 2), exact(x_.narrow(1, 0, 2), 0), tolerance_ * 4);
        });
  }

 private:
  using Binary = std::function<Tensor(In, In)>;

  // op(x, other), checked on the first and last rows.
  void pointwise(const char* name, int passes, const Binary& op, const Tensor& other) const {
    row(
        type_ + name, {.bytes = passes * bytes_}, [&] { return op(x_, other); },
        [&](In result) {
          const Tensor part = other.size(0) == kRows ? ends(other) : other;
          const Tensor exact = op(ends(x_).cpu().to(kFloat64), part.cpu().to(kFloat64));
          return close(ends(result), exact, tolerance_);
        });
  }

  std::string type_;
  double tolerance_, bytes_ = 0;
  Tensor x_, y_, line_, column_, out_;
};

void loops(DType dtype, const std::string& type) {
  const Loops rows(dtype, type);
  rows.copies();
  rows.pointwise();
  rows.reductions();
  rows.variances();
}

/// Whether `places` are all different and below n.
bool all_different(const Tensor& places, int64_t n) {
  const Tensor seen = zeros({n}, {.device = kCuda}).index_fill(0, places, 1);
  return seen.sum({0}, false, kFloat64).item<double>() == static_cast<double>(places.numel());
}

/// Choosing elements: by a mask, by indices, at random.
void choices() {
  constexpr int64_t kCount = int64_t{1} << 24, kTable = 50257, kWidth = 768, kTokens = 16384;
  manual_seed(4);
  const Tensor x = randn({kCount}, {.device = kCuda}), mask = x > 0;
  const Tensor square = mask.view({4096, 4096});
  const auto sum = [](In numbers) { return numbers.sum({}, false, kFloat64).item<double>(); };
  row(
      "nonzero", {}, [&] { return nonzero(mask); },
      [&](In result) { return equal(result.cpu(), nonzero(mask.cpu())); });
  row(
      "nonzero_2d", {}, [&] { return nonzero(square); },
      [&](In result) { return equal(result.cpu(), nonzero(square.cpu())); });
  row(
      "masked_select", {}, [&] { return masked_select(x, mask); },
      [&](In result) { return equal(result.cpu(), masked_select(x.cpu(), mask.cpu())); });
  const Tensor table = randn({kTable, kWidth}, {.device = kCuda});
  const Tensor tokens = randint(0, kTable, {kTokens}, {.device = kCuda});
  row(
      "index_select", {.bytes = 2.0 * kTokens * kWidth * 4},
      [&] { return index_select(table, 0, tokens); },
      [&](In result) { return equal(result.cpu(), index_select(table.cpu(), 0, tokens.cpu())); });
  for (const int64_t n : {int64_t{1} << 20, kCount})
    row(
        concat("randperm_", n >> 20, "M"), {}, [&] { return randperm(n, {.device = kCuda}); },
        [&](In result) { return all_different(result, n); });
  const Tensor one_row = rand({1 << 20}, {.device = kCuda});
  const Tensor rows = rand({256, 32768}, {.device = kCuda});
  row(
      "multinomial_1M", {}, [&] { return multinomial(one_row, 64); },
      [&](In result) { return all_different(result, one_row.numel()); });
  row(
      "multinomial_256x32768", {}, [&] { return multinomial(rows, 64); },
      [&](In result) {
        return all_different(result.select(0, 0), 32768) &&
               all_different(result.select(0, 255), 32768) && sum(result) > 0;
      });
}

struct Product {
  int64_t batch, m, k, n;
  bool transposed;  // b lies as n k, like the weight of a linear layer
  bool bias;
};

std::string name_of(const Product& p) {
  const std::string shape =
      p.batch > 1 ? concat(p.batch, "x", p.m, "x", p.k, "x", p.n) : concat(p.m, "x", p.k, "x", p.n);
  return shape + (p.transposed ? "t" : "") + (p.bias ? "+bias" : "");
}

// A few rows of the product against the CPU, relative to the largest element.
bool product_is_close(const Tensor& result, const Tensor& a, const Tensor& b, const Tensor& bias,
                      double tolerance) {
  const auto rows = [](const Tensor& x) {
    const int64_t m = x.size(-2), count = std::min<int64_t>(m, 2);
    return cat({x.narrow(-2, 0, count), x.narrow(-2, m - count, count)}, -2);
  };
  const auto first = [](const Tensor& x) { return x.dim() == 3 ? x.select(0, x.size(0) - 1) : x; };
  const Tensor exact = matmul(rows(first(a)).cpu().to(kFloat64), first(b).cpu().to(kFloat64));
  const Tensor expected = bias.defined() ? exact + bias.cpu().to(kFloat64) : exact;
  return close(rows(first(result)), expected, tolerance);
}

void products(DType dtype, const std::string& type, double tolerance) {
  const std::string kind = type + (cuda::matmul_tuning() ? ".matmul_tuned." : ".matmul.");
  const Product all[] = {
      {1, 1024, 1024, 1024, false, false}, {1, 4096, 4096, 4096, false, false},
      {1, 8192, 8192, 8192, false, false}, {1, 1, 4096, 4096, false, false},
      {1, 1, 4096, 4096, true, false},     {1, 8, 4096, 4096, false, false},
      {1, 8, 4096, 4096, true, false},     {1, 4096, 4096, 16, false, false},
      {1, 4096, 4096, 1, false, false},    {64, 512, 512, 512, false, false},
      {1024, 64, 64, 64, false, false},    {64, 128, 64, 128, true, false},
      {1, 64, 784, 512, true, true},       {1, 256, 784, 512, true, true},
      {1, 4096, 4096, 4096, true, true},
  };
  const TensorOptions options = {.dtype = dtype, .device = kCuda};
  for (const Product& p : all) {
    if (dtype == kFloat64 && p.m == 8192) continue;  // seconds per product
    manual_seed(2);
    const auto matrix = [&](int64_t rows, int64_t cols) {
      return p.batch > 1 ? randn({p.batch, rows, cols}, options) : randn({rows, cols}, options);
    };
    const Tensor a = matrix(p.m, p.k);
    const Tensor b = p.transposed ? matrix(p.n, p.k).transpose(-2, -1) : matrix(p.k, p.n);
    const Tensor bias = p.bias ? randn({p.n}, options) : Tensor();
    const double flops = 2.0 * static_cast<double>(p.batch * p.m) * static_cast<double>(p.k * p.n);
    row(
        kind + name_of(p), {.flops = flops},
        [&] { return p.bias ? addmm(bias, a, b) : matmul(a, b); },
        [&](const Tensor& result) { return product_is_close(result, a, b, bias, tolerance); },
        graph_ms);
  }
}

void launches() {
  const Tensor x = ones({1}, {.device = kCuda}), one = ones({1}, {.device = kCuda});
  const Tensor leaf = ones({1}, {.device = kCuda, .requires_grad = true});
  const Check is_two = [](const Tensor& y) { return y.item<double>() == 2; };
  row(
      "add_1_element", {}, [&] { return x + one; }, is_two);
  const enable_grad recording;
  row(
      "add_1_element_grad", {}, [&] { return leaf + one; }, is_two);
}

void training() {
  const enable_grad recording;
  for (const int64_t batch : {64, 256}) {
    manual_seed(3);
    const Tensor x = randn({batch, 784}).cuda(), labels = randint(0, 10, {batch}).cuda();
    const Check learns = [&](const Tensor&) { return bench::Mlp(kCuda).learns(x, labels); };
    bench::Mlp eager(kCuda), recorded(kCuda);
    row(
        concat("mlp_b", batch), {}, [&] { return eager.step(x, labels); }, learns);
    row(
        concat("mlp_b", batch, "_graph"), {}, [&] { return recorded.step(x, labels); }, learns,
        graph_ms);
  }
}

int run() {
  const std::string reason = unavailable_reason(DeviceType::cuda);
  if (!reason.empty()) {
    std::fprintf(stderr, "bench cuda: %s\n", reason.c_str());
    return 77;
  }
  const no_grad silent;
  launches();
  training();
  loops(kFloat32, "f32");
  loops(kBFloat16, "bf16");
  choices();
  products(kBFloat16, "bf16", 1e-2);
  products(kFloat16, "f16", 2e-3);
  products(kFloat32, "f32", 1e-5);
  cuda::allow_tf32(true);
  products(kFloat32, "tf32", 2e-3);
  cuda::set_matmul_tuning(true);
  products(kFloat32, "tf32", 2e-3);
  cuda::set_matmul_tuning(false);
  cuda::allow_tf32(false);
  products(kFloat64, "f64", 1e-13);
  return all_correct ? 0 : 1;
}

}  // namespace
}  // namespace tensora

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--filter") == 0) tensora::wanted = argv[2];
  try {
    return tensora::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench cuda: %s\n", error.what());
    return 1;
  }
}
