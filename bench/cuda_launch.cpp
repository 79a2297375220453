// What the launch of one small op costs, and where the time goes. Every row gives two numbers:
//   host       microseconds until the call returns, while the device's queue is short
//   sustained  microseconds per call of a long run, which the slower of host and device decides
// The bare launches below Tensora's rows are CUDA's own price.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <memory>

#include "bench/timing.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

const Device kCuda = Device(DeviceType::cuda);

// Two kernels that do nothing, with parameters of 8 and of 512 bytes.
constexpr const char* kEmptyKernels = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry empty8(.param .u64 a) { ret; }
.visible .entry empty512(.param .align 8 .b8 a[512]) { ret; }
)";

void require(cudaError_t status) { check(status == cudaSuccess, cudaGetErrorString(status)); }

template <class Function>
Function* driver_function(const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  require(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found));
  return reinterpret_cast<Function*>(address);
}

cudaKernel_t empty_kernel(const char* name) {
  static const cudaLibrary_t library = [] {
    cudaLibrary_t loaded = nullptr;
    require(cudaLibraryLoadData(&loaded, kEmptyKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
    return loaded;
  }();
  cudaKernel_t kernel = nullptr;
  require(cudaLibraryGetKernel(&kernel, library, name));
  return kernel;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The time of a group of calls, with or without waiting for the device at its end.
double microseconds(const std::function<void()>& body, int calls, bool to_the_end) {
  std::vector<double> times;
  for (int group = 0; group < 15; ++group) {
    synchronize(kCuda);
    const double start = bench::now();
    for (int i = 0; i < calls; ++i) body();
    if (to_the_end) synchronize(kCuda);
    times.push_back((bench::now() - start) / calls * 1e6);
  }
  return median(times);
}

void row(const char* name, const std::function<void()>& body, int ops = 1) {
  for (int i = 0; i < 200; ++i) body();
  const double host = microseconds(body, std::max(1, 400 / ops), false) / ops;
  const double sustained = microseconds(body, std::max(1, 10000 / ops), true) / ops;
  std::printf("{\"name\": \"%s\", \"host_us\": %.3f, \"sustained_us\": %.3f}\n", name, host,
              sustained);
  std::fflush(stdout);
}

void bare_launches() {
  alignas(8) char parameters[512] = {};
  void* args[] = {parameters};
  const cuda::Stream own;
  const auto launch = [&](const char* kernel, cudaStream_t stream) {
    return [kernel = reinterpret_cast<const void*>(empty_kernel(kernel)), stream, &args] {
      require(cudaLaunchKernel(kernel, dim3(1), dim3(256), args, 0, stream));
    };
  };
  const auto side = static_cast<cudaStream_t>(own.handle());
  row("cudaLaunchKernel, nothing, default stream", launch("empty8", nullptr));
  row("cudaLaunchKernel, nothing, own stream", launch("empty8", side));
  row("cudaLaunchKernel, nothing, 512 bytes of parameters", launch("empty512", nullptr));
  cudaFunction_t function = nullptr;
  const auto of_kernel = driver_function<decltype(cuKernelGetFunction)>("cuKernelGetFunction");
  check(of_kernel(&function, empty_kernel("empty512")) == CUDA_SUCCESS, "cuKernelGetFunction");
  const auto by_driver =
      [&, call = driver_function<decltype(cuLaunchKernel)>("cuLaunchKernel")](cudaStream_t stream) {
        return [call, stream, function, &args] {
          check(call(function, 1, 1, 1, 256, 1, 1, 0, stream, args, nullptr) == CUDA_SUCCESS,
                "cuLaunchKernel");
        };
      };
  row("cuLaunchKernel, nothing, 512 bytes of parameters", by_driver(nullptr));
  row("cuLaunchKernel, nothing, 512 bytes, own stream", by_driver(side));
  row("cudaGetDevice", [] {
    int device = 0;
    require(cudaGetDevice(&device));
  });
}

void memory() {
  Allocator& memory = allocator(kCuda);
  row("allocate and free 4 bytes", [&] { memory.free(memory.allocate(4), 4); });
  row("empty tensor of one element", [] { empty({1}, {.device = kCuda}); });
}

void ops() {
  const Tensor one = ones({1}, {.device = kCuda}), matrix = ones({4, 5}, {.device = kCuda}),
               line = ones({5}, {.device = kCuda}), leaf = ones({1}, {.device = kCuda});
  check((one + one).item<float>() == 2 && (matrix + line).sum().item<float>() == 40,
        "wrong results");
  {
    const no_grad silent;
    row("add of one element", [&] { add(one, one); });
    row("add of one element in place", [&] { add_(one, one); });
    row("add of a number", [&] { add(one, 2.0); });
    row("add of one element, own stream",
        [&, guard = std::make_shared<cuda::StreamGuard>(cuda::Stream())] { add(one, one); });
    row("add of a broadcast row", [&] { add(matrix, line); });
    row("sum of 20 elements", [&] { matrix.sum(); });
    row("matmul of 4x5 and 5x4", [&, t = matrix.transpose(0, 1)] { matmul(matrix, t); });
  }
  leaf.requires_grad_();
  row("add of one element, recorded for backward", [&] { add(leaf, leaf); });
}

void graphs() {
  constexpr int kOps = 1000;
  const no_grad silent;
  const Tensor x = zeros({1}, {.device = kCuda});
  cuda::Graph graph;
  graph.capture([&] {
    for (int i = 0; i < kOps; ++i) x.add_(1);
  });
  graph.replay();
  check(x.item<float>() == kOps, "wrong results");
  row(
      "add of one element in a replayed graph", [&] { graph.replay(); }, kOps);
}

int run() {
  const std::string reason = unavailable_reason(DeviceType::cuda);
  if (!reason.empty()) {
    std::printf("%s\n", reason.c_str());
    return 77;
  }
  synchronize(kCuda);
  bare_launches();
  memory();
  ops();
  graphs();
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
