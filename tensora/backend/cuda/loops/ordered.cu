#include "tensora/backend/cuda/loops/ordered.h"

#include <bit>

#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/reduce_params.cuh"
#include "tensora/backend/cuda/loops/scan.cuh"

namespace tensora::cuda {
namespace {

struct OrderedParams {
  const uint64_t* keys;
  const uint32_t* numbers;
  long long count;
  uint64_t nowhere;
  WideWalk<1> values;
  WideWalk<2> lines;  // plain, data
  char *plain, *data;
  unsigned line_count;

  __device__ bool is_first(long long k) const { return k == 0 || keys[k - 1] != keys[k]; }
  __device__ bool is_last(long long k) const { return k + 1 == count || keys[k + 1] != keys[k]; }
  __device__ const char* value_at(long long line, long long k) const {
    long long at[1];
    values.offsets(numbers[k], at);
    return plain + line + at[0];
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    write_last(const __grid_constant__ OrderedParams params) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long k = i / params.line_count;
  if (k >= params.count || !params.is_last(k) || params.keys[k] == params.nowhere) return;
  long long line[2];
  params.lines.offsets(static_cast<unsigned>(i - k * params.line_count), line);
  *reinterpret_cast<T*>(params.data + line[1] + params.keys[k]) =
      *reinterpret_cast<const T*>(params.value_at(line[0], k));
}

// A segmented running sum, or product: it restarts at each location.
template <class T, bool product>
struct SumsOfPlaces {
  using C = accumulate_t<T>;
  struct Acc {
    C sum;
    int starts;  // whether a place begins within
  };
  struct Line {
    long long at[2];
  };
  OrderedParams params;

  __device__ Line line(unsigned number) const {
    Line result;
    params.lines.offsets(number, result.at);
    return result;
  }
  __device__ static C joined(C a, C b) { return product ? a * b : a + b; }
  __device__ Acc init() const { return {C(product), 0}; }
  __device__ Acc combine(Acc a, Acc b) const {
    return b.starts ? b : Acc{joined(a.sum, b.sum), a.starts};
  }
  __device__ void load(const Line& line, long long first, int count,
                       Acc (&values)[kScanItems]) const {
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      values[i] = init();
      if (i >= count) continue;
      const char* const from = params.value_at(line.at[0], first + i);
      values[i] = {load_value<C>(*reinterpret_cast<const T*>(from)), params.is_first(first + i)};
    }
  }
  __device__ void store(const Line& line, long long first, int count, Acc,
                        const Acc (&through)[kScanItems]) const {
#pragma unroll
    for (int i = 0; i < kScanItems; ++i) {
      if (i >= count || !params.is_last(first + i)) continue;
      const uint64_t key = params.keys[first + i];
      if (key == params.nowhere) continue;
      T& target = *reinterpret_cast<T*>(params.data + line.at[1] + key);
      target = T(joined(load_value<C>(target), through[i].sum));
    }
  }
};

// The dims of views of one shape in logical order, innermost first.
template <int K>
WideWalk<K> logical_walk(const View* const (&views)[K]) {
  WideWalk<K> walk{};
  for (int d = views[0]->dim() - 1; d >= 0; --d) {
    const DivisorNumbers numbers = divisor_numbers(views[0]->sizes[d]);
    walk.sizes[walk.dims] = {numbers.divisor, numbers.multiplier, numbers.shift};
    for (int k = 0; k < K; ++k)
      walk.strides[k][walk.dims] =
          views[k]->strides[d] * static_cast<int64_t>(element_size(views[k]->dtype));
    ++walk.dims;
  }
  if (walk.dims == 0) walk.dims = 1;  // number 0, offset 0
  return walk;
}

OrderedParams sorted(const OrderedWrite& job) {
  const int bits = std::bit_width(job.nowhere);
  sort_pairs(job.op, job.device, job.pairs, job.sorted, job.count, bits);
  OrderedParams params{};
  params.keys = job.sorted.keys;
  params.numbers = job.sorted.values;
  params.count = job.count;
  params.nowhere = job.nowhere;
  params.values = logical_walk<1>({&job.values});
  params.lines = logical_walk<2>({&job.plain_lines, &job.data_lines});
  params.plain = job.plain_lines.as<char>();
  params.data = job.data_lines.as<char>();
  check(job.plain_lines.numel < int64_t{1} << 31, job.op,
        ": more than 2^31 lines are not supported on cuda");
  params.line_count = static_cast<unsigned>(job.plain_lines.numel);
  return params;
}

}  // namespace

void write_in_order(const OrderedWrite& job) {
  if (job.count == 0 || job.plain_lines.numel == 0) return;
  const OrderedParams params = sorted(job);
  const int64_t threads = params.count * params.line_count;
  const dim3 blocks(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  const Launch launch{job.op, job.device};
  visit_element_size(job.values.dtype,
                     [&]<class T>() { launch(write_last<T>, blocks, dim3(kThreads), params); });
}

namespace {

template <bool product>
void combine_in_order(const OrderedWrite& job) {
  if (job.count == 0 || job.plain_lines.numel == 0) return;
  const OrderedParams params = sorted(job);
  visit_floating(job.values.dtype, job.op, [&]<class T>() {
    run_scan(job.op, job.device, SumsOfPlaces<T, product>{params}, params.line_count, params.count,
             ScanLayout::columns);
  });
}

}  // namespace

void add_in_order(const OrderedWrite& job) { combine_in_order<false>(job); }
void multiply_in_order(const OrderedWrite& job) { combine_in_order<true>(job); }

}  // namespace tensora::cuda
