// Tensora's attention beside cuDNN's, forward and backward, over head sizes, lengths and layouts:
// what `library_is_faster` (ops/attention/attention_cuda.cu) was decided by. Results of the two are
// compared before they are timed.
//
//   tensora-bench-cuda_attention_routes [--few]     --few: only the rows of docs/benchmarks/gpu.md

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "tensora/backend/cuda/cudnn/attention.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

using cuda::cudnn::AttentionChoice;

const Device kCuda = Device(DeviceType::cuda);

struct Sizes {
  int64_t batch, heads, groups, length, size;
  bool causal;
  bool heads_inside = false;  // B L H D in memory, as a linear layer leaves it
};

double median_us(const std::function<void()>& body) {
  body();
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
    start.record();
    for (int k = 0; k < 3; ++k) body();
    end.record();
    end.synchronize();
    times.push_back(static_cast<double>(end.milliseconds_since(start)) / 3 * 1e3);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Times {
  double forward = 0, backward = 0;
};

/// Microseconds by one route, and what it computed.
Times timed(const Sizes& s, AttentionChoice choice, std::vector<Tensor>& results) {
  cuda::cudnn::set_attention_choice(choice);
  manual_seed(3);
  const auto made = [&](int64_t heads) {
    const TensorOptions options = {.dtype = kBFloat16, .device = kCuda};
    return s.heads_inside ? randn({s.batch, s.length, heads, s.size}, options).transpose(1, 2)
                          : randn({s.batch, heads, s.length, s.size}, options);
  };
  const Tensor q = made(s.heads).requires_grad_(), k = made(s.groups).requires_grad_(),
               v = made(s.groups).requires_grad_(), g = made(s.heads);
  const auto attend = [&] {
    return scaled_dot_product_attention(q, k, v, {}, 0, s.causal, {}, s.heads != s.groups);
  };
  const Tensor y = attend();
  const auto back = [&] {
    return tensora::grad(std::vector<Tensor>{y}, {q, k, v}, {g}, {.retain_graph = true});
  };
  results = back();
  results.push_back(y.detach());
  Times times;
  times.backward = median_us(back);
  const no_grad silent;
  times.forward = median_us(attend);
  return times;
}

bool row(const Sizes& s) {
  std::vector<Tensor> ours, theirs;
  const Times own = timed(s, AttentionChoice::own, ours);
  const Times library = timed(s, AttentionChoice::cudnn, theirs);
  bool agree = true;
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor a = ours[i].to(kFloat32), b = theirs[i].to(kFloat32);
    agree &= (a - b).norm().item<double>() < 1e-2 * b.norm().item<double>();
  }
  std::printf("%4ld %3ld %3ld %6ld %4ld %-6s %-6s %9.1f %9.1f %6.2f %10.1f %10.1f %6.2f%s\n",
              long(s.batch), long(s.heads), long(s.groups), long(s.length), long(s.size),
              s.causal ? "causal" : "", s.heads_inside ? "BLHD" : "BHLD", own.forward,
              library.forward, library.forward / own.forward, own.backward, library.backward,
              library.backward / own.backward, agree ? "" : "   THEY DISAGREE");
  std::fflush(stdout);
  return agree;
}

std::vector<Sizes> grid() {
  std::vector<Sizes> all;
  for (const int64_t size : {64, 128, 256})
    for (const int64_t length : {256, 512, 1024, 2048, 4096, 16384})
      for (const bool causal : {false, true})
        all.push_back({std::max<int64_t>(1, 16384 / length), 2048 / size, 2048 / size, length, size,
                       causal, length == 1024});
  for (const int64_t size : {40, 80, 96, 160}) all.push_back({8, 16, 16, 2048, size, true});
  for (const int64_t batch : {1, 2, 4}) all.push_back({batch, 12, 12, 1024, 64, true});
  for (const int64_t batch : {1, 2}) all.push_back({batch, 32, 8, 2048, 128, true, true});
  return all;
}

}  // namespace
}  // namespace tensora

int main(int argc, char** argv) {
  using namespace tensora;
  try {
    const std::string reason = unavailable_reason(DeviceType::cuda);
    if (!reason.empty()) {
      std::fprintf(stderr, "cuda_attention_routes: %s\n", reason.c_str());
      return 77;
    }
    std::vector<Sizes> sizes = {{4, 32, 32, 4096, 128, true}, {4, 32, 32, 4096, 128, false},
                                {4, 32, 32, 4096, 64, true},  {4, 16, 16, 4096, 256, true},
                                {16, 32, 32, 512, 128, true}, {16, 32, 32, 512, 64, true},
                                {32, 12, 12, 1024, 64, true}, {2, 32, 8, 8192, 128, true},
                                {1, 32, 8, 32768, 128, true}, {64, 16, 16, 197, 64, false}};
    if (argc < 2 || std::strcmp(argv[1], "--few") != 0)
      for (const Sizes& s : grid()) sizes.push_back(s);
    std::printf(
        "batch, heads, of key and value, length, head size; microseconds and cuDNN's share\n");
    bool agree = true;
    for (const Sizes& s : sizes) agree &= row(s);
    return agree ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_attention_routes: %s\n", error.what());
    return 1;
  }
}
