#include "tensora/ops/shape/flip.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<FlipAttrs>) {
  return fields(field("dims", &FlipAttrs::dims));
}

namespace {

Tensor roll_one(const Tensor& self, int64_t shift, int64_t dim) {
  const int64_t size = self.size(dim);
  if (self.numel() == 0) return clone(self);
  const int64_t start = (size - shift % size) % size;
  if (start == 0) return self.is_contiguous() ? clone(self) : contiguous(self);
  return cat({narrow(self, dim, start, size - start), narrow(self, dim, 0, start)}, dim);
}

}  // namespace

constinit OpDef<FlipAttrs> flip_op = define(Op<FlipAttrs>{
    .name = "flip",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const FlipAttrs& attrs) {
          const Tensor& x = infer[0];
          wrap_dims(attrs.dims, x.dim(), infer.op);
          const Strides layout = dense_strides(x.sizes(), std::span(&x.strides(), 1));
          infer.output(x.sizes(), layout, x.dtype());
        },
    .reference =
        [](Args in, const FlipAttrs& attrs) {
          Tensor result = *in[0];
          if (result.dim() == 0) return Tensors{clone(result)};
          for (int64_t dim : attrs.dims) {
            const int64_t last = result.size(dim) - 1;
            const Tensor backwards = last - arange(last + 1, {.device = result.device()});
            result = index_select(result, dim, backwards);
          }
          return Tensors{attrs.dims.empty() ? clone(result) : result};
        },
    .vjp = [](Vjp& vjp, const FlipAttrs& attrs) { vjp.set(0, flip(vjp.grad(), attrs.dims)); },
    .accepts = kElementDTypes,
});

void register_flip(OpRegistry& registry) {
  registry.add(flip_op);
  shard_by(flip_op, "along dims");
}

Tensor flip(const Tensor& self, const Dims& dims) { return apply(flip_op, {self}, {dims}); }

Tensor fliplr(const Tensor& self) {
  check(self.dim() >= 2, "fliplr: expected a tensor with at least 2 dimensions, got ", self.dim());
  return flip(self, {1});
}

Tensor flipud(const Tensor& self) {
  check(self.dim() >= 1, "flipud: expected a tensor with at least one dimension");
  return flip(self, {0});
}

Tensor roll(const Tensor& self, const Shape& shifts, const Dims& dims) {
  check(!shifts.empty(), "roll: shifts must not be empty");
  if (dims.empty()) {
    check(shifts.size() == 1, "roll: several shifts need as many dims, got ", shifts);
    return reshape(roll_one(ravel(self), shifts[0], 0), self.sizes());
  }
  check(shifts.size() == dims.size(), "roll: shifts ", shifts, " and dims ", dims,
        " must have the same length");
  check(self.dim() > 0, "roll: a 0-dim tensor has no dims to roll along");
  Tensor result = self;
  for (int i = 0; i < dims.size(); ++i) {
    wrap_dim(dims[i], self.dim(), "roll");
    result = roll_one(result, shifts[i], dims[i]);
  }
  return result;
}

Tensor rot90(const Tensor& self, int64_t k, const Dims& dims) {
  check(dims.size() == 2, "rot90: expected two dims, got ", dims);
  check(self.dim() >= 2, "rot90: expected a tensor with at least 2 dimensions, got ", self.dim());
  const Dims plane = wrap_dims(dims, self.dim(), "rot90");
  switch (((k % 4) + 4) % 4) {
    case 1:
      return flip(transpose(self, plane[0], plane[1]), {plane[0]});
    case 2:
      return flip(self, plane);
    case 3:
      return flip(transpose(self, plane[0], plane[1]), {plane[1]});
    default:
      return clone(self);
  }
}

}  // namespace tensora
