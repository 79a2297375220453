#include "tensora/backend/cuda/loops/reduce.cuh"

#include <algorithm>
#include <bit>
#include <optional>

#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

constexpr int64_t kMinStepsPerThread = 8;

/// Dims with the strides of up to three arrays, in bytes; dim 0 is the innermost.
struct DimList {
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[3][kMaxDims] = {};

  void add(int64_t size, int64_t in, int64_t out0, int64_t out1) {
    if (size == 1) return;
    const int last = dims - 1;
    if (last >= 0 && strides[0][last] * sizes[last] == in &&
        strides[1][last] * sizes[last] == out0 && strides[2][last] * sizes[last] == out1) {
      sizes[last] *= size;
      return;
    }
    sizes[dims] = size;
    strides[0][dims] = in;
    strides[1][dims] = out0;
    strides[2][dims] = out1;
    ++dims;
  }
  int64_t count() const {
    int64_t product = 1;
    for (int d = 0; d < dims; ++d) product *= sizes[d];
    return product;
  }
  void group(int64_t elements) {
    sizes[0] /= elements;
    for (auto& array : strides) array[0] *= elements;
  }
  bool aligned_outer(int64_t alignment) const {
    for (int d = 1; d < dims; ++d)
      if (strides[0][d] % alignment != 0) return false;
    return true;
  }
};

template <int K>
WideWalk<K> device_walk(const DimList& list) {
  WideWalk<K> walk{};
  walk.dims = std::max(list.dims, 1);
  if (list.dims == 0) walk.sizes[0] = {1, 1, 0};
  for (int d = 0; d < list.dims; ++d) {
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(list.sizes[d], 1));
    walk.sizes[d] = {numbers.divisor, numbers.multiplier, numbers.shift};
    for (int k = 0; k < K; ++k) walk.strides[k][d] = list.strides[k][d];
  }
  return walk;
}

struct Plan {
  DimList kept, reduced;
};

// Kept dims find their output strides by walking the outputs' dims in order, skipping size 1.
Plan make_plan(const KernelContext& context, uint32_t mask, bool indexed) {
  const View& in = context.input(0);
  const auto bytes = static_cast<int64_t>(element_size(in.dtype));
  int64_t out_strides[2][kMaxDims] = {};
  for (size_t o = 0; o < context.out.size() && o < 2; ++o) {
    const View& out = context.output(o);
    int next = 0;
    for (int d = 0; d < in.dim(); ++d) {
      if (mask >> d & 1 || in.sizes[d] == 1) continue;
      while (out.sizes[next] == 1) ++next;
      out_strides[o][d] = out.strides[next++] * static_cast<int64_t>(element_size(out.dtype));
    }
  }
  int order[kMaxDims];
  for (int d = 0; d < in.dim(); ++d) order[d] = in.dim() - 1 - d;
  // Positions count in logical order; everything else follows the input's memory.
  if (!indexed)
    std::stable_sort(order, order + in.dim(),
                     [&](int a, int b) { return in.strides[a] < in.strides[b]; });
  Plan plan;
  for (int i = 0; i < in.dim(); ++i) {
    const int d = order[i];
    if (mask >> d & 1)
      plan.reduced.add(in.sizes[d], in.strides[d] * bytes, 0, 0);
    else
      plan.kept.add(in.sizes[d], in.strides[d] * bytes, out_strides[0][d], out_strides[1][d]);
  }
  return plan;
}

// The split of the reduced range: enough blocks for the device, enough steps for each thread.
void choose_splits(ReduceParams& params, int64_t blocks, int64_t threads_per_result,
                   int64_t wanted) {
  const int64_t useful =
      params.steps / std::max<int64_t>(threads_per_result * kMinStepsPerThread, 1);
  const int64_t splits = std::clamp<int64_t>(wanted / std::max<int64_t>(blocks, 1), 1,
                                             std::clamp<int64_t>(useful, 1, 65535));
  params.steps_per_split = static_cast<unsigned>((params.steps + splits - 1) / splits);
  params.splits = params.steps_per_split == 0
                      ? 1
                      : (params.steps + params.steps_per_split - 1) / params.steps_per_split;
  params.splits = std::max(params.splits, 1u);
}

struct Shape2d {
  unsigned x, y;
};

// Threads of a row, rows of a block: powers of two. A thread should have all its loads to do; where
// there are rows enough to fill the device, half a block is enough for one.
Shape2d row_block(unsigned steps, unsigned rows, int device) {
  const auto enough = static_cast<unsigned>(device_info(device).multiprocessors) * 16;
  const unsigned limit = rows >= enough ? kReduceThreads / 2 : kReduceThreads;
  const unsigned x = std::clamp(std::bit_floor(std::max(steps / kLoads, 1u)), 1u, limit);
  return {x, kReduceThreads / x};
}

Shape2d column_block(unsigned groups) {
  const unsigned x = std::clamp(std::bit_ceil(std::max(groups, 1u)), 1u, 32u);
  return {x, kReduceThreads / x};
}

// How the kernels read the input: along the reduced dims or across them, in groups or not.
struct Access2d {
  bool columns, vector;
};

// Elements of one load; kLoadElements of the kernels.
int64_t load_elements(DType dtype) {
  const auto bytes = static_cast<int64_t>(element_size(dtype));
  return bytes == 1 ? 8 : 16 / bytes;
}

Access2d choose_access(const View& in, const Plan& plan, int64_t steps, bool reads_directly) {
  const auto bytes = static_cast<int64_t>(element_size(in.dtype));
  const int64_t group = load_elements(in.dtype);
  const int64_t alignment = std::min<int64_t>(16, bytes * group);
  const bool inner_reduced = plan.reduced.dims > 0 && plan.reduced.strides[0][0] == bytes;
  const bool inner_kept = plan.kept.dims > 0 && plan.kept.strides[0][0] == bytes;
  const bool columns = inner_kept && steps > 1 && !inner_reduced;
  const bool aligned =
      reads_directly && steps > 0 &&
      reinterpret_cast<uintptr_t>(in.data) % static_cast<uintptr_t>(alignment) == 0 &&
      plan.kept.aligned_outer(alignment) && plan.reduced.aligned_outer(alignment);
  if (columns)
    return {true, aligned && plan.kept.sizes[0] % group == 0 &&
                      plan.reduced.strides[0][0] % alignment == 0};
  // Rows that begin anywhere else than at a multiple of the alignment cannot be read in groups.
  return {false, aligned && inner_reduced &&
                     (plan.kept.dims == 0 || plan.kept.strides[0][0] % alignment == 0) &&
                     (plan.reduced.dims == 1 || plan.reduced.sizes[0] % group == 0)};
}

ReduceParams make_params(const KernelContext& context, Plan plan, int64_t steps, Access2d access) {
  const View& in = context.input(0);
  const int64_t group = load_elements(in.dtype);
  ReduceParams params{};
  params.in = in.as<const char>();
  params.in_dtype = in.dtype;
  for (size_t o = 0; o < context.out.size() && o < 2; ++o) {
    params.out[o] = context.output(o).as<char>();
    params.out_dtype[o] = context.output(o).dtype;
  }
  params.outputs = static_cast<unsigned>(plan.kept.count());
  params.finish = device_walk<3>(plan.kept);
  if (access.vector && access.columns) {
    params.out_step[0] = plan.kept.strides[1][0];
    params.out_step[1] = plan.kept.strides[2][0];
    plan.kept.group(group);
  } else if (access.vector) {
    params.tail = static_cast<unsigned>(plan.reduced.sizes[0] % group);
    plan.reduced.group(group);
  }
  params.steps = steps == 0 ? 0 : static_cast<unsigned>(plan.reduced.count());
  params.kept = device_walk<3>(plan.kept);
  params.reduced = device_walk<1>(plan.reduced);
  params.lanes = static_cast<unsigned>(plan.kept.count());
  return params;
}

}  // namespace

void run_reduction(const KernelContext& context, uint32_t mask, const ReduceKernels& kernels,
                   const void* functor) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const int device = context.device.index;
  const Plan plan = make_plan(context, mask, kernels.indexed);
  const int64_t steps = in.numel == 0 ? 0 : plan.reduced.count();
  constexpr int64_t kLimit = int64_t{1} << 31;
  check(plan.kept.count() < kLimit && steps < kLimit, context.op,
        ": more than 2^31 results or elements per result are not supported on cuda");
  const Access2d access = choose_access(in, plan, steps, kernels.reads_directly(in.dtype));
  ReduceParams params = make_params(context, plan, steps, access);

  const Shape2d block =
      access.columns ? column_block(params.lanes) : row_block(params.steps, params.outputs, device);
  const unsigned per_block = access.columns ? block.x : block.y;
  const unsigned blocks = (params.lanes + per_block - 1) / per_block;
  choose_splits(params, blocks, access.columns ? block.y : block.x,
                device_info(device).multiprocessors *
                    (access.columns ? kernels.column_blocks : kernels.row_blocks));
  std::optional<Scratch> scratch;
  if (params.splits > 1) {
    scratch.emplace(device, size_t{params.splits} * params.outputs * kernels.acc_bytes);
    params.partial = scratch->data();
  }
  void* args[] = {&params, const_cast<void*>(functor)};
  const Launch launch{context.op, device};
  const void* kernel = access.columns ? (access.vector ? kernels.columns_vector : kernels.columns)
                                      : (access.vector ? kernels.rows_vector : kernels.rows);
  launch.run(kernel, dim3(blocks, params.splits), dim3(block.x, block.y), args);
  if (params.splits > 1) {
    const Shape2d shape = column_block(params.outputs);
    launch.run(kernels.combine, dim3((params.outputs + shape.x - 1) / shape.x),
               dim3(shape.x, shape.y), args);
  }
}

}  // namespace tensora::cuda
