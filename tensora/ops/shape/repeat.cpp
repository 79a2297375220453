// Registers nothing: functions of other ops.
#include "tensora/ops/shape/repeat.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// Adjacent dims of which only the first is repeated are treated as one.
struct Group {
  int64_t repeats;
  int64_t size;
};

}  // namespace

// One strided copy: [s0, s1] becomes [1, s0, 1, s1], is expanded to [r0, s0, r1, s1] and copied.
Tensor repeat(const Tensor& self, const Shape& repeats) {
  check(repeats.size() >= self.dim(), "repeat: expected at least ", self.dim(),
        " repeats for a tensor of shape ", self.sizes(), ", got ", repeats);
  const int lead = repeats.size() - self.dim();
  Shape result;
  SmallVector<Group, kMaxDims> groups;
  for (int d = 0; d < repeats.size(); ++d) {
    check(repeats[d] >= 0, "repeat: repeats must not be negative, got ", repeats);
    const int64_t size = d < lead ? 1 : self.sizes()[d - lead];
    result.push_back(multiply_sizes(size, repeats[d], "repeat"));
    if (repeats[d] == 1 && !groups.empty())
      groups.back().size = multiply_sizes(groups.back().size, size, "repeat");
    else
      groups.push_back({repeats[d], size});
  }
  if (groups.size() <= kMaxDims / 2) {
    Shape separate, expanded;
    for (const Group& group : groups) {
      separate.push_back(1);
      separate.push_back(group.size);
      expanded.push_back(group.repeats);
      expanded.push_back(group.size);
    }
    const Tensor many = expand(reshape(self, separate), expanded);
    return reshape(many.numel() == self.numel() ? clone(many) : contiguous(many), result);
  }
  // More repeated dims than kMaxDims allows for: in two rounds.
  Shape first = repeats, second = repeats;
  for (int d = 0; d < repeats.size(); ++d) (d < repeats.size() / 2 ? first : second)[d] = 1;
  return repeat(repeat(self, first), second);
}

Tensor tile(const Tensor& self, const Shape& dims) {
  return called_as("tile", [&]() {
    Shape repeats = dims;
    while (repeats.size() < self.dim()) repeats.insert(0, 1);
    return repeat(self, repeats);
  });
}

Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim) {
  check(repeats >= 0, "repeat_interleave: repeats must not be negative, got ", repeats);
  if (!dim) return repeat_interleave(ravel(self), repeats, 0);
  const Tensor source = atleast_1d(self);
  const int at = wrap_dim(*dim, source.dim(), "repeat_interleave");
  Shape result = source.sizes();
  result[at] = multiply_sizes(result[at], repeats, "repeat_interleave");
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < source.dim(); ++d) {
    int64_t& side = d <= at ? outer : inner;
    side = multiply_sizes(side, source.sizes()[d], "repeat_interleave");
  }
  const Tensor many = expand(reshape(source, {outer, 1, inner}), {outer, repeats, inner});
  return reshape(repeats == 1 ? clone(many) : contiguous(many), result);
}

Tensor repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim) {
  if (!dim) return repeat_interleave(ravel(self), repeats, 0);
  check(is_integral(repeats.dtype()),
        "repeat_interleave: expected repeats of an integer dtype, got ", repeats.dtype());
  check(repeats.dim() <= 1, "repeat_interleave: expected 0-D or 1-D repeats, got ", repeats.dim(),
        " dimensions");
  const Tensor counts = to(repeats.detach(), self.device(), kInt64);
  if (counts.numel() == 1) return repeat_interleave(self, counts.item<int64_t>(), dim);
  const int64_t size = self.size(*dim);
  check(counts.numel() == size, "repeat_interleave: expected as many repeats as dimension ", *dim,
        " has entries, ", size, ", got ", counts.numel());
  if (size == 0) return clone(self);
  const int64_t lowest = amin(counts).item<int64_t>();
  check(lowest >= 0, "repeat_interleave: repeats must not be negative, got ", lowest);
  // Entry i fills the positions up to ends[i]; a position takes the entry that as many have ended
  // before.
  const Tensor ends = cumsum(counts, 0);
  const int64_t total = select(ends, 0, size - 1).item<int64_t>();
  const Tensor ended = index_add(zeros({total + 1}, {.dtype = kInt64, .device = self.device()}), 0,
                                 ends, ones_like(ends));
  return index_select(self, *dim, narrow(cumsum(ended, 0), 0, 0, total));
}

}  // namespace tensora
