// A small benchmark of the CUDA backend: bandwidth of the loops, speed of matmul, cost of a launch.
// Every row is checked first.
#include <cmath>
#include <cstdio>
#include <functional>

#include "tensora/backend/cuda/stream.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

const Device kCuda = Device(DeviceType::cuda);

// Milliseconds per call on the device: the median of several timed groups.
double device_ms(const std::function<void()>& body, int calls) {
  for (int i = 0; i < 3; ++i) body();
  std::vector<double> times;
  for (int group = 0; group < 7; ++group) {
    cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
    start.record();
    for (int i = 0; i < calls; ++i) body();
    end.record();
    end.synchronize();
    times.push_back(static_cast<double>(end.milliseconds_since(start)) / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double copy_gbps = 0;

void bandwidth_row(const char* name, double bytes, const std::function<void()>& body) {
  const double gbps = bytes / device_ms(body, 10) * 1e-6;
  if (copy_gbps == 0) copy_gbps = gbps;
  std::printf("%-36s %8.0f GB/s  %5.1f %% of copy\n", name, gbps, 100 * gbps / copy_gbps);
}

bool check_rows(DType dtype) {
  const Tensor x = randn({64, 96}).to(dtype);
  const Tensor y = x.cuda();
  const auto close = [](const Tensor& a, const Tensor& b) {
    return (a.cpu().to(kFloat64) - b.to(kFloat64)).abs().amax().item<double>() < 0.2;
  };
  return close(y + y, x + x) && close(y.sum({1}), x.sum({1})) && close(y.sum({0}), x.sum({0})) &&
         close(y.transpose(0, 1).contiguous(), x.transpose(0, 1).contiguous());
}

void loops(DType dtype, const char* type) {
  if (!check_rows(dtype)) {
    std::printf("%s: WRONG RESULTS, not timed\n", type);
    return;
  }
  const int64_t n = 1 << 14;  // n x n elements: 268 M
  const double bytes =
      static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(element_size(dtype));
  const Tensor x = ones({n, n}, {.dtype = dtype, .device = kCuda});
  const Tensor y = ones({n, n}, {.dtype = dtype, .device = kCuda});
  const Tensor row = ones({n}, {.dtype = dtype, .device = kCuda});
  const Tensor column = ones({n, 1}, {.dtype = dtype, .device = kCuda});
  std::printf("--- %s, 268 M elements\n", type);
  copy_gbps = 0;
  bandwidth_row("copy (the measure)", 2 * bytes, [&] { y.copy_(x); });
  bandwidth_row("exp", 2 * bytes, [&] { exp(x); });
  bandwidth_row("add", 3 * bytes, [&] { add(x, y); });
  bandwidth_row("add row", 2 * bytes, [&] { add(x, row); });
  bandwidth_row("add column", 2 * bytes, [&] { add(x, column); });
  bandwidth_row("add number", 2 * bytes, [&] { add(x, 2.0); });
  bandwidth_row("gelu", 2 * bytes, [&] { gelu(x); });
  bandwidth_row("fill", bytes, [&] { y.fill_(1); });
  bandwidth_row("sum of all", bytes, [&] { x.sum(); });
  bandwidth_row("sum over rows (dim 1)", bytes, [&] { x.sum({1}); });
  bandwidth_row("sum over columns (dim 0)", bytes, [&] { x.sum({0}); });
  bandwidth_row("max with indices (dim 1)", bytes, [&] { max(x, 1); });
  bandwidth_row("transposed copy", 2 * bytes, [&] { y.copy_(x.transpose(0, 1)); });
}

void products(DType dtype, const char* type) {
  for (int64_t n : {1024, 4096, 8192}) {
    const Tensor a = randn({n, n}).cuda().to(dtype), b = randn({n, n}).cuda().to(dtype);
    const double ms = device_ms([&] { matmul(a, b); }, 5);
    const double size = static_cast<double>(n);
    std::printf("matmul %s %5ld: %8.1f TFLOP/s\n", type, static_cast<long>(n),
                2 * size * size * size / ms * 1e-9);
  }
}

void launches() {
  const Tensor one = ones({1}, {.device = kCuda});
  const no_grad silent;
  const int calls = 20000;
  const double ms = device_ms([&] { add(one, one); }, calls);
  std::printf("eager add of one element: %.2f us per op\n", ms * 1e3);
}

int run() {
  const std::string reason = unavailable_reason(DeviceType::cuda);
  if (!reason.empty()) {
    std::printf("%s\n", reason.c_str());
    return 77;
  }
  const no_grad silent;
  launches();
  loops(kFloat32, "float32");
  loops(kBFloat16, "bfloat16");
  products(kFloat32, "float32");
  products(kBFloat16, "bfloat16");
  return 0;
}

}  // namespace
}  // namespace tensora

int main() {
  try {
    return tensora::run();
  } catch (const std::exception& error) {
    std::printf("bench: %s\n", error.what());
    return 1;
  }
}
