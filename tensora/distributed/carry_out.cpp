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

constexpr int64_t kPieceBytes = 1 << 18;  // of one rank: those of all stay in the L2 cache

/// Performs the copies and sums of a collective, or notes them as pieces.
class Performer {
 public:
  explicit Performer(std::vector<CollectivePiece>* pieces = nullptr) : pieces_(pieces) {}

  void copy(const View& to, const View& from) const {
    if (to.data == from.data || from.numel == 0) return;
    if (!from.device.is_cpu()) {
      tensor_of(to).copy_(tensor_of(from));
      return;
    }
    const auto bytes = static_cast<int64_t>(from.bytes());
    if (pieces_) {
      for (int64_t at = 0; at < bytes; at += kPieceBytes)
        pieces_->push_back({.from = {from.as<char>() + at},
                            .to = {to.as<char>() + at},
                            .count = std::min(kPieceBytes, bytes - at)});
      return;
    }
    parallel_for(bytes, kPieceBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(to.as<char>() + begin, from.as<char>() + begin, static_cast<size_t>(end - begin));
    });
  }

  void combine(ReduceOp op, std::span<const View> parts, std::span<const View> outs) const;

 private:
  std::vector<CollectivePiece>* pieces_;
};

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

CollectivePiece combination(ReduceOp op, std::span<const View> parts, std::span<const View> outs,
                            int64_t begin, int64_t count) {
  CollectivePiece piece{.combines = true, .op = op, .dtype = parts[0].dtype, .count = count};
  const int64_t offset = bytes_of(piece.dtype, begin);
  for (const View& part : parts) piece.from.push_back(part.as<char>() + offset);
  for (const View& out : outs) piece.to.push_back(out.as<char>() + offset);
  return piece;
}

void Performer::combine(ReduceOp op, std::span<const View> parts,
                        std::span<const View> outs) const {
  const int64_t count = outs[0].numel;
  if (count == 0) return;
  if (!outs[0].device.is_cpu()) return combine_by_ops(op, parts, outs);
  const int64_t grain = kPieceBytes / static_cast<int64_t>(element_size(parts[0].dtype));
  if (pieces_) {
    for (int64_t at = 0; at < count; at += grain)
      pieces_->push_back(combination(op, parts, outs, at, std::min(grain, count - at)));
    return;
  }
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    carry_out(combination(op, parts, outs, begin, end - begin));
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

void exchange_parts(std::span<const Collective> calls, const Performer& performer) {
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
      performer.copy(part_of(calls[to].out, target.first, target.second),
                     part_of(calls[from].in, source.first, source.second));
    }
}

void perform(std::span<const Collective> calls, const Performer& performer) {
  const Collective& first = calls[0];
  const size_t ranks = calls.size();
  const size_t root = static_cast<size_t>(first.root);
  std::vector<View> outs;
  switch (first.kind) {
    case CollectiveKind::all_reduce:
      for (const Collective& call : calls) outs.push_back(call.out);
      return performer.combine(first.op, inputs_of(calls), outs);
    case CollectiveKind::reduce:
      return performer.combine(first.op, inputs_of(calls), std::span(&calls[root].out, 1));
    case CollectiveKind::reduce_scatter:
      for (size_t r = 0; r < ranks; ++r) {
        const int64_t count = calls[r].out.numel;
        std::vector<View> parts = inputs_of(calls);
        for (View& part : parts) part = part_of(part, count * static_cast<int64_t>(r), count);
        performer.combine(first.op, parts, std::span(&calls[r].out, 1));
      }
      return;
    case CollectiveKind::all_gather:
    case CollectiveKind::split:
      for (const Collective& call : calls)
        for (size_t r = 0; r < ranks; ++r)
          performer.copy(part_of(call.out, first.count * static_cast<int64_t>(r), first.count),
                         calls[r].in);
      return;
    case CollectiveKind::all_to_all:
      return exchange_parts(calls, performer);
    case CollectiveKind::broadcast:
      for (const Collective& call : calls) performer.copy(call.out, calls[root].in);
      return;
    case CollectiveKind::barrier:
      return;
    case CollectiveKind::send:
    case CollectiveKind::recv:
      fail_internal("carry_out: ", name(first.kind), " is not a collective");
  }
}

}  // namespace

void carry_out(std::span<const Collective> calls) {
  if (calls[0].in.device.is_meta()) return;
  const NoGradGuard without_history;
  perform(calls, Performer());
}

std::vector<CollectivePiece> pieces_of(std::span<const Collective> calls) {
  std::vector<CollectivePiece> pieces;
  size_t bytes = 0;
  for (const Collective& call : calls) bytes = std::max({bytes, call.in.bytes(), call.out.bytes()});
  if (!calls[0].in.device.is_cpu() || bytes < 4 * kPieceBytes) return pieces;
  perform(calls, Performer(&pieces));
  return pieces;
}

void carry_out(const CollectivePiece& piece) {
  if (piece.combines)
    combine(piece.op, piece.dtype, piece.from, piece.to, piece.count);
  else
    std::memcpy(piece.to[0], piece.from[0], static_cast<size_t>(piece.count));
}

}  // namespace tensora::distributed
