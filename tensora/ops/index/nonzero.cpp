#include "tensora/ops/index/nonzero.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/shape/split.h"

namespace tensora {

constexpr auto describe(std::type_identity<NonzeroAttrs>) {
  return fields(field("count", &NonzeroAttrs::count));
}

namespace {

// Every element that is not zero is written to the row that its rank among them names, the others
// to one row more, which is dropped; then the flat positions are taken apart, dim by dim.
Tensor found(const Tensor& self, int64_t count) {
  const TensorOptions options{.dtype = kInt64, .device = self.device()};
  if (self.numel() == 0) return zeros({count, self.dim()}, options);
  const Tensor mask = ne(ravel(self), 0);
  const Tensor row = where(mask, cumsum(mask, 0) - 1, count);
  const Tensor all = scatter(zeros({count + 1}, options), 0, row, arange(self.numel(), options));
  Tensor rest = narrow(all, 0, 0, count);
  std::vector<Tensor> columns(static_cast<size_t>(self.dim()));
  for (int d = self.dim() - 1; d >= 0; --d) {
    columns[static_cast<size_t>(d)] = remainder(rest, self.sizes()[d]);
    rest = floor_divide(rest, self.sizes()[d]);
  }
  return columns.empty() ? zeros({count, 0}, options) : stack(columns, 1);
}

}  // namespace

constinit OpDef<NoAttrs> nonzero_count_op = define(Op<NoAttrs>{
    .name = "nonzero_count",
    .inputs = {"self"},
    .internal = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.output({}, kInt64);
        },
    .reference = [](Args in, const NoAttrs&) { return Tensors{count_nonzero(*in[0])}; },
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<NonzeroAttrs> nonzero_op = define(Op<NonzeroAttrs>{
    .name = "nonzero",
    .inputs = {"self"},
    .internal = true,
    .infer =
        [](Infer& infer, const NonzeroAttrs& attrs) {
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.output({attrs.count, infer[0].dim()}, kInt64);
        },
    .reference = [](Args in,
                    const NonzeroAttrs& attrs) { return Tensors{found(*in[0], attrs.count)}; },
    .gradient = Gradient::not_differentiable,
});

void register_nonzero(OpRegistry& registry) {
  registry.add(nonzero_count_op);
  registry.add(nonzero_op);
}

Tensor nonzero(const Tensor& self) {
  check(!self.is_meta(),
        "nonzero: the shape of the result depends on data, which a meta tensor "
        "does not have");
  const Tensor source = contiguous(self.is_complex() ? ne(self.detach(), 0) : self.detach());
  return apply(nonzero_op, {source}, {apply(nonzero_count_op, {source}).item<int64_t>()});
}

Tensor argwhere(const Tensor& self) { return nonzero(self); }

std::vector<Tensor> nonzero_tuple(const Tensor& self) {
  return unbind(nonzero(atleast_1d(self)), 1);
}

}  // namespace tensora
