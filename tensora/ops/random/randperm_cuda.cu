#include <bit>

#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/backend/cuda/loops/scan.cuh"
#include "tensora/ops/random/random_values.h"
#include "tensora/ops/random/sample.h"

// Note [Shuffling on the GPU]
// The permutation is the order of random words that hold the elements' numbers in their lowest bits
// (Note [Shuffling by sorting] in randperm_cpu.cpp). The words are uniform, so their leading bits
// distribute them into buckets of nearly equal sizes: one kernel counts, a scan finds where buckets
// begin, a second kernel draws the same words again and puts each where its bucket has room. In
// which order they arrive there is up to timing, but then a block sorts each bucket, and no two
// words are equal. A bucket beyond a block's shared memory, which chance will hardly ever make, is
// sorted where it lies.

namespace tensora::cuda {
namespace {

constexpr unsigned kSortThreads = 128;
constexpr int64_t kInShared = 1024, kPerBucket = 192;  // words; at most, and on average at most

struct ShuffleParams {
  RandomInteger distribution;
  const ReplayRandom* replay;
  int64_t count;
  uint64_t number_mask;        // the bits that give way to the element's number
  int bucket_shift;            // 64 minus the leading bits
  unsigned long long* starts;  // of buckets; of the next ones when the words are dealt
  unsigned long long* words;
  char* out;
  int64_t out_step;  // bytes
  DType dtype;
};

// The words of counter number `thread`.
template <class Body>
__device__ inline void each_word(const ShuffleParams& params, int64_t thread, Body&& body) {
  constexpr int kPerCounter = kValuesPerCounter<long long>;
  const int64_t first =
      thread / kPhiloxLanes * (kPhiloxLanes * kPerCounter) + thread % kPhiloxLanes;
  if (first >= params.count) return;
  long long values[kPerCounter];
  params.distribution.values(words_of(params.distribution, params.replay, thread).word, values);
#pragma unroll
  for (int k = 0; k < kPerCounter; ++k) {
    const int64_t i = first + k * kPhiloxLanes;
    if (i < params.count)
      body(i, (static_cast<unsigned long long>(values[k]) & ~params.number_mask) |
                  static_cast<unsigned long long>(i));
  }
}

__global__ void __launch_bounds__(kThreads)
    count_words(const __grid_constant__ ShuffleParams params) {
  each_word(params, int64_t{blockIdx.x} * kThreads + threadIdx.x,
            [&](int64_t, unsigned long long word) {
              atomicAdd(params.starts + (word >> params.bucket_shift), 1ull);
            });
}

__global__ void __launch_bounds__(kThreads)
    deal_words(const __grid_constant__ ShuffleParams params) {
  each_word(params, int64_t{blockIdx.x} * kThreads + threadIdx.x,
            [&](int64_t, unsigned long long word) {
              params.words[atomicAdd(params.starts + (word >> params.bucket_shift), 1ull)] = word;
            });
}

__device__ inline void sort_and_store(const ShuffleParams& params, unsigned long long* words,
                                      unsigned long long begin, unsigned long long count) {
  sort_block(words, count, [](unsigned long long a, unsigned long long b) { return a < b; });
  for (unsigned long long i = threadIdx.x; i < count; i += kSortThreads)
    store_any<int64_t>(params.out + static_cast<int64_t>(begin + i) * params.out_step, params.dtype,
                       static_cast<int64_t>(words[i] & params.number_mask));
}

__global__ void __launch_bounds__(kSortThreads)
    sort_buckets(const __grid_constant__ ShuffleParams params) {
  __shared__ unsigned long long shared[kInShared];
  const unsigned long long begin = blockIdx.x == 0 ? 0 : params.starts[blockIdx.x - 1];
  const unsigned long long count = params.starts[blockIdx.x] - begin;
  unsigned long long* const words = params.words + begin;
  if (count > kInShared) return sort_and_store(params, words, begin, count);
  for (unsigned long long i = threadIdx.x; i < count; i += kSortThreads) shared[i] = words[i];
  sort_and_store(params, shared, begin, count);
}

// Few enough for one block from beginning to end.
__global__ void __launch_bounds__(kSortThreads)
    shuffle_in_block(const __grid_constant__ ShuffleParams params) {
  __shared__ unsigned long long shared[kInShared];
  for (int64_t thread = threadIdx.x; thread < kInShared; thread += kSortThreads)
    each_word(params, thread, [&](int64_t i, unsigned long long word) { shared[i] = word; });
  sort_and_store(params, shared, 0, static_cast<unsigned long long>(params.count));
}

// Counts become where the buckets begin.
struct BucketStarts {
  using Acc = unsigned long long;
  struct Line {};
  unsigned long long* data;

  __device__ Line line(unsigned) const { return {}; }
  __device__ Acc init() const { return 0; }
  __device__ Acc combine(Acc a, Acc b) const { return a + b; }
  __device__ void load(Line, long long first, int count, Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) values[k] = k < count ? data[first + k] : 0;
  }
  __device__ void store(Line, long long first, int count, Acc before,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int k = 0; k < kScanItems; ++k)
      if (k < count) data[first + k] = k == 0 ? before : through[k - 1];
  }
};

void shuffle(const KernelContext& context, ShuffleParams params) {
  const int device = context.device.index;
  const Launch launch{context.op, device};
  if (params.count <= kInShared)
    return launch(shuffle_in_block, dim3(1), dim3(kSortThreads), params);
  int bits = 1;
  while (params.count >> bits > kPerBucket) ++bits;
  const int64_t buckets = int64_t{1} << bits;
  check(buckets < int64_t{1} << 31, context.op, ": ", params.count,
        " numbers cannot be shuffled on cuda, at most 2^38 can");
  const size_t start_bytes = static_cast<size_t>(buckets) * sizeof(unsigned long long);
  const Scratch starts(device, start_bytes);
  const Scratch words(device, static_cast<size_t>(params.count) * sizeof(unsigned long long));
  params.bucket_shift = 64 - bits;
  params.starts = reinterpret_cast<unsigned long long*>(starts.data());
  params.words = reinterpret_cast<unsigned long long*>(words.data());
  use_device(device);
  check_cuda(cudaMemsetAsync(starts.data(), 0, start_bytes, current_stream(device)), context.op);
  const auto counters =
      static_cast<int64_t>(philox_counters(params.count, kValuesPerCounter<long long>));
  const dim3 blocks(static_cast<unsigned>((counters + kThreads - 1) / kThreads));
  launch(count_words, blocks, dim3(kThreads), params);
  run_scan(context.op, device, BucketStarts{params.starts}, 1, buckets, ScanLayout::rows);
  launch(deal_words, blocks, dim3(kThreads), params);
  launch(sort_buckets, dim3(static_cast<unsigned>(buckets)), dim3(kSortThreads), params);
}

void randperm_kernel(const KernelContext& context, const RandomAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  ShuffleParams params{};
  params.distribution = RandomInteger{attrs.seed, attrs.offset, 0, 0};
  params.replay = replay_of(context, params.distribution);
  params.count = out.numel;
  params.number_mask = std::bit_ceil(static_cast<uint64_t>(out.numel)) - 1;
  params.out = out.as<char>();
  params.out_step = out.strides[0] * static_cast<int64_t>(element_size(out.dtype));
  params.dtype = out.dtype;
  shuffle(context, params);
}

}  // namespace

void register_randperm_cuda() { randperm_op.set_kernel(DeviceType::cuda, randperm_kernel); }

}  // namespace tensora::cuda
