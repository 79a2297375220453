#include <algorithm>
#include <optional>

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/nn/embedding_bag_op.h"

namespace tensora::cuda {
namespace {

constexpr int kColumnThreads = 64;
constexpr const char* kOffsets =
    "offsets must begin with 0 and ascend to at most the number of indices";

struct BagParams {
  const char *weight, *indices, *offsets, *factors;  // factors may be null
  long long row_step;                                // between rows of the weight, in elements
  long long column_step;
  long long rows, count, bags, width;
  bool long_indices, long_offsets, has_last;
  long long padding;
  BagMode mode;
  char* out;
  long long *bag_of, *chosen;  // chosen: for the maximum
  void* counts;
  const char *op, *offsets_sentence;
  Fault* fault;

  __device__ long long index(long long i) const {
    return long_indices ? reinterpret_cast<const long long*>(indices)[i]
                        : reinterpret_cast<const int*>(indices)[i];
  }
  __device__ long long offset(long long bag) const {
    if (bag == bags && !has_last) return count;
    return long_offsets ? reinterpret_cast<const long long*>(offsets)[bag]
                        : reinterpret_cast<const int*>(offsets)[bag];
  }
};

// A block takes some columns of one bag; those with the first columns also note the bag.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    reduce_bags(const __grid_constant__ BagParams params) {
  using C = accumulate_t<T>;
  const long long bag = blockIdx.x;
  long long begin = params.offset(bag), end = params.offset(bag + 1);
  if (begin < 0 || begin > end || end > params.count || (bag == 0 && begin != 0)) {
    if (threadIdx.x == 0) note_fault(params.fault, params.op, params.offsets_sentence);
    begin = end = 0;
  }
  const long long column = static_cast<long long>(blockIdx.y) * kColumnThreads + threadIdx.x;
  const bool active = column < params.width;
  C sum = 0;
  long long chosen = 0, counted = 0;
#pragma unroll 4
  for (long long i = begin; i < end; ++i) {
    const long long index = params.index(i);
    if (index == params.padding) continue;
    if (index < 0 || index >= params.rows) {
      if (threadIdx.x == 0) note_fault(params.fault, params.op, nullptr, index, params.rows, 0);
      continue;
    }
    if (active) {
      const C x = load_value<C>(reinterpret_cast<const T*>(
          params.weight)[index * params.row_step + column * params.column_step]);
      if (params.mode == BagMode::max) {
        if (counted == 0 || x > sum || (x != x && sum == sum)) {
          sum = x;
          chosen = index;
        }
      } else {
        sum +=
            params.factors ? x * load_value<C>(reinterpret_cast<const T*>(params.factors)[i]) : x;
      }
    }
    ++counted;
  }
  if (active) {
    if (params.mode == BagMode::mean && counted > 0) sum /= C(counted);
    reinterpret_cast<T*>(params.out)[bag * params.width + column] = store_value<T>(sum);
    if (params.mode == BagMode::max) params.chosen[bag * params.width + column] = chosen;
  }
  if (blockIdx.y != 0) return;
  if (threadIdx.x == 0) static_cast<C*>(params.counts)[bag] = C(counted);
  for (long long i = begin + threadIdx.x; i < end; i += kColumnThreads) {
    const long long index = params.index(i);
    if (index != params.padding && index >= 0 && index < params.rows) params.bag_of[i] = bag;
  }
}

void embedding_bag_kernel(const KernelContext& context, const EmbeddingBagAttrs& attrs) {
  const int device = context.device.index;
  const View &weight = context.input(0), &out = context.output(0);
  const Packed indices(context.op, device, context.input(1));
  const Packed offsets(context.op, device, context.input(2));
  std::optional<Packed> factors;
  if (context.in.size() > 3 && context.in[3]) factors.emplace(context.op, device, context.input(3));
  if (context.output(1).numel > 0) fill_elements(context.op, context.output(1), -1);
  if (out.sizes[0] == 0) return;
  BagParams params{};
  params.weight = weight.as<const char>();
  params.indices = indices.view().as<const char>();
  params.offsets = offsets.view().as<const char>();
  params.factors = factors ? factors->view().as<const char>() : nullptr;
  params.row_step = weight.strides[0];
  params.column_step = weight.strides[1];
  params.rows = weight.sizes[0];
  params.count = indices.view().numel;
  params.bags = out.sizes[0];
  params.width = weight.sizes[1];
  params.long_indices = indices.view().dtype == kInt64;
  params.long_offsets = offsets.view().dtype == kInt64;
  params.has_last = attrs.include_last_offset;
  params.padding = attrs.padding_idx;
  params.mode = attrs.mode;
  params.out = out.as<char>();
  params.bag_of = context.output(1).as<long long>();
  params.counts = context.output(2).data;
  params.chosen = context.output(3).as<long long>();
  params.op = context.op.data();
  params.offsets_sentence = kOffsets;
  params.fault = device_fault(device);
  const auto columns = static_cast<unsigned>(
      std::max<long long>(1, (params.width + kColumnThreads - 1) / kColumnThreads));
  visit_floating(out.dtype, context.op, [&]<class T>() {
    Launch{context.op, device}(reduce_bags<T>, dim3(static_cast<unsigned>(params.bags), columns),
                               dim3(kColumnThreads), params);
  });
}

}  // namespace

void register_embedding_bag_cuda() {
  embedding_bag_op.set_kernel(DeviceType::cuda, embedding_bag_kernel);
}

}  // namespace tensora::cuda
