#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/tensor.h"
#include "tensora/distributed/combine.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

// `count` elements of a contiguous view, from element `begin` on.
View part_of(const View& view, int64_t begin, int64_t count) {
  View part = view;
  part.data = static_cast<char*>(view.data) + bytes_of(view.dtype, begin);
  part.sizes = {count};
  part.strides = {1};
  part.update();
  return part;
}

Tensor tensor_of(const View& view) {
  return make_view(Storage::wrap(view.data, view.bytes(), view.device, Owner()), view.sizes,
                   view.strides, 0, view.dtype);
}

void copy_elements(const View& to, const View& from) {
  if (to.data == from.data || from.numel == 0) return;
  if (!from.device.is_cpu()) {
    tensor_of(to).copy_(tensor_of(from));
    return;
  }
  const size_t bytes = from.bytes();
  constexpr int64_t grain = 1 << 18;
  parallel_for(static_cast<int64_t>(bytes), grain, [&](int64_t begin, int64_t end) {
    std::memcpy(to.as<char>() + begin, from.as<char>() + begin, static_cast<size_t>(end - begin));
  });
}

Tensor combined_with(ReduceOp op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return add(a, b);
    case ReduceOp::product:
      return mul(a, b);
    case ReduceOp::minimum:
      return minimum(a, b);
    case ReduceOp::maximum:
      return maximum(a, b);
  }
  return a;
}

void combine_by_ops(ReduceOp op, std::span<const View> parts, std::span<const View> outs) {
  const DType dtype = parts[0].dtype;
  const bool narrow = dtype == kFloat16 || dtype == kBFloat16;
  const DType sums = narrow ? kFloat32 : dtype;
  Tensor result = tensor_of(parts[0]).to(sums);
  for (const View& part : parts.subspan(1))
    result = combined_with(op, result, tensor_of(part).to(sums));
  if (op == ReduceOp::average) result = mul(result, 1.0 / static_cast<double>(parts.size()));
  for (const View& out : outs) tensor_of(out).copy_(result);
}

void combine_views(ReduceOp op, std::span<const View> parts, std::span<const View> outs) {
  if (outs[0].numel == 0) return;
  if (!outs[0].device.is_cpu()) return combine_by_ops(op, parts, outs);
  const DType dtype = parts[0].dtype;
  constexpr int64_t grain = 1 << 16;
  parallel_for(outs[0].numel, grain, [&](int64_t begin, int64_t end) {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const View& part : parts) from.push_back(part_of(part, begin, 0).data);
    for (const View& out : outs) to.push_back(part_of(out, begin, 0).data);
    combine(op, dtype, from, to, end - begin);
  });
}

std::vector<View> inputs_of(std::span<const Collective> calls) {
  std::vector<View> views;
  for (const Collective& call : calls) views.push_back(call.in);
  return views;
}

// Where the part for, or from, rank `r` begins, and how long it is.
std::pair<int64_t, int64_t> range_of(std::span<const int64_t> counts, size_t r) {
  const auto begin = counts.begin();
  return {std::accumulate(begin, begin + static_cast<int64_t>(r), int64_t{0}), counts[r]};
}

void exchange_parts(std::span<const Collective> calls) {
  const size_t ranks = calls.size();
  for (size_t to = 0; to < ranks; ++to)
    for (size_t from = 0; from < ranks; ++from) {
      const int64_t even = calls[from].in.numel / static_cast<int64_t>(ranks);
      auto source = std::pair(even * static_cast<int64_t>(to), even);
      auto target = std::pair(even * static_cast<int64_t>(from), even);
      if (calls[from].with_counts()) {
        source = range_of(calls[from].in_counts, to);
        target = range_of(calls[to].out_counts, from);
      }
      copy_elements(part_of(calls[to].out, target.first, target.second),
                    part_of(calls[from].in, source.first, source.second));
    }
}

}  // namespace

void carry_out(std::span<const Collective> calls) {
  const Collective& first = calls[0];
  if (first.in.device.is_meta()) return;
  const NoGradGuard without_history;
  const size_t ranks = calls.size();
  const size_t root = static_cast<size_t>(first.root);
  std::vector<View> outs;
  switch (first.kind) {
    case CollectiveKind::all_reduce:
      for (const Collective& call : calls) outs.push_back(call.out);
      return combine_views(first.op, inputs_of(calls), outs);
    case CollectiveKind::reduce:
      return combine_views(first.op, inputs_of(calls), std::span(&calls[root].out, 1));
    case CollectiveKind::reduce_scatter:
      for (size_t r = 0; r < ranks; ++r) {
        const int64_t count = calls[r].out.numel;
        std::vector<View> parts = inputs_of(calls);
        for (View& part : parts) part = part_of(part, count * static_cast<int64_t>(r), count);
        combine_views(first.op, parts, std::span(&calls[r].out, 1));
      }
      return;
    case CollectiveKind::all_gather:
    case CollectiveKind::split:
      for (const Collective& call : calls)
        for (size_t r = 0; r < ranks; ++r)
          copy_elements(part_of(call.out, first.count * static_cast<int64_t>(r), first.count),
                        calls[r].in);
      return;
    case CollectiveKind::all_to_all:
      return exchange_parts(calls);
    case CollectiveKind::broadcast:
      for (const Collective& call : calls) copy_elements(call.out, calls[root].in);
      return;
    case CollectiveKind::barrier:
      return;
    case CollectiveKind::send:
    case CollectiveKind::recv:
      fail_internal("carry_out: ", name(first.kind), " is not a collective");
  }
}

}  // namespace tensora::distributed
