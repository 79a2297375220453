// How a matrix product gets fast on a GPU, in four steps, each beside cuBLASLt.
//
//   naive      a thread per result; every operand element is read n times from the caches
//   tiled      a block shares tiles of both operands in shared memory: n / 32 reads
//   registers  a thread computes 8 x 8 results from registers: shared memory is read 8 times less
//   tensor     bf16 on the tensor cores, with the next tiles in flight while these are computed
//
// The first three are float32. All compute c = a @ b of row-major n x n matrices, n a multiple of
// 128: what happens at the edges is left out, to show the rest. Every version is checked against
// the library's result before it is timed.
//
//   tensora-bench-cuda_matmul [N...]     default: 1024 4096

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tensora/backend/cuda/runtime/check.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/tensora.h"

namespace tensora {
namespace {

// ---- 1: naive ---------------------------------------------------------------------------------
// Two loads per multiplication. Threads of a warp share a row of a and read adjacent columns of
// b, so at least no memory transaction is wasted.
__global__ void naive(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
  c[row * n + col] = sum;
}

// ---- 2: tiled ---------------------------------------------------------------------------------
// A block of 32 x 32 threads computes as many results. It walks along k in steps of 32 and keeps
// the tiles it needs in shared memory, so each element is read once per block instead of 32 times.
// What bounds it now is shared memory: still two reads per multiplication.
__global__ void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[32][32], tile_b[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += 32) {
    tile_a[y][x] = a[row * n + k0 + x];
    tile_b[y][x] = b[(k0 + y) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();  // nobody may overwrite a tile that somebody still reads
  }
  c[row * n + col] = sum;
}

// ---- 3: registers -----------------------------------------------------------------------------
// 256 threads compute 128 x 128 results, 8 x 8 each. For every k a thread reads 8 + 8 numbers and
// does 64 multiplications. The tile of a is stored transposed so that both reads are 16 bytes wide;
// the two halves of a thread's columns lie 64 apart, so that adjacent threads read adjacent banks.
constexpr int kSide = 128, kDepth = 8;

__global__ void __launch_bounds__(256) registers(const float* a, const float* b, float* c, int n) {
  __shared__ alignas(16) float tile_a[kDepth][kSide + 4], tile_b[kDepth][kSide];
  const int thread = threadIdx.x, x = thread % 16, y = thread / 16;
  const float* const rows = a + blockIdx.y * kSide * n;
  const float* const cols = b + blockIdx.x * kSide;
  float sums[8][8] = {};
  for (int k0 = 0; k0 < n; k0 += kDepth) {
    const auto from_a =
        *reinterpret_cast<const float4*>(&rows[thread / 2 * n + k0 + thread % 2 * 4]);
    const auto from_b =
        *reinterpret_cast<const float4*>(&cols[(k0 + thread / 32) * n + thread % 32 * 4]);
    __syncthreads();
    const float turned[4] = {from_a.x, from_a.y, from_a.z, from_a.w};
    for (int i = 0; i < 4; ++i) tile_a[thread % 2 * 4 + i][thread / 2] = turned[i];
    *reinterpret_cast<float4*>(&tile_b[thread / 32][thread % 32 * 4]) = from_b;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      alignas(16) float left[8], right[8];
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float4*>(left + half * 4) =
            *reinterpret_cast<const float4*>(&tile_a[k][half * 64 + y * 4]);
        *reinterpret_cast<float4*>(right + half * 4) =
            *reinterpret_cast<const float4*>(&tile_b[k][half * 64 + x * 4]);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += left[i] * right[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = blockIdx.y * kSide + i / 4 * 64 + y * 4 + i % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const s = sums[i] + half * 4;
      *reinterpret_cast<float4*>(&c[row * n + blockIdx.x * kSide + half * 64 + x * 4]) =
          make_float4(s[0], s[1], s[2], s[3]);
    }
  }
}

// ---- 4: tensor cores --------------------------------------------------------------------------
// A warp's mma.sync multiplies a 16 x 16 by a 16 x 8 matrix of bf16 and adds to 16 x 8 floats, each
// spread over the registers of its 32 threads; ldmatrix brings shared memory into that order.
// 8 warps compute 128 x 128 results, each 64 x 32. cp.async copies from global to shared memory
// without passing through registers: kStages tiles are in flight or in use at any time.
//
// Shared memory is written and read in chunks of 16 bytes. Where a chunk lies within its row is
// turned by the row's number (swizzled): the eight rows that ldmatrix reads together would
// otherwise lie in the same banks, and be read one after the other.
//
// Hopper's own wgmma reads both operands from shared memory and is about half as fast again; the
// library uses it, this file stays with what every GPU since Ampere has.
constexpr int kStages = 4, kSlice = 32;  // k per stage
constexpr int kTileBytes = kSide * kSlice * 2;
constexpr int kSharedBytes = 2 * kStages * kTileBytes;

__device__ inline unsigned swizzled_a(unsigned row, unsigned chunk) {  // 4 chunks per row
  return row * 64 + (chunk ^ row / 2 % 4) * 16;
}
__device__ inline unsigned swizzled_b(unsigned row, unsigned chunk) {  // 16 chunks per row
  return row * 256 + (chunk ^ row % 8) * 16;
}

__device__ inline void copy_16_bytes(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ inline void close_group() { asm volatile("cp.async.commit_group;"); }
/// Waits until all groups but the newest kStages - 2 have arrived.
__device__ inline void wait_for_oldest() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
}
__device__ inline void load_matrices(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
__device__ inline void load_transposed(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The slice of both operands that stage `stage` holds: two chunks of each per thread.
__device__ inline void request_slice(const BFloat16* a, const BFloat16* b, int n, int k0,
                                     unsigned stage_address) {
  for (unsigned i = threadIdx.x; i < kTileBytes / 16; i += 256) {
    const unsigned row = i / 4, chunk = i % 4;
    copy_16_bytes(stage_address + swizzled_a(row, chunk), a + row * n + k0 + chunk * 8);
  }
  for (unsigned i = threadIdx.x; i < kTileBytes / 16; i += 256) {
    const unsigned row = i / 16, chunk = i % 16;
    copy_16_bytes(stage_address + kTileBytes + swizzled_b(row, chunk),
                  b + (k0 + row) * n + chunk * 8);
  }
}

// One slice's worth of multiplications of a warp: 64 x 32 results, two steps of 16 along k.
__device__ inline void multiply_slice(unsigned tile_a, unsigned tile_b, unsigned warp_row,
                                      unsigned warp_col, float (&sums)[4][4][4]) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned step = 0; step < kSlice / 16; ++step) {
    unsigned left[4][4], right[2][4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      load_matrices(left[i],
                    tile_a + swizzled_a(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
    for (unsigned j = 0; j < 2; ++j)
      load_transposed(right[j],
                      tile_b + swizzled_b(step * 16 + lane % 16, warp_col / 8 + j * 2 + lane / 16));
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
  }
}

__global__ void __launch_bounds__(256)
    tensor(const BFloat16* a, const BFloat16* b, BFloat16* c, int n) {
  extern __shared__ uint4 shared[];
  const auto shared_address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto stage_address = [&](int slice) {
    return shared_address + static_cast<unsigned>(slice % kStages * 2 * kTileBytes);
  };
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned warp_row = warp / 4 * 64, warp_col = warp % 4 * 32;
  a += blockIdx.y * kSide * n;
  b += blockIdx.x * kSide;
  float sums[4][4][4] = {};
  const int slices = n / kSlice;
  for (int slice = 0; slice < kStages - 1; ++slice) {
    request_slice(a, b, n, slice * kSlice, stage_address(slice));
    close_group();
  }
  for (int slice = 0; slice < slices; ++slice) {
    wait_for_oldest();
    __syncthreads();  // everybody's part has arrived, and the oldest stage is no longer read
    const int next = slice + kStages - 1;
    if (next < slices) request_slice(a, b, n, next * kSlice, stage_address(next));
    close_group();  // an empty group keeps the count
    const unsigned tile_a = stage_address(slice);
    multiply_slice(tile_a, tile_a + kTileBytes, warp_row, warp_col, sums);
  }
  // A thread holds two adjacent results in each of two rows, 8 apart.
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half) {
        const unsigned row = blockIdx.y * kSide + warp_row + i * 16 + lane / 4 + half * 8;
        const unsigned col = blockIdx.x * kSide + warp_col + j * 8 + lane % 4 * 2;
        c[row * n + col] = BFloat16(sums[i][j][half * 2]);
        c[row * n + col + 1] = BFloat16(sums[i][j][half * 2 + 1]);
      }
}

// ---- the bench --------------------------------------------------------------------------------

const Device kCuda = Device(DeviceType::cuda);

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

struct Version {
  const char* name;
  DType dtype;
  std::function<void(const Tensor& a, const Tensor& b, const Tensor& c, cudaStream_t)> run;
};

std::vector<Version> versions() {
  const auto floats = [](auto* kernel, int tile, dim3 block) {
    return [=](const Tensor& a, const Tensor& b, const Tensor& c, cudaStream_t stream) {
      const int n = static_cast<int>(a.size(0));
      const dim3 grid(n / tile, n / (tile == 32 && block.y != 32 ? block.y : tile));
      kernel<<<grid, block, 0, stream>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                         c.data_ptr<float>(), n);
    };
  };
  const auto on_tensor_cores = [](const Tensor& a, const Tensor& b, const Tensor& c,
                                  cudaStream_t stream) {
    const int n = static_cast<int>(a.size(0));
    cuda::check_cuda(
        cudaFuncSetAttribute(tensor, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "cudaFuncSetAttribute");
    tensor<<<dim3(n / kSide, n / kSide), 256, kSharedBytes, stream>>>(
        a.data_ptr<BFloat16>(), b.data_ptr<BFloat16>(), c.data_ptr<BFloat16>(), n);
  };
  return {{"naive", kFloat32, floats(naive, 32, dim3(32, 8))},
          {"tiled", kFloat32, floats(tiled, 32, dim3(32, 32))},
          {"registers", kFloat32, floats(registers, kSide, dim3(256))},
          {"tensor", kBFloat16, on_tensor_cores}};
}

bool run(int64_t n) {
  check(n > 0 && n % kSide == 0 && n <= 32768, "n must be a multiple of 128 up to 32768, got ", n);
  bool all_correct = true;
  const auto stream = static_cast<cudaStream_t>(cuda::Stream::current(kCuda).handle());
  const double flops = 2.0 * double(n) * double(n) * double(n);
  std::printf("%ld x %ld\n  %-10s %-9s %10s %10s %12s\n", long(n), long(n), "version", "dtype",
              "ms", "TFLOP/s", "of cuBLASLt");
  for (const Version& version : versions()) {
    manual_seed(1);
    const TensorOptions options = {.dtype = version.dtype, .device = kCuda};
    const Tensor a = randn({n, n}, options), b = randn({n, n}, options);
    const Tensor c = full({n, n}, NAN, options), expected = matmul(a, b);
    const auto body = [&] { version.run(a, b, c, stream); };
    body();
    cuda::check_cuda(cudaGetLastError(), version.name);
    const double scale = expected.abs().amax().item<double>();
    const double error = (c - expected).abs().amax().item<double>() / scale;
    const bool correct = error < (version.dtype == kFloat32 ? 1e-5 : 1e-2);  // false for NaN
    all_correct &= correct;
    const double ms = median_ms(body), library_ms = median_ms([&] { matmul(a, b); });
    std::printf("  %-10s %-9s %10.3f %10.1f %11.0f %%%s\n", version.name,
                std::string(name(version.dtype)).c_str(), ms, flops / ms * 1e-9,
                100 * library_ms / ms, correct ? "" : "   WRONG RESULT");
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
      std::fprintf(stderr, "cuda_matmul: %s\n", reason.c_str());
      return 77;
    }
    const no_grad silent;
    bool correct = true;
    for (int i = 1; i < argc; ++i) correct &= run(std::atoll(argv[i]));
    if (argc == 1)
      for (int64_t n : {1024, 4096}) correct &= run(n);
    return correct ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_matmul: %s\n", error.what());
    return 1;
  }
}
