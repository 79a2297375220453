// Registers nothing: diff and trace are composed of views, differences and sums.
#include "tensora/ops/scan/diff.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/diagonal.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

Tensor diff(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  check(self.dim() > 0, "diff: expected a tensor with at least one dimension");
  check(n >= 0, "diff: n must not be negative, got ", n);
  const int at = wrap_dim(dim, self.dim(), "diff");
  std::vector<Tensor> parts;
  for (const Tensor* part : {&prepend, &self, &append}) {
    if (!part->defined()) continue;
    check(part->dim() == self.dim(),
          "diff: prepend and append must have as many dimensions as "
          "self, ",
          self.dim(), ", got shape ", part->sizes());
    parts.push_back(*part);
  }
  if (n == 0) return self;
  Tensor line = parts.size() > 1 ? called_as("diff", [&] { return cat(parts, at); }) : self;
  for (int64_t round = 0; round < n && (round == 0 || line.size(at) > 0); ++round) {
    const int64_t count = std::max<int64_t>(0, line.size(at) - 1), start = line.size(at) - count;
    const Tensor after = narrow(line, at, start, count), before = narrow(line, at, 0, count);
    line = line.dtype() == kBool ? logical_xor(after, before) : after - before;
  }
  return line;
}

Tensor trace(const Tensor& self) {
  check(self.dim() == 2, "trace: expected a matrix, got shape ", self.sizes());
  if (is_autocast_enabled())
    return autocast_call("trace", {Autocast::full, Autocast::as_is}, trace, self);
  return sum(diagonal(self));
}

}  // namespace tensora
