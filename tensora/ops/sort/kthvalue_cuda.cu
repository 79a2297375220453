#include "tensora/ops/sort/kthvalue.h"

#include "tensora/ops/sort/rank.h"
#include "tensora/ops/sort/select.cuh"

namespace tensora::cuda {
namespace {

// A block finds the wanted element of its row (Note [Selection by digits]). Rows that are long and
// few are read by many blocks: one launch counts a digit, the next keeps a bin.

template <class Key>
struct ChosenParams {
  ItemSource<Key> source;
  unsigned length;
  RankRule rule;
  Key nan;  // of floating dtypes; else no key
  bool counts_nans;
  char* values /* rows */;
  int64_t* indices;  // or null
  // Long rows.
  unsigned part, parts;
  Bin<Key>* bins /* rows */;
  unsigned* counts /* rows kSelectBins */;
  unsigned* nans /* rows */;
};

template <class Key>
__device__ inline void store_chosen(const ChosenParams<Key>& params, unsigned row, Key key,
                                    unsigned index) {
  store_element<Key>(params.source.data, static_cast<long long>(row) * params.length + index,
                     params.values, row, params.source.dtype, key, false);
  if (params.indices) params.indices[row] = index;
}

template <class Key>
__device__ inline Bin<Key> first_bin(const ChosenParams<Key>& params, unsigned nans) {
  const auto rank = static_cast<unsigned>(params.rule.rank(params.length, nans));
  return Bin<Key>::all(rank + 1, params.length);
}

template <class Key>
__device__ inline bool is_single(const Bin<Key>& bin) {
  return bin.count == 1;
}

template <class Key>
__global__ void __launch_bounds__(kSelectThreads)
    choose_of_rows(const __grid_constant__ ChosenParams<Key> params) {
  __shared__ Bin<Key> bin;
  __shared__ unsigned nans;
  const long long start = static_cast<long long>(blockIdx.x) * params.length;
  if (threadIdx.x == 0) nans = 0;
  __syncthreads();
  if (params.counts_nans)
    params.source.each(start, 0, params.length, [&](Key key, unsigned) {
      if (key == params.nan) atomicAdd(&nans, 1u);
    });
  __syncthreads();
  if (threadIdx.x == 0) bin = first_bin(params, nans);
  find_bin(params.source, start, 0, params.length, bin, is_single<Key>);
  params.source.each(start, 0, params.length, [&](Key key, unsigned index) {
    if (bin.contains(key, index)) store_chosen(params, blockIdx.x, key, index);
  });
}

/// The block's part of a long row.
struct Part {
  unsigned row, begin, end;

  template <class Key>
  __device__ explicit Part(const ChosenParams<Key>& params) {
    row = blockIdx.x / params.parts;
    begin = (blockIdx.x - row * params.parts) * params.part;
    end = min(params.length, begin + params.part);
  }
};

template <class Key>
__global__ void __launch_bounds__(kSelectThreads)
    count_nans(const __grid_constant__ ChosenParams<Key> params) {
  const Part part(params);
  unsigned mine = 0;
  params.source.each(static_cast<long long>(part.row) * params.length, part.begin, part.end,
                     [&](Key key, unsigned) { mine += key == params.nan; });
  if (mine != 0) atomicAdd(params.nans + part.row, mine);
}

template <class Key>
__global__ void start_bins(const __grid_constant__ ChosenParams<Key> params) {
  if (threadIdx.x == 0) params.bins[blockIdx.x] = first_bin(params, params.nans[blockIdx.x]);
}

template <class Key>
__global__ void __launch_bounds__(kSelectThreads)
    count_digit(const __grid_constant__ ChosenParams<Key> params, const ItemDigit<Key> digit) {
  __shared__ unsigned counts[kSelectBins];
  const Part part(params);
  const Bin<Key> bin = params.bins[part.row];
  if (is_single(bin)) return;
  if (threadIdx.x < kSelectBins) counts[threadIdx.x] = 0;
  __syncthreads();
  params.source.each(static_cast<long long>(part.row) * params.length, part.begin, part.end,
                     [&](Key key, unsigned index) {
                       if (bin.contains(key, index)) atomicAdd(&counts[digit(key, index)], 1u);
                     });
  __syncthreads();
  if (threadIdx.x < kSelectBins && counts[threadIdx.x] != 0)
    atomicAdd(params.counts + part.row * kSelectBins + threadIdx.x, counts[threadIdx.x]);
}

// A block per row; the counts are cleared for the next digit.
template <class Key>
__global__ void __launch_bounds__(kSelectBins)
    keep_bin(const __grid_constant__ ChosenParams<Key> params, const ItemDigit<Key> digit) {
  __shared__ Bin<Key> bin;
  if (threadIdx.x == 0) bin = params.bins[blockIdx.x];
  __syncthreads();
  if (is_single(bin)) return;
  unsigned* const counts = params.counts + blockIdx.x * kSelectBins;
  narrow(bin, counts, digit);
  counts[threadIdx.x] = 0;
  if (threadIdx.x == 0) params.bins[blockIdx.x] = bin;
}

template <class Key>
__global__ void __launch_bounds__(kSelectThreads)
    store_found(const __grid_constant__ ChosenParams<Key> params) {
  const Part part(params);
  const Bin<Key> bin = params.bins[part.row];
  params.source.each(static_cast<long long>(part.row) * params.length, part.begin, part.end,
                     [&](Key key, unsigned index) {
                       if (bin.contains(key, index)) store_chosen(params, part.row, key, index);
                     });
}

template <class Key>
void choose_of_long_rows(const KernelContext& context, ChosenParams<Key> params, unsigned rows) {
  const int device = context.device.index;
  const Scratch bins(device, rows * sizeof(Bin<Key>));
  const size_t count_bytes = size_t{rows} * (kSelectBins + 1) * sizeof(unsigned);
  const Scratch counts(device, count_bytes);
  params.bins = reinterpret_cast<Bin<Key>*>(bins.data());
  params.counts = reinterpret_cast<unsigned*>(counts.data());
  params.nans = params.counts + size_t{rows} * kSelectBins;
  use_device(device);
  check_cuda(cudaMemsetAsync(counts.data(), 0, count_bytes, current_stream(device)), context.op);
  const Launch launch{context.op, device};
  const dim3 blocks(rows * params.parts);
  if (params.counts_nans) launch(count_nans<Key>, blocks, dim3(kSelectThreads), params);
  launch(start_bins<Key>, dim3(rows), dim3(32), params);
  for (int number = 0; number < params.source.bits.digits(); ++number) {
    const ItemDigit<Key> digit(number, params.source.bits);
    launch(count_digit<Key>, blocks, dim3(kSelectThreads), params, digit);
    launch(keep_bin<Key>, dim3(rows), dim3(kSelectBins), params, digit);
  }
  launch(store_found<Key>, blocks, dim3(kSelectThreads), params);
}

void choose(const KernelContext& context, const ContiguousRows& source, const RankRule& rule) {
  const DType dtype = context.input(0).dtype;
  const int device = context.device.index;
  check(source.length < int64_t{1} << 31 && source.rows < int64_t{1} << 31, context.op,
        ": more than 2^31 elements along a dimension, or lines, are not supported on cuda");
  visit_key(dtype, [&]<class Key>() {
    ChosenParams<Key> params{};
    const int bits = 8 * static_cast<int>(element_size(dtype));
    params.source = {source.data(), nullptr, dtype, false, {bits, index_bits(source.length)}};
    params.length = static_cast<unsigned>(source.length);
    params.rule = rule;
    params.nan = static_cast<Key>(~Key(0)) >> (8 * sizeof(Key) - bits);
    params.counts_nans = rule.kind != RankRule::Kind::kth && is_floating_point(dtype);
    params.values = context.output(0).as<char>();
    params.indices = context.out.size() > 1 ? context.output(1).as<int64_t>() : nullptr;
    constexpr int64_t kLeastPart = 16 * 1024, kBlocksPerMultiprocessor = 4;
    const int64_t blocks = device_info(device).multiprocessors * kBlocksPerMultiprocessor;
    const int64_t parts = std::min(blocks / source.rows, source.length / kLeastPart);
    if (parts <= 1) {
      Launch{context.op, device}(choose_of_rows<Key>, dim3(static_cast<unsigned>(source.rows)),
                                 dim3(kSelectThreads), params);
      return;
    }
    params.part = static_cast<unsigned>((source.length + parts - 1) / parts);
    params.parts = (params.length + params.part - 1) / params.part;
    choose_of_long_rows(context, params, static_cast<unsigned>(source.rows));
  });
}

void choose_along(const KernelContext& context, int64_t along, const RankRule& rule) {
  if (context.output().numel == 0) return;
  const View& in = context.input(0);
  const ContiguousRows source(context.op, in, wrap_dim(along, in.dim(), context.op));
  source.read();
  choose(context, source, rule);
}

void kthvalue_kernel(const KernelContext& context, const KthvalueAttrs& attrs) {
  choose_along(context, attrs.dim, {RankRule::Kind::kth, attrs.k});
}

template <RankRule::Kind kind>
void median_dim_kernel(const KernelContext& context, const MedianAttrs& attrs) {
  choose_along(context, attrs.dim, {kind});
}

template <RankRule::Kind kind>
void median_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  ContiguousRows source(context.op, in, std::max(0, in.dim() - 1));
  source.read();
  source.length = in.numel;
  source.rows = 1;
  choose(context, source, {kind});
}

}  // namespace

void register_kthvalue_cuda() {
  using Kind = RankRule::Kind;
  kthvalue_op.set_kernel(DeviceType::cuda, kthvalue_kernel);
  median_dim_op.set_kernel(DeviceType::cuda, median_dim_kernel<Kind::median>);
  nanmedian_dim_op.set_kernel(DeviceType::cuda, median_dim_kernel<Kind::nanmedian>);
  median_op.set_kernel(DeviceType::cuda, median_kernel<Kind::median>);
  nanmedian_op.set_kernel(DeviceType::cuda, median_kernel<Kind::nanmedian>);
}

}  // namespace tensora::cuda
