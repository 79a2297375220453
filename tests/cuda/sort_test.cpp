// Sorting on the GPU: the CPU's bits for lines of many tiles, at any time and on any stream.
#include <cstring>
#include <random>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class SortOnGpu : public Gpu {};

void expect_same_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(to_string(actual.sizes()), to_string(expected.sizes()));
  ASSERT_EQ(name(actual.dtype()), name(expected.dtype()));
  const Tensor a = actual.cpu().contiguous(), b = expected.cpu().contiguous();
  if (a.numel() > 0) {
    EXPECT_EQ(std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()), 0);
  }
}

using Pair = std::tuple<Tensor, Tensor>;

void expect_same_pair(const Pair& actual, const Pair& expected) {
  expect_same_bits(std::get<0>(actual), std::get<0>(expected));
  expect_same_bits(std::get<1>(actual), std::get<1>(expected));
}

/// Any bits: NaNs of all kinds, both zeros, the largest integers.
Tensor any_bits(const Shape& sizes, DType dtype) {
  Tensor result = empty(sizes, {.dtype = dtype});
  std::mt19937 random(7);
  auto* const data = static_cast<unsigned char*>(result.data_ptr());
  const unsigned mask = dtype == kBool ? 1 : 255;
  for (size_t i = 0; i < result.nbytes(); ++i)
    data[i] = static_cast<unsigned char>(random() & mask);
  return result;
}

constexpr DType kDTypes[] = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64,
                             kInt32,   kInt16,   kInt8,    kUInt8,    kBool};

// Tiles have 8192 elements, or 4096 of eight bytes; rows of up to 2048 are sorted by a block.
TEST_F(SortOnGpu, GivesTheHostsBits) {
  for (const DType dtype : kDTypes)
    for (const Shape& sizes : {Shape{2048}, Shape{2049}, Shape{8192}, Shape{8193}, Shape{3, 12288},
                               Shape{5, 16385}, Shape{300001}}) {
      SCOPED_TRACE(concat(dtype, " ", sizes));
      for (const Tensor& x :
           {any_bits(sizes, dtype), ones(sizes, {.dtype = dtype}), sample(sizes, dtype, 0, 2)}) {
        const Tensor device = x.cuda();
        for (const bool descending : {false, true})
          expect_same_pair(sort(device, -1, descending), sort(x, -1, descending));
        const auto [values, none, counts] = unique(device, true, false, true);
        const auto [host_values, host_none, host_counts] = unique(x, true, false, true);
        expect_same_bits(values, host_values);
        expect_same_bits(counts, host_counts);
        EXPECT_FALSE(none.defined());
      }
    }
}

// So many tiles that later blocks wait for earlier ones, whose counts they add up.
TEST_F(SortOnGpu, ManyTiles) {
  for (const DType dtype : {kFloat32, kInt64}) {
    const Tensor x = any_bits({5000003}, dtype), device = x.cuda();
    const Pair expected = sort(x, 0);
    for (int i = 0; i < 5; ++i) expect_same_pair(sort(device, 0), expected);
  }
}

TEST_F(SortOnGpu, Topk) {
  const Shape sizes = {3, 40001};
  Tensor crowded = sample(sizes);  // the largest belong to few threads: the bound lets in too many
  for (int64_t i = 0; i < crowded.numel(); ++i)
    if (i % 16384 / 4 % 512 < 90) crowded.data_ptr<float>()[i] += 10;
  const Tensor samples[] = {crowded.narrow(0, 0, 1),    crowded,
                            any_bits(sizes, kFloat32),  ones(sizes),
                            sample(sizes, kInt8, 0, 3), any_bits(sizes, kFloat64)};
  for (size_t s = 0; s < std::size(samples); ++s)
    for (const int64_t k : {1, 8, 100, 128, 129, 2048, 2049}) {
      SCOPED_TRACE(concat("sample ", s, ", k = ", k));
      const Tensor device = samples[s].cuda();
      for (const bool largest : {true, false})
        expect_same_pair(topk(device, k, 1, largest), topk(samples[s], k, 1, largest));
    }
}

// What a sort counts with must be cleared whenever a graph runs, and which digits differ is known
// to the device alone.
TEST_F(SortOnGpu, ReplaysWithNewInputs) {
  const Shape sizes = {2, 100000};
  const Tensor x = zeros(sizes, {.dtype = kInt64, .device = kCuda});
  Pair sorted, top;
  cuda::Graph graph;
  graph.capture([&] {
    sorted = sort(x, 1);
    top = topk(x, 50, 1);
  });
  for (const Tensor& input :
       {any_bits(sizes, kInt64), sample(sizes, kInt64, 0, 200), ones(sizes, {.dtype = kInt64}),
        sample(sizes, kInt64, 0, 60000), any_bits(sizes, kInt64)})
    for (int i = 0; i < 2; ++i) {
      x.copy_(input);
      graph.replay();
      expect_same_pair(sorted, sort(input, 1));
      expect_same_pair(top, topk(input, 50, 1));
    }
}

TEST_F(SortOnGpu, StreamsSortAtOnce) {
  constexpr int kStreams = 3, kRounds = 10;
  const Tensor x = any_bits({400000}, kFloat32), device = x.cuda();
  synchronize(kCuda);
  std::vector<cuda::Stream> streams(kStreams);
  std::vector<Pair> results;
  for (int round = 0; round < kRounds; ++round)
    for (int s = 0; s < kStreams; ++s) {
      const cuda::StreamGuard guard(streams[static_cast<size_t>(s)]);
      results.push_back(sort(device, 0, s == 1));
    }
  synchronize(kCuda);
  for (size_t i = 0; i < results.size(); ++i)
    expect_same_pair(results[i], sort(x, 0, i % kStreams == 1));
}

}  // namespace
}  // namespace tensora::test
