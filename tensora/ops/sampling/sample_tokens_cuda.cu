#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/sampling/sample_tokens_op.h"
#include "tensora/ops/sampling/token_keys.h"

namespace tensora::cuda {
namespace {

// Note [Choosing in one block]
// A block has a row of logits. Each of its threads finds the highest of those that are its own; the
// k-th highest of these is a lower bound of the k-th highest of all, and a good one: few logits are
// above it, and most threads have none of them and need not look again. What is above is sorted,
// and the first k are what is left of the row. Only where logits are strangely distributed, or very
// many are equal, are there more than fit: then the k-th highest is found by halving, bit by bit.

using Key = unsigned long long;
using A = SampleTokensAttrs;

constexpr int kSampleThreads = 1024, kHeld = 2048;
static_assert(kMostTopK <= kSampleThreads);

struct SampleCall {
  const float* logits;
  const double* numbers;
  const long long* integers;
  long long* out;
  int vocabulary;
  bool in_fours;  // rows may be read so
};

struct SampleShared {
  Key held[kHeld];
  Key sums[32];
  int count;
};

/// What a thread of the block owns of a row.
struct OwnLogits {
  const float* row;
  int count;
  bool in_fours;

  template <class Visit>
  __device__ void visit(const Visit& each) const {
    const auto thread = static_cast<int>(threadIdx.x);
    if (!in_fours) {
#pragma unroll 4
      for (int i = thread; i < count; i += kSampleThreads) each(row[i], i);
      return;
    }
#pragma unroll 4
    for (int i = thread; i < count / 4; i += kSampleThreads) {
      const float4 four = reinterpret_cast<const float4*>(row)[i];
      each(four.x, 4 * i);
      each(four.y, 4 * i + 1);
      each(four.z, 4 * i + 2);
      each(four.w, 4 * i + 3);
    }
  }
};

// -infinity has the key of no token.
__device__ inline Key key_or_none(float logit, int token) {
  return logit >= -3.402823466e38f ? token_key(logit, static_cast<unsigned>(token)) : 0;
}

/// The sum up to and with each thread's value, in the order of threads; `total` gets all of it.
__device__ inline Key sum_through(Key value, Key* sums, Key& total) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const Key before = __shfl_up_sync(kWholeWarp, value, distance);
    if (lane >= distance) value += before;
  }
  __syncthreads();  // what `sums` held before was read
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  Key before = 0;
  total = 0;
  for (unsigned w = 0; w < 32; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  return value + before;
}

/// The k-th highest key, by halving.
__device__ inline Key kth_key(const OwnLogits& own, int k, Key* sums) {
  Key found = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Key tried = found | Key{1} << bit;
    Key mine = 0, all = 0;
    own.visit([&](float logit, int token) { mine += key_or_none(logit, token) >= tried; });
    sum_through(mine, sums, all);
    if (all >= static_cast<Key>(k)) found = tried;
  }
  return found;
}

/// Gathers the keys from `least` on; gives their number, which may be more than fit.
__device__ inline int gather(const OwnLogits& own, Key highest, Key least, SampleShared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) shared.count = 0;
  __syncthreads();
  if (highest >= least && highest != 0)
    own.visit([&](float logit, int token) {
      const Key key = key_or_none(logit, token);
      if (key == 0 || key < least) return;
      const int place = atomicAdd(&shared.count, 1);
      if (place < kHeld) shared.held[place] = key;
    });
  __syncthreads();
  return shared.count;
}

__device__ inline void sort_held(SampleShared& shared, int count) {
  sort_block(shared.held, static_cast<Key>(count), [](Key a, Key b) { return a > b; });
}

/// Draws one of the k highest keys, which are sorted: thread i has the i-th.
__device__ inline void draw(const SampleCall& call, int64_t row, int k, SampleShared& shared) {
  const double* const numbers = call.numbers + row * A::kNumbers;
  const long long* const integers = call.integers + row * A::kIntegers;
  const int own = static_cast<int>(threadIdx.x);
  const Key key = own < k ? shared.held[own] : 0;
  const float below = own < k ? logit_of_key(key) - logit_of_key(shared.held[0]) : 0.0f;
  const Key weight = own < k ? token_weight(below) : 0;
  Key sum = 0;
  const Key through = sum_through(weight, shared.sums, sum);
  // The one that completes the mass of top-p is the last to stay.
  bool stays = own < k;
  if (numbers[A::kTopP] < 1 && own > 0)
    stays = stays && through - weight < kept_mass(numbers[A::kTopP], sum);
  if (numbers[A::kMinP] > 0) stays = stays && weight >= least_weight(numbers[A::kMinP]);
  const Key last = stays ? token_weight(colder(below, 1 / numbers[A::kTemperature])) : 0;
  const Key end = sum_through(last, shared.sums, sum);
  const Key point = choice_point(choice_word(philox(static_cast<Key>(integers[A::kSeed]),
                                                    static_cast<Key>(integers[A::kDraw]))),
                                 sum);
  if (end - last <= point && point < end) call.out[row] = token_of_key(key);
}

__global__ void __launch_bounds__(kSampleThreads) choose_tokens(const SampleCall call) {
  __shared__ SampleShared shared;
  const int64_t row = blockIdx.x;
  const OwnLogits own{call.logits + row * call.vocabulary, call.vocabulary, call.in_fours};
  Key highest = 0;
  bool usable = true;
  own.visit([&](float logit, int token) {
    usable = usable && logit <= 3.402823466e38f;
    const Key key = key_or_none(logit, token);
    highest = key > highest ? key : highest;
  });
  usable = __syncthreads_and(usable);
  shared.held[threadIdx.x] = highest;
  sort_held(shared, kSampleThreads);
  const Key first = shared.held[0];
  const bool greedy = call.numbers[row * A::kNumbers + A::kTemperature] == 0;
  if (!usable || first == 0 || greedy) {
    if (threadIdx.x == 0) call.out[row] = usable && first != 0 ? token_of_key(first) : -1;
    return;
  }
  const long long wanted = call.integers[row * A::kIntegers + A::kTopK];
  const int k = static_cast<int>(max(1ll, min(wanted, static_cast<long long>(kMostTopK))));
  int count = gather(own, highest, shared.held[k - 1], shared);
  if (count > kHeld) count = gather(own, highest, kth_key(own, k, shared.sums), shared);
  sort_held(shared, count);
  draw(call, row, min(k, count), shared);
}

void sample_tokens_kernel(const KernelContext& context, const SampleTokensAttrs&) {
  const View& logits = context.input(0);
  if (logits.sizes[0] == 0) return;
  const auto* const data = logits.as<const float>();
  const SampleCall call{data,
                        context.input(1).as<const double>(),
                        context.input(2).as<const long long>(),
                        context.output().as<long long>(),
                        static_cast<int>(logits.sizes[1]),
                        logits.sizes[1] % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
  Launch{context.op, context.device.index}(
      choose_tokens, dim3(static_cast<unsigned>(logits.sizes[0])), dim3(kSampleThreads), call);
}

}  // namespace

void register_sample_tokens_cuda() {
  sample_tokens_op.set_kernel(DeviceType::cuda, sample_tokens_kernel);
}

}  // namespace tensora::cuda
