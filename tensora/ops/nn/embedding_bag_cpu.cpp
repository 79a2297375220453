// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include <algorithm>
#include <limits>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/nn/embedding_bag_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kColumns = 1024;

std::vector<int64_t> integers(const View& view) {
  std::vector<int64_t> result(static_cast<size_t>(view.numel));
  if (view.numel > 0)
    load_fn<int64_t>(view.dtype)(view.data, view.strides[0], view.numel, result.data());
  return result;
}

// Where each bag begins, and after the last one where it ends.
std::vector<int64_t> bag_bounds(const KernelContext& context, const EmbeddingBagAttrs& attrs) {
  const int64_t count = context.input(1).numel;
  std::vector<int64_t> bounds = integers(context.input(2));
  if (!attrs.include_last_offset) bounds.push_back(count);
  check(bounds.size() == 1 || bounds[0] == 0, context.op, ": the first offset must be 0, got ",
        bounds[0]);
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    check(bounds[i] <= bounds[i + 1] && bounds[i + 1] <= count, context.op,
          ": offsets must ascend to at most ", count, " indices, got ", bounds[i], " before ",
          bounds[i + 1]);
  return bounds;
}

template <class C>
struct Bags {
  const KernelContext& context;
  const EmbeddingBagAttrs& attrs;
  std::vector<int64_t> indices, bounds;
  std::vector<C> factors;
  LoadFn load;
  StoreFn store;

  // Columns [first, first + n) of one bag; returns how many rows count.
  int64_t reduce(int64_t bag, int64_t first, int64_t n, C* sum, int64_t* chosen) const {
    const View& weight = context.input(0);
    const auto bytes = static_cast<int64_t>(element_size(weight.dtype));
    C row[kColumns];
    int64_t count = 0;
    std::fill_n(sum, n, C(0));
    if (chosen) std::fill_n(chosen, n, int64_t{0});
    for (int64_t i = bounds[static_cast<size_t>(bag)]; i < bounds[static_cast<size_t>(bag) + 1];
         ++i) {
      const int64_t index = indices[static_cast<size_t>(i)];
      if (index == attrs.padding_idx) continue;
      load(
          weight.as<const char>() + (index * weight.strides[0] + first * weight.strides[1]) * bytes,
          weight.strides[1], n, row);
      if (chosen) {
        for (int64_t j = 0; j < n; ++j)
          if (count == 0 || row[j] > sum[j] || (row[j] != row[j] && sum[j] == sum[j]))
            sum[j] = row[j], chosen[j] = index;
      } else {
        const C factor = factors.empty() ? C(1) : factors[static_cast<size_t>(i)];
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) sum[j] += row[j] * factor;
      }
      ++count;
    }
    if (attrs.mode == BagMode::mean && count > 0)
      for (int64_t j = 0; j < n; ++j) sum[j] /= static_cast<C>(count);
    return count;
  }
};

template <class C>
void run(const KernelContext& context, const EmbeddingBagAttrs& attrs) {
  const View &weight = context.input(0), &out = context.output(0);
  Bags<C> bags{context,
               attrs,
               integers(context.input(1)),
               bag_bounds(context, attrs),
               {},
               load_fn<C>(weight.dtype),
               store_fn<C>(out.dtype)};
  for (int64_t index : bags.indices)
    check(index >= 0 && index < weight.sizes[0], context.op, ": index ", index,
          " is out of bounds for dimension 0 with size ", weight.sizes[0]);
  if (context.in.size() > 3 && context.in[3]) {
    const View& factors = context.input(3);
    bags.factors.resize(static_cast<size_t>(factors.numel));
    load_fn<C>(factors.dtype)(factors.data, factors.strides[0], factors.numel, bags.factors.data());
  }
  auto* const bag_of = context.output(1).as<int64_t>();
  auto* const counts = context.output(2).as<C>();
  std::fill_n(bag_of, context.output(1).numel, int64_t{-1});
  const int64_t width = weight.sizes[1], total = out.sizes[0];
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  const bool is_max = attrs.mode == BagMode::max;
  const int64_t rows = total == 0 ? 1 : 1 + static_cast<int64_t>(bags.indices.size()) / total;
  parallel_for(total, items_per_task(rows * (width + 8) * bytes), [&](int64_t begin, int64_t end) {
    C sum[kColumns];
    int64_t chosen[kColumns];
    for (int64_t bag = begin; bag < end; ++bag) {
      int64_t count = 0;
      for (int64_t i = bags.bounds[static_cast<size_t>(bag)];
           i < bags.bounds[static_cast<size_t>(bag) + 1]; ++i) {
        if (bags.indices[static_cast<size_t>(i)] == attrs.padding_idx) continue;
        bag_of[i] = bag;
        ++count;
      }
      counts[bag] = static_cast<C>(count);
      for (int64_t first = 0; first < width; first += kColumns) {
        const int64_t n = std::min(kColumns, width - first);
        bags.reduce(bag, first, n, sum, is_max ? chosen : nullptr);
        bags.store(sum, out.as<char>() + (bag * width + first) * bytes, 1, n);
        if (is_max) std::copy_n(chosen, n, context.output(3).as<int64_t>() + bag * width + first);
      }
    }
  });
}

void embedding_bag_kernel(const KernelContext& context, const EmbeddingBagAttrs& attrs) {
  if (context.output().dtype == kFloat64)
    run<double>(context, attrs);
  else
    run<float>(context, attrs);
}

}  // namespace

void register_embedding_bag_cpu() {
  embedding_bag_op.set_kernel(DeviceType::cpu, embedding_bag_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
