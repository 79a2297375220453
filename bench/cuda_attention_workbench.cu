// How attention gets fast on a GPU, in four steps.
//
//   naive      a thread per query: every key and value is read again by every thread, and the
//              scores are computed twice, for want of a place to keep them
//   tiled      a block shares tiles of keys and values in shared memory, and the online softmax
//              makes one pass of it
//   tensor     products on the tensor cores by mma.sync, scores and results in registers, the next
//              tiles in flight (attention_forward_mma.cuh)
//   hopper     warps that only load, by TMA, beside warps that only compute, by wgmma; products and
//              exponentials at the same time (attention_forward_sm90a.cu)
//
// The first two are written here, for bfloat16 with a head size of 128 and lengths that are
// multiples of 64: what happens at the edges is left out, to show the rest. The other two are the
// library's own kernels; their notes say how they work. Every version is checked against the
// definition in other ops, at a length where that fits into memory, before it is timed.
//
//   tensora-bench-cuda_attention [N...]     queries and keys per head; default: 1024 4096

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tensora/backend/cuda/runtime/check.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/attention/attention.h"
#include "tensora/ops/attention/attention_call.h"
#include "tensora/ops/attention/attention_definition.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

constexpr int kSize = 128;  // of a head

// ---- 1: naive ---------------------------------------------------------------------------------
// The definition: scores, their largest, exponentials, and the weighted sum of the values. A query
// with its N scores does not fit into a thread, so they are computed once for the largest and once
// more for the exponentials. What bounds it are the loads: two per multiplication, from the caches.
__global__ void naive(const BFloat16* q, const BFloat16* k, const BFloat16* v, BFloat16* out, int n,
                      float scale, bool causal) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t head = int64_t{blockIdx.y} * n * kSize;
  const int keys = causal ? row + 1 : n;
  const auto score = [&](int key) {
    float sum = 0;
    for (int d = 0; d < kSize; ++d)
      sum += float(q[head + row * kSize + d]) * float(k[head + key * kSize + d]);
    return sum * scale;
  };
  float largest = -INFINITY, total = 0;
  for (int key = 0; key < keys; ++key) largest = fmaxf(largest, score(key));
  float sums[kSize] = {};
  for (int key = 0; key < keys; ++key) {
    const float e = expf(score(key) - largest);
    total += e;
#pragma unroll
    for (int d = 0; d < kSize; ++d) sums[d] += e * float(v[head + key * kSize + d]);
  }
#pragma unroll
  for (int d = 0; d < kSize; ++d) out[head + row * kSize + d] = BFloat16(sums[d] / total);
}

// ---- 2: tiled ---------------------------------------------------------------------------------
// 256 threads have 64 queries and walk over the keys in tiles of 64. Thread (x, y) holds a 4 x 4
// part of the tile of scores, and 4 rows by 8 columns of the results. The online softmax keeps per
// row the largest score so far, the sum of exponentials relative to it, and results that go with
// them; when the largest grows, the other two shrink. So nothing is computed twice, and nothing as
// large as the matrix of scores is ever stored. What bounds it now is the arithmetic of float32.
constexpr int kTile = 64, kPitch = kSize + 4;

__device__ inline float over_row(float value, bool sums) {
  for (int step = 8; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step, 16);
    value = sums ? value + other : fmaxf(value, other);
  }
  return value;
}

__device__ inline void load_rows(const BFloat16* from, float* to) {
  for (int i = threadIdx.x; i < kTile * kSize; i += 256)
    to[i / kSize * kPitch + i % kSize] = float(from[i]);
}

__global__ void __launch_bounds__(256)
    tiled(const BFloat16* q, const BFloat16* k, const BFloat16* v, BFloat16* out, int n,
          float scale, bool causal) {
  extern __shared__ float shared[];
  float *const queries = shared, *const keys = queries + kTile * kPitch,
               *const weights = keys + kTile * kPitch;  // keys: later the values
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, first = blockIdx.x * kTile;
  const int64_t head = int64_t{blockIdx.y} * n * kSize;
  load_rows(q + head + first * kSize, queries);
  float sums[4][8] = {}, largest[4], total[4] = {};
  for (float& value : largest) value = -INFINITY;
  for (int key = 0; key < (causal ? first + kTile : n); key += kTile) {
    __syncthreads();  // nobody may overwrite a tile that somebody still reads
    load_rows(k + head + key * kSize, keys);
    __syncthreads();
    float scores[4][4] = {};
    for (int d = 0; d < kSize; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          scores[i][j] += queries[(y * 4 + i) * kPitch + d] * keys[(x + 16 * j) * kPitch + d];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float most = largest[i];
      for (int j = 0; j < 4; ++j) {
        const bool hidden = causal && key + x + 16 * j > first + y * 4 + i;
        scores[i][j] = hidden ? -INFINITY : scores[i][j] * scale;
        most = fmaxf(most, scores[i][j]);
      }
      most = over_row(most, false);
      const float shrink = expf(largest[i] - most);
      float sum = 0;
      for (int j = 0; j < 4; ++j) {
        const float e = expf(scores[i][j] - most);
        weights[(y * 4 + i) * (kTile + 1) + x + 16 * j] = e;
        sum += e;
      }
      total[i] = total[i] * shrink + over_row(sum, true);
      largest[i] = most;
      for (int j = 0; j < 8; ++j) sums[i][j] *= shrink;
    }
    __syncthreads();
    load_rows(v + head + key * kSize, keys);
    __syncthreads();
    for (int c = 0; c < kTile; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          sums[i][j] += weights[(y * 4 + i) * (kTile + 1) + c] * keys[c * kPitch + x + 16 * j];
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j)
      out[head + (first + y * 4 + i) * kSize + x + 16 * j] = BFloat16(sums[i][j] / total[i]);
}

// ---- the bench --------------------------------------------------------------------------------

const Device kCuda = Device(DeviceType::cuda);

struct Problem {
  Tensor q, k, v, out, logarithms;  // B H N D, contiguous
  bool causal;

  int64_t heads() const { return q.size(0) * q.size(1); }
  int n() const { return static_cast<int>(q.size(2)); }
};

cuda::AttentionCall call_of(const Problem& p) {
  const auto array = [](const Tensor& x) {
    cuda::Array4 result{.data = static_cast<char*>(x.data_ptr()),
                        .element = cuda::Element::bfloat16};
    for (int d = 0; d < 4; ++d) result.strides[d] = x.stride(d);
    return result;
  };
  return {.query = array(p.q),
          .key = array(p.k),
          .value = array(p.v),
          .result = array(p.out),
          .logarithms = p.logarithms.data_ptr(),
          .sequences = p.q.size(0),
          .queries = p.n(),
          .keys = p.n(),
          .heads = static_cast<int>(p.q.size(1)),
          .groups = static_cast<int>(p.q.size(1)),
          .head_size = kSize,
          .value_size = kSize,
          .scale = 1 / std::sqrt(double(kSize)),
          .causal = p.causal};
}

struct Version {
  const char* name;
  int64_t most;  // queries and keys at which it is still worth waiting for
  std::function<bool(const Problem&, cudaStream_t)> run;
};

std::vector<Version> versions() {
  const float scale = 1 / std::sqrt(float(kSize));
  const auto plain = [=](const Problem& p, cudaStream_t stream) {
    naive<<<dim3(p.n() / 64, p.heads()), 64, 0, stream>>>(
        p.q.data_ptr<BFloat16>(), p.k.data_ptr<BFloat16>(), p.v.data_ptr<BFloat16>(),
        p.out.data_ptr<BFloat16>(), p.n(), scale, p.causal);
    return true;
  };
  const auto in_tiles = [=](const Problem& p, cudaStream_t stream) {
    constexpr int kShared = (2 * kTile * kPitch + kTile * (kTile + 1)) * 4;
    cuda::check_cuda(
        cudaFuncSetAttribute(tiled, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
        "cudaFuncSetAttribute");
    tiled<<<dim3(p.n() / kTile, p.heads()), 256, kShared, stream>>>(
        p.q.data_ptr<BFloat16>(), p.k.data_ptr<BFloat16>(), p.v.data_ptr<BFloat16>(),
        p.out.data_ptr<BFloat16>(), p.n(), scale, p.causal);
    return true;
  };
  const auto on_tensor_cores = [](const Problem& p, cudaStream_t) {
    cuda::forward_on_tensor_cores<BFloat16>("bench", 0, call_of(p));
    return true;
  };
  const auto on_hopper = [](const Problem& p, cudaStream_t) {
    return cuda::runs_sm90a(0) && cuda::forward_on_hopper("bench", 0, call_of(p));
  };
  return {{"naive", 1024, plain},
          {"tiled", 4096, in_tiles},
          {"tensor", 65536, on_tensor_cores},
          {"hopper", 65536, on_hopper}};
}

double median_ms(const std::function<void()>& body) {
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    cuda::Event start(kCuda, cuda::Event::Timing::on), end(kCuda, cuda::Event::Timing::on);
    start.record();
    body();
    end.record();
    end.synchronize();
    times.push_back(static_cast<double>(end.milliseconds_since(start)));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Problem make_problem(int64_t batch, int64_t heads, int64_t n, bool causal) {
  manual_seed(1);
  const TensorOptions options = {.dtype = kBFloat16, .device = kCuda};
  const Shape sizes = {batch, heads, n, kSize};
  return {randn(sizes, options),
          randn(sizes, options),
          randn(sizes, options),
          full(sizes, NAN, options),
          zeros({batch, heads, n}, {.device = kCuda}),
          causal};
}

bool is_correct(const Version& version, cudaStream_t stream, bool causal) {
  const Problem p = make_problem(1, 2, 512, causal);
  if (!version.run(p, stream)) return true;
  cuda::check_cuda(cudaGetLastError(), version.name);
  const Arg inputs[] = {p.q, p.k, p.v};
  const Tensor expected = attention_definition(inputs, {.is_causal = causal})[0];
  const double error = (p.out - expected).abs().amax().item<double>();
  return error < 2e-2;  // false for NaN
}

bool run(int64_t n, bool causal) {
  check(n > 0 && n % 128 == 0 && n <= 65536, "n must be a multiple of 128 up to 65536, got ", n);
  const auto stream = static_cast<cudaStream_t>(cuda::Stream::current(kCuda).handle());
  const Problem p = make_problem(4, 32, n, causal);
  const double flops = 4.0 * double(p.heads()) * double(n) * double(n) * kSize * (causal ? 0.5 : 1);
  std::printf("4 x 32 heads of %ld queries and keys, size 128%s\n  %-10s %10s %10s\n", long(n),
              causal ? ", causal" : "", "version", "ms", "TFLOP/s");
  bool all_correct = true;
  for (const Version& version : versions()) {
    if (n > version.most) continue;
    const bool correct = is_correct(version, stream, causal);
    all_correct &= correct;
    if (!version.run(p, stream)) {
      std::printf("  %-10s   this device cannot run it\n", version.name);
      continue;
    }
    const double ms = median_ms([&] { version.run(p, stream); });
    std::printf("  %-10s %10.3f %10.1f%s\n", version.name, ms, flops / ms * 1e-9,
                correct ? "" : "   WRONG RESULT");
  }
  return all_correct;
}

}  // namespace
}  // namespace tensora

int main(int argc, char** argv) {
  using namespace tensora;
  try {
    const std::string reason = unavailable_reason(DeviceType::cuda);
    if (!reason.empty()) {
      std::fprintf(stderr, "cuda_attention: %s\n", reason.c_str());
      return 77;
    }
    const no_grad silent;
    std::vector<int64_t> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
    if (sizes.empty()) sizes = {1024, 4096};
    bool correct = true;
    for (const int64_t n : sizes)
      for (const bool causal : {false, true}) correct &= run(n, causal);
    return correct ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_attention: %s\n", error.what());
    return 1;
  }
}
