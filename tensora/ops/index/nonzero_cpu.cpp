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

// How many elements of each block are not zero.
template <class T>
std::vector<int64_t> count_blocks(const View& in) {
  std::vector<int64_t> counts(static_cast<size_t>(block_count(in.numel)));
  const T* const from = in.as<const T>();
  parallel_for(block_count(in.numel), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t last = std::min(in.numel, (block + 1) * kBlock);
      int64_t count = 0;
#pragma omp simd reduction(+ : count)
      for (int64_t i = block * kBlock; i < last; ++i) count += is_nonzero(from[i]);
      counts[static_cast<size_t>(block)] = count;
    }
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

template <class T>
void write_indices(const View& in, int64_t* out, int64_t expected, std::string_view op) {
  std::vector<int64_t> starts = count_blocks<T>(in);
  int64_t total = 0;
  for (int64_t& start : starts) total += std::exchange(start, total);
  check(total == expected, op, ": expected ", expected, " elements, found ", total);
  const T* const from = in.as<const T>();
  const int dims = in.dim();
  parallel_for(block_count(in.numel), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      int64_t* to = out + starts[static_cast<size_t>(block)] * dims;
      const int64_t last = std::min(in.numel, (block + 1) * kBlock);
      for (int64_t i = block * kBlock; i < last; ++i) {
        if (!is_nonzero(from[i])) continue;
        int64_t rest = i;
        for (int d = dims - 1; d > 0; --d) {
          to[d] = rest % in.sizes[d];
          rest /= in.sizes[d];
        }
        if (dims > 0) to[0] = rest;
        to += dims;
      }
    }
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
