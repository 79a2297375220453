// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/index/nonzero.h"

#include <vector>

#include "tensora/backend/cpu/parts.h"
#include "tensora/core/kernel.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kBlock = 16384;  // elements that one task looks at

int64_t block_count(int64_t n) { return (n + kBlock - 1) / kBlock; }

template <class T>
bool is_nonzero(T value) {
  return static_cast<accumulate_t<T>>(value) != 0;
}

template <class T>
int64_t count_of(const T* from, int64_t n) {
  int64_t count = 0;
#pragma omp simd reduction(+ : count)
  for (int64_t i = 0; i < n; ++i) count += is_nonzero(from[i]);
  return count;
}
// Masks: up to 255 are counted in a byte, so that one instruction adds 32 of them.
int64_t count_of(const bool* from, int64_t n) {
  constexpr int64_t kLanes = 64, kTurns = 255;
  int64_t count = 0;
  while (n >= kLanes) {
    uint8_t lanes[kLanes] = {};
    const int64_t turns = std::min(kTurns, n / kLanes);
    for (int64_t turn = 0; turn < turns; ++turn, from += kLanes)
#pragma omp simd
      for (int64_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<uint8_t>(lanes[i] + from[i]);
    for (const uint8_t lane : lanes) count += lane;
    n -= turns * kLanes;
  }
  for (int64_t i = 0; i < n; ++i) count += from[i];
  return count;
}

// How many elements of each block are not zero.
template <class T>
std::vector<int64_t> count_blocks(const View& in) {
  std::vector<int64_t> counts(static_cast<size_t>(block_count(in.numel)));
  const T* const from = in.as<const T>();
  parallel_for(block_count(in.numel), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      counts[static_cast<size_t>(block)] =
          count_of(from + block * kBlock, std::min(kBlock, in.numel - block * kBlock));
  });
  return counts;
}

void nonzero_count_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  int64_t total = 0;
  visit_dtype(in.dtype, [&]<class T>() {
    for (int64_t count : count_blocks<T>(in)) total += count;
  });
  *context.output().as<int64_t>() = total;
}

// Writes the multi-index of each flat position. They ascend, so that one division serves for all
// that lie in the same line.
void write_rows(const Shape& sizes, const int64_t* positions, int64_t count, int64_t* to) {
  const int dims = sizes.size(), last = dims - 1;
  if (dims == 1) {
    std::copy_n(positions, count, to);
    return;
  }
  if (dims == 0) return;
  const int64_t length = sizes[last];
  for (int64_t k = 0; k < count;) {
    const int64_t line = positions[k] / length, begin = line * length, end = begin + length;
    int64_t outer[kMaxDims];
    int64_t rest = line;
    for (int d = last - 1; d > 0; --d) {
      outer[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    outer[0] = rest;
    for (; k < count && positions[k] < end; ++k, to += dims) {
      for (int d = 0; d < last; ++d) to[d] = outer[d];
      to[last] = positions[k] - begin;
    }
  }
}

template <class T>
void write_block(const View& in, int64_t begin, int64_t end, int64_t* to) {
  constexpr int64_t kChunk = 512;
  int64_t found[kChunk];
  const T* const from = in.as<const T>();
  while (begin < end) {
    const int64_t stop = std::min(end, begin + kChunk);
    int64_t count = 0;
    // Without a branch, which random masks would mispredict every other time.
    for (int64_t i = begin; i < stop; ++i) {
      found[count] = i;
      count += is_nonzero(from[i]);
    }
    write_rows(in.sizes, found, count, to);
    to += count * in.dim();
    begin = stop;
  }
}

template <class T>
void write_indices(const View& in, int64_t* out, int64_t expected, std::string_view op) {
  std::vector<int64_t> starts = count_blocks<T>(in);
  int64_t total = 0;
  for (int64_t& start : starts) total += std::exchange(start, total);
  check(total == expected, op, ": expected ", expected, " elements, found ", total);
  parallel_for(block_count(in.numel), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      write_block<T>(in, block * kBlock, std::min(in.numel, (block + 1) * kBlock),
                     out + starts[static_cast<size_t>(block)] * in.dim());
  });
}

void nonzero_kernel(const KernelContext& context, const NonzeroAttrs& attrs) {
  const View& in = context.input(0);
  visit_dtype(in.dtype, [&]<class T>() {
    write_indices<T>(in, context.output().as<int64_t>(), attrs.count, context.op);
  });
}

}  // namespace

void register_nonzero_cpu() {
  nonzero_count_op.set_kernel(DeviceType::cpu, nonzero_count_kernel);
  nonzero_op.set_kernel(DeviceType::cpu, nonzero_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
