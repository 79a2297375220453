#include "tensora/ops/index/gather.h"

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/ordered.h"
#include "tensora/backend/cuda/loops/parts.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/determinism.h"
#include "tensora/ops/index/gather_lines.cuh"
#include "tensora/ops/index/scatter_combine.h"

// All four ops pair `plain[i]` with `data[i, its dim-th entry replaced by index[i]]` for every i in
// the index's shape.

namespace tensora::cuda {
namespace {

struct GatherParams {
  Walk<4> walk;  // plain, index, data (at position 0 of `dim`), the element's number
  char *plain, *index, *data;
  long long step;  // stride in bytes of the data along `dim`
  IndexLimits limits;
  DType index_dtype;
  unsigned count;
  // For writes in order only:
  SortPairs pairs;
  long long first_number, first_offset;  // of the part
  uint64_t nowhere;
};

constexpr unsigned kPerThread = kIndicesPerThread;
constexpr unsigned kPerBlock = kThreads * kPerThread;

/// Calls body(k, at) for the thread's elements k that exist, with their offsets.
template <class Body>
__device__ inline void each_element(const GatherParams& params, Body&& body) {
  const unsigned first = blockIdx.x * kPerBlock + threadIdx.x;
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k) {
    const unsigned i = first + k * kThreads;
    if (i >= params.count) continue;
    int at[4];
    params.walk.offsets(i, at);
    body(k, at);
  }
}

/// What a thread has to do for one of its elements.
struct Pairing {
  char* plain;
  char* data;  // null where the index was wrong, or there is no element
};

__device__ inline void follow_indices(const GatherParams& params, Pairing (&pairs)[kPerThread]) {
#pragma unroll
  for (Pairing& pair : pairs) pair = {nullptr, nullptr};
  long long index[kPerThread] = {};
  each_element(params, [&](unsigned k, const int(&at)[4]) {
    index[k] = raw_index(params.index, at[1], params.index_dtype);
    pairs[k] = {params.plain + at[0], params.data + at[2]};
  });
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k) {
    if (!pairs[k].plain) continue;
    const long long position = checked_index(index[k], params.limits);
    pairs[k].data = position < 0 ? nullptr : pairs[k].data + position * params.step;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    read_elements(const __grid_constant__ GatherParams params) {
  Pairing pairs[kPerThread];
  follow_indices(params, pairs);
  T values[kPerThread] = {};
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k)
    if (pairs[k].data) values[k] = *reinterpret_cast<const T*>(pairs[k].data);
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k)
    if (pairs[k].plain) *reinterpret_cast<T*>(pairs[k].plain) = values[k];
}

enum class Action { write, add, multiply, largest, smallest };

/// An element replaced by what `combined` makes of it and other threads may have made before.
template <class T, class Combined>
__device__ inline void atomic_replace(T* to, Combined combined) {
  if constexpr (sizeof(T) == 8) {
    auto* const word = reinterpret_cast<unsigned long long*>(to);
    unsigned long long seen = *reinterpret_cast<volatile unsigned long long*>(word), expected;
    do {
      expected = seen;
      const T next = combined(__builtin_bit_cast(T, expected));
      seen = atomicCAS(word, expected, __builtin_bit_cast(unsigned long long, next));
    } while (seen != expected);
  } else {  // compare-and-swap of the aligned word that contains the element
    constexpr unsigned kMask = ~0u >> (32 - 8 * sizeof(T));
    const size_t address = reinterpret_cast<size_t>(to);
    unsigned* const word = reinterpret_cast<unsigned*>(address & ~size_t{3});
    const unsigned shift = static_cast<unsigned>(address & 3) * 8;
    unsigned seen = *reinterpret_cast<volatile unsigned*>(word), expected;
    do {
      expected = seen;
      const unsigned old_bits = expected >> shift & kMask;
      T element;
      __builtin_memcpy(&element, &old_bits, sizeof(T));
      element = combined(element);
      unsigned bits = 0;
      __builtin_memcpy(&bits, &element, sizeof(T));
      seen = atomicCAS(word, expected, (expected & ~(kMask << shift)) | bits << shift);
    } while (seen != expected);
  }
}

/// NaN stays.
template <class D, Action kAction>
__device__ inline void combine_atomically(D* data, D value) {
  using C = accumulate_t<D>;
  const C x = load_value<C>(value);
  atomic_replace(data, [&](D old) {
    const C y = load_value<C>(old);
    if constexpr (kAction == Action::multiply) return store_value<D>(x * y);
    const bool replaces = kAction == Action::largest ? x > y : x < y;
    return replaces || x != x ? value : old;
  });
}

// T: of the plain side; D: of the data.
template <class T, class D, Action kAction>
__global__ void __launch_bounds__(kThreads)
    write_elements(const __grid_constant__ GatherParams params) {
  Pairing pairs[kPerThread];
  follow_indices(params, pairs);
  T values[kPerThread] = {};
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k)
    if (pairs[k].data) values[k] = *reinterpret_cast<const T*>(pairs[k].plain);
#pragma unroll
  for (unsigned k = 0; k < kPerThread; ++k) {
    if (!pairs[k].data) continue;
    D* const data = reinterpret_cast<D*>(pairs[k].data);
    if constexpr (kAction == Action::write)
      *data = values[k];
    else if constexpr (kAction == Action::add)
      atomic_add(data, static_cast<D>(values[k]));
    else
      combine_atomically<D, kAction>(data, static_cast<D>(values[k]));
  }
}

__global__ void __launch_bounds__(kThreads)
    find_places(const __grid_constant__ GatherParams params) {
  each_element(params, [&](unsigned, const int(&at)[4]) {
    const long long position =
        checked_index(raw_index(params.index, at[1], params.index_dtype), params.limits);
    const long long number = params.first_number + at[3];
    const long long offset = params.first_offset + at[2] + position * params.step;
    params.pairs.keys[number] = position < 0 ? params.nowhere : static_cast<uint64_t>(offset);
    params.pairs.values[number] = static_cast<uint32_t>(number);
  });
}

View widened(View view) {
  if (view.dim() > 0) return view;
  view.sizes = {1};
  view.strides = {1};
  return view;
}

dim3 blocks_for(const GatherParams& params) {
  return dim3((params.count + kPerBlock - 1) / kPerBlock);
}

/// The arrays of one op, in the shape of the index.
struct Arrays {
  View plain, index, data, numbers;
  int dim;

  Arrays(const KernelContext& context, const View& plain_view, const View& index_view,
         const View& data_view, int64_t along)
      : plain(widened(plain_view)), index(widened(index_view)), data(widened(data_view)) {
    dim = wrap_dim(along, index.dim(), context.op);
    numbers = numbers_of(index);
  }
};

// Calls launch(params) for each part of the work.
template <class Body>
void each_launch(const KernelContext& context, const Arrays& arrays, GatherParams params,
                 Body&& launch) {
  if (arrays.index.numel == 0) return;
  View plain = arrays.plain, data = arrays.data;
  const int dim = arrays.dim;
  params.step = data.strides[dim] * static_cast<int64_t>(element_size(data.dtype));
  params.limits = {context.op.data(), device_fault(context.device.index), 0, data.sizes[dim], dim};
  params.index_dtype = arrays.index.dtype;
  data.strides[dim] = 0;
  for (View* view : {&plain, &data}) {
    view->sizes = arrays.index.sizes;
    view->update();
  }
  const View* const views[] = {&plain, &arrays.index, &data, &arrays.numbers};
  each_part(make_walk(views), [&](const HostWalk& part, bool) {
    fill_walk(params.walk, part);
    params.plain = part.data[0];
    params.index = part.data[1];
    params.data = part.data[2];
    params.first_offset = part.data[2] - data.as<char>();
    params.first_number = part.data[3] - arrays.numbers.as<char>();
    params.count = static_cast<unsigned>(part.count());
    launch(params);
  });
}

// See Note [Order of colliding writes].
void write_ordered(const KernelContext& context, const Arrays& arrays, Action action) {
  const int device = context.device.index;
  const int64_t count = arrays.index.numel;
  if (count == 0) return;
  const PairMemory memory(context.op, device, count);
  GatherParams params{};
  params.pairs = memory.pairs(0);
  params.nowhere = static_cast<uint64_t>(extent_bytes(arrays.data));
  each_launch(context, arrays, params, [&](const GatherParams& part) {
    Launch{context.op, device}(find_places, blocks_for(part), dim3(kThreads), part);
  });
  View one_line;  // the values of an index of any shape are one line
  one_line.dtype = arrays.data.dtype;
  OrderedWrite job{.op = context.op,
                   .device = device,
                   .pairs = params.pairs,
                   .sorted = memory.pairs(1),
                   .count = count,
                   .nowhere = params.nowhere,
                   .values = arrays.plain,
                   .plain_lines = one_line,
                   .data_lines = one_line};
  job.values.sizes = arrays.index.sizes;
  job.plain_lines.data = arrays.plain.data;
  job.data_lines.data = arrays.data.data;
  if (action == Action::write) return write_in_order(job);
  action == Action::add ? add_in_order(job) : multiply_in_order(job);
}

void write(const KernelContext& context, const Arrays& arrays) {
  if (is_deterministic()) return write_ordered(context, arrays, Action::write);
  const Launch run{context.op, context.device.index};
  each_launch(context, arrays, {}, [&](const GatherParams& params) {
    visit_element_size(arrays.data.dtype, [&]<class T>() {
      run(write_elements<T, T, Action::write>, blocks_for(params), dim3(kThreads), params);
    });
  });
}

template <class T, Action kAction>
void combine(const KernelContext& context, const Arrays& arrays) {
  const Launch run{context.op, context.device.index};
  const View& data = arrays.data;
  if constexpr (std::is_same_v<accumulate_t<T>, float> && !std::is_same_v<T, float>) {
    // Half types are combined in float, as on the CPU.
    const Scratch sums(context.device.index, static_cast<size_t>(data.numel) * sizeof(float));
    Arrays wide = arrays;
    wide.data.data = sums.data();
    wide.data.dtype = kFloat32;
    wide.data.strides = contiguous_strides(data.sizes);
    wide.data.update();
    copy_elements(context.op, data, wide.data);
    each_launch(context, wide, {}, [&](const GatherParams& params) {
      run(write_elements<T, float, kAction>, blocks_for(params), dim3(kThreads), params);
    });
    copy_elements(context.op, wide.data, data);
  } else {
    each_launch(context, arrays, {}, [&](const GatherParams& params) {
      run(write_elements<T, T, kAction>, blocks_for(params), dim3(kThreads), params);
    });
  }
}

/// See Note [Lines on the chip]: nothing where it does not apply. A line takes `bytes` per element.
std::optional<LineParams> lines_on_chip(const KernelContext& context, const Arrays& arrays,
                                        int64_t bytes) {
  constexpr int64_t kLongestLine = 32 * 1024;  // in bytes
  const auto& [plain, index, data, numbers, dim] = arrays;
  if (index.numel == 0 || dim + 1 != data.dim() || data.sizes[dim] == 0) return {};
  const int64_t length = data.sizes[dim], values = index.sizes[dim], lines = data.numel / length;
  if (length * bytes > kLongestLine || values < length / 4 || values >= int64_t{1} << 30 ||
      lines < device_info(context.device.index).multiprocessors || lines >= int64_t{1} << 31)
    return {};
  for (int d = 0; d < dim; ++d)
    if (index.sizes[d] != data.sizes[d]) return {};
  bool one_value = true;
  for (int d = 0; d <= dim; ++d) one_value &= plain.sizes[d] == 1 || plain.strides[d] == 0;
  if (plain.sizes != index.sizes || !(plain.contiguous || one_value) || !index.contiguous ||
      !data.contiguous)
    return {};
  LineParams params{};
  params.plain = plain.as<char>();
  params.index = index.as<const char>();
  params.data = data.as<char>();
  params.lines = static_cast<unsigned>(lines);
  params.length = static_cast<int>(length);
  params.values = static_cast<int>(values);
  params.limits = {context.op.data(), device_fault(context.device.index), 0, length, dim};
  params.index_dtype = index.dtype;
  params.one_value = one_value && !plain.contiguous;
  return params;
}

/// Where the lines of an op that writes begin: in `start`, or at 0. False if that does not lie as
/// the data does.
bool begin_lines(LineParams& params, const View* start) {
  params.start = start ? start->as<const char>() : nullptr;
  return !start || start->contiguous;
}

/// Whether the data became `start` (0 without it) and the sums of the values.
bool add_on_chip(const KernelContext& context, const Arrays& arrays, const View* start) {
  const DType dtype = arrays.data.dtype;
  const bool is_float = dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16;
  if (!is_float || is_deterministic()) return false;
  std::optional<LineParams> params = lines_on_chip(context, arrays, sizeof(float));
  if (!params || params->one_value || !begin_lines(*params, start)) return false;
  const auto kernel = dtype == kFloat32   ? add_to_lines<float>
                      : dtype == kFloat16 ? add_to_lines<Half>
                                          : add_to_lines<BFloat16>;
  launch_lines(context, *params, sizeof(float), kernel);
  return true;
}

/// Whether the data became `start` with the values in their places.
bool write_on_chip(const KernelContext& context, const Arrays& arrays, const View& start) {
  if (is_deterministic()) return false;
  const auto bytes = static_cast<int64_t>(element_size(arrays.data.dtype));
  std::optional<LineParams> params = lines_on_chip(context, arrays, bytes);
  if (!params || !begin_lines(*params, &start)) return false;
  visit_element_size(arrays.data.dtype,
                     [&]<class T>() { launch_lines(context, *params, bytes, write_to_lines<T>); });
  return true;
}

/// Whether the plain side was read from the data.
bool read_on_chip(const KernelContext& context, const Arrays& arrays) {
  const auto bytes = static_cast<int64_t>(element_size(arrays.data.dtype));
  const std::optional<LineParams> params = lines_on_chip(context, arrays, bytes);
  if (!params || params->one_value) return false;
  visit_element_size(arrays.data.dtype,
                     [&]<class T>() { launch_lines(context, *params, bytes, read_from_lines<T>); });
  return true;
}

void add(const KernelContext& context, const Arrays& arrays) {
  if (is_deterministic() && is_differentiable(arrays.data.dtype))
    return write_ordered(context, arrays, Action::add);
  visit_computing(arrays.data.dtype, [&]<class T>() { combine<T, Action::add>(context, arrays); });
}

void gather_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const Arrays arrays(context, context.output(), context.input(1), context.input(0), attrs.dim);
  if (read_on_chip(context, arrays)) return;
  const Launch run{context.op, context.device.index};
  each_launch(context, arrays, {}, [&](const GatherParams& params) {
    visit_element_size(arrays.data.dtype, [&]<class T>() {
      run(read_elements<T>, blocks_for(params), dim3(kThreads), params);
    });
  });
}

void gather_backward_kernel(const KernelContext& context, const GatherBackwardAttrs& attrs) {
  const Arrays arrays(context, context.input(0), context.input(1), context.output(), attrs.dim);
  if (add_on_chip(context, arrays, nullptr)) return;
  fill_elements(context.op, context.output(), 0);
  add(context, arrays);
}

void scatter_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  const Arrays arrays(context, context.input(2), context.input(1), out, attrs.dim);
  if (write_on_chip(context, arrays, context.input(0))) return;
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  write(context, arrays);
}

void scatter_add_kernel(const KernelContext& context, const GatherAttrs& attrs) {
  const View& out = context.output();
  const Arrays arrays(context, context.input(2), context.input(1), out, attrs.dim);
  if (add_on_chip(context, arrays, &context.input(0))) return;
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  add(context, arrays);
}

// The extrema, and products of integers, are the same in any order.
void scatter_combine_kernel(const KernelContext& context, const ScatterCombineAttrs& attrs) {
  const View& out = context.output();
  if (context.input(0).data != out.data) copy_elements(context.op, context.input(0), out);
  const Arrays arrays(context, context.input(2), context.input(1), out, attrs.dim);
  const bool product = attrs.combine == Combine::prod;
  if (product && is_deterministic() && is_floating_point(out.dtype))
    return write_ordered(context, arrays, Action::multiply);
  visit_dtype(out.dtype, [&]<class T>() {
    if (product)
      combine<T, Action::multiply>(context, arrays);
    else if (attrs.combine == Combine::amax)
      combine<T, Action::largest>(context, arrays);
    else
      combine<T, Action::smallest>(context, arrays);
  });
}

}  // namespace

void register_gather_cuda() {
  scatter_combine_op.set_kernel(DeviceType::cuda, scatter_combine_kernel);
  gather_op.set_kernel(DeviceType::cuda, gather_kernel);
  gather_backward_op.set_kernel(DeviceType::cuda, gather_backward_kernel);
  scatter_op.set_kernel(DeviceType::cuda, scatter_kernel);
  scatter_add_op.set_kernel(DeviceType::cuda, scatter_add_kernel);
}

}  // namespace tensora::cuda
