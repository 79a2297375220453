// Kernels that run by blocks: their text compiles (which needs NVRTC but no GPU), and what they
// compute on a GPU is what they compute on the CPU.
#include "tensora/jit/block_text.h"
#include "tensora/jit/cuda_code.h"
#include "tensora/jit/cuda_kernel.h"
#include "tensora/jit/kernel.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using jit::all;
using jit::Array;
using jit::block;
using jit::from;
using jit::Index;
using jit::Tile;

class BlockKernelOnGpu : public Gpu {};

const auto matmul_blocks = jit::kernel("matmul_blocks", [](Array a, Array b, Array c, int64_t rows,
                                                           int64_t columns, int64_t depth) {
  const Index i = program(ceil_div(c.size(0), rows)), j = program(ceil_div(c.size(1), columns));
  const Tile sum = Tile::zeros(rows, columns);
  jit::loop(0, a.size(1), depth, [&](Index k) {
    sum += dot(load(a(block(i, rows), from(k, depth))), load(b(from(k, depth), block(j, columns))));
  });
  store(c(block(i, rows), block(j, columns)), sum);
});

// Everything else that a program can have.
const auto everything =
    jit::kernel("everything", [](Array x, Array y, Array w, Array out, Array total, uint64_t seed) {
      const Index b = program(x.size(0)), i = program(ceil_div(x.size(1), 48));
      const auto here = x(b, block(i, 48), all);
      const Tile v = load(here).as(kFloat32);
      const Tile n = (v - mean(v)) * load(w(all)) + column(load(y(block(i, 48))));
      const Tile kept = where(uniform(here, seed) < 0.9, n, 0) + normal(here, seed) * 0.01;
      const Tile s = dot(kept.as(kBFloat16), transposed(v.as(kBFloat16))) * 0.1;
      const Tile best = Tile::full(here, -1);
      jit::loop(0, 3, 1, [&](Index k) {
        best.set(maximum(best, kept * as_tile(k % 2 + smaller(k, 1)).as(kFloat32)));
      });
      const Tile places = positions(v, 0).as(kFloat32) * positions(v).as(kFloat32);
      store(out(b, block(i, 48), all), best + sum(s) + max(s, 0) + places * 0.01);
      atomic_add(total(b), sum(sum(n), 0));
    });

std::vector<Tensor> everything_arguments() {
  return {sample({3, 100, 48}, kBFloat16), sample({100}), sample({48}),
          zeros({3, 100, 48}, {.dtype = kFloat16}), zeros({3})};
}

void expect_compiles(const jit::BlockProgram& program, const std::string& architecture) {
  const jit::BlockText printed = jit::print_block(program);
  try {
    EXPECT_GT(jit::compile_text(printed.text, architecture).size(), 1000u);
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("could not be opened") != std::string_view::npos)
      GTEST_SKIP() << error.what();
    FAIL() << error.what() << "\n" << printed.text;
  }
}

TEST(BlockText, Compiles) {
  const auto product = [](DType dtype) {
    const Tensor a = zeros({100, 70}, {.dtype = dtype}), b = zeros({70, 90}, {.dtype = dtype});
    const Tensor arguments[] = {a, b, zeros({100, 90})};
    const Scalar extents[] = {32, 32, 16};
    return matmul_blocks.record(arguments, extents);
  };
  expect_compiles(product(kBFloat16), "sm_80");
  expect_compiles(product(kInt8), "sm_90");
  const Scalar seed[] = {7};
  expect_compiles(everything.record(everything_arguments(), seed), "sm_90");
}

constexpr const char* kSaxpy = R"(
#include "tensora/base/half.h"
extern "C" __global__ void saxpy(const float* x, float* y, float a, long n) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] += a * x[i];
})";

TEST(RawCuda, TextCompilesOrSaysWhyNot) {
  try {
    EXPECT_GT(jit::compile_text(kSaxpy, "sm_90").size(), 1000u);
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("could not be opened") != std::string_view::npos)
      GTEST_SKIP() << error.what();
    FAIL() << error.what();
  }
  const std::string text =
      message_of([] { jit::compile_text("__global__ void f() { x = 1; }", "sm_90"); });
  EXPECT_NE(text.find("identifier \"x\" is undefined"), std::string::npos) << text;
}

TEST_F(BlockKernelOnGpu, RawCuda) {
  const jit::CudaKernel saxpy = jit::cuda_kernel(kSaxpy, "saxpy");
  const Tensor x = sample({1000}).cuda(), y = sample({1000}).cuda(), expected = y + x * 2;
  saxpy({.blocks = {4}, .threads = {256}}, x, y, 2.f, int64_t{1000});
  expect_close(y, expected);
  const jit::CudaKernel unnamed = jit::cuda_kernel(kSaxpy, "daxpy");
  const std::string text = message_of([&] { unnamed({}, x); });
  EXPECT_NE(text.find("no kernel called 'daxpy'"), std::string::npos) << text;
}

TEST(BlockText, IsTheSameForOtherSizesAndNumbers) {
  const auto text = [](int64_t m, int64_t k, int64_t n) {
    const Tensor arguments[] = {zeros({m, k}), zeros({k, n}), zeros({m, n})};
    const Scalar extents[] = {64, 64, 16};
    const jit::BlockProgram program = matmul_blocks.record(arguments, extents);
    return jit::print_block(program).text + jit::block_key(program);
  };
  EXPECT_EQ(text(100, 70, 90), text(1000, 7, 5));
}

TEST(BlockText, TilesThatAreTooLargeAreRefused) {
  const Tensor arguments[] = {zeros({300, 300}), zeros({300, 300}), zeros({300, 300})};
  const Scalar extents[] = {512, 512, 16};
  EXPECT_THROW(jit::print_block(matmul_blocks.record(arguments, extents)), jit::KernelDoesNotFit);
}

TEST_F(BlockKernelOnGpu, Matmul) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat16, kFloat64})
    for (const Shape& sizes : {Shape{128, 64, 128}, Shape{100, 70, 90}, Shape{1, 1, 1}})
      for (int64_t extent : {8, 64}) {
        const Tensor a = sample({sizes[0], sizes[1]}, dtype).cuda();
        const Tensor b = sample({sizes[1], sizes[2]}, dtype).cuda();
        const Tensor c = zeros({sizes[0], sizes[2]}).cuda();
        matmul_blocks(a, b, c, extent, extent, 16);
        expect_close(c, matmul(a.to(kFloat64), b.to(kFloat64)).to(kFloat32), 1e-3);
      }
}

TEST_F(BlockKernelOnGpu, EverythingElse) {
  const std::vector<Tensor> here = everything_arguments();
  std::vector<Tensor> there;
  for (const Tensor& argument : here) there.push_back(argument.cuda());
  const Scalar seed[] = {7};
  everything.run(here, seed);
  everything.run(there, seed);
  expect_close(there[3], here[3].cuda(), 2e-2);
  expect_close(there[4], here[4].cuda(), 1e-3);
}

}  // namespace
}  // namespace tensora::test
