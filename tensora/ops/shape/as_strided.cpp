#include "tensora/ops/shape/as_strided.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/fill.h"
#include "tensora/ops/creation/empty.h"

namespace tensora {
namespace {

// One past the last element that a geometry reaches.
int64_t extent(const Shape& sizes, const Strides& strides, int64_t offset) {
  if (sizes.numel() == 0) return offset;
  for (int i = 0; i < sizes.size(); ++i) offset += (sizes[i] - 1) * strides[i];
  return offset + 1;
}

}  // namespace

constinit OpDef<AsStridedAttrs> as_strided_op = define(Op<AsStridedAttrs>{
    .name = "as_strided",
    .infer =
        [](Infer& infer, const AsStridedAttrs& attrs) {
          infer.check(attrs.sizes.size() == attrs.strides.size(), "got ", attrs.sizes.size(),
                      " sizes but ", attrs.strides.size(), " strides");
          for (int i = 0; i < attrs.sizes.size(); ++i)
            infer.check(attrs.sizes[i] >= 0 && attrs.strides[i] >= 0,
                        "sizes and strides must not be negative, got ", attrs.sizes, " and ",
                        attrs.strides);
          const int64_t available =
              static_cast<int64_t>(infer[0].impl().storage->bytes() / infer[0].element_size());
          const int64_t needed = extent(attrs.sizes, attrs.strides, attrs.offset);
          infer.check(attrs.offset >= 0 && needed <= available, "size ", attrs.sizes, ", stride ",
                      attrs.strides, " and offset ", attrs.offset, " reach element ", needed - 1,
                      " of a storage of ", available, " elements");
          infer.view(attrs.sizes, attrs.strides, attrs.offset);
        },
    .vjp =
        [](Vjp& vjp, const AsStridedAttrs& attrs) {
          vjp.set(0, apply(as_strided_backward_op, {vjp.grad()},
                           {vjp.input_sizes(0), attrs.input_strides, attrs.sizes, attrs.strides,
                            attrs.offset - attrs.input_offset}));
        },
    .view = true,
});

constinit OpDef<AsStridedBackwardAttrs> as_strided_backward_op = define(Op<AsStridedBackwardAttrs>{
    .name = "as_strided_backward",
    .infer =
        [](Infer& infer, const AsStridedBackwardAttrs& attrs) {
          infer.check(is_dense(attrs.input_sizes, attrs.input_strides),
                      "the gradient of as_strided needs an input without gaps or overlaps, got "
                      "sizes ",
                      attrs.input_sizes, " and strides ", attrs.input_strides);
          const int64_t reached = extent(attrs.sizes, attrs.strides, attrs.offset);
          infer.check(attrs.offset >= 0 && reached <= attrs.input_sizes.numel(),
                      "the view reaches beyond its input, so the gradient cannot flow back");
          infer.output(attrs.input_sizes, attrs.input_strides, infer[0].dtype());
        },
    .reference =
        [](Args in, const AsStridedBackwardAttrs& attrs) {
          const Tensor& grad = *in[0];
          Tensors result;
          // Elements that several indices reach are summed, which the host's kernel does.
          if (may_overlap_itself(attrs.sizes, attrs.strides)) {
            const Tensor summed = apply(as_strided_backward_op, {to(grad, DeviceType::cpu)}, attrs);
            result.push_back(to(summed, grad.device()));
            return result;
          }
          result.push_back(empty_strided(attrs.input_sizes, attrs.input_strides,
                                         {.dtype = grad.dtype(), .device = grad.device()}));
          zero_(result[0]);
          copy_(as_strided(result[0], attrs.sizes, attrs.strides, attrs.offset), grad);
          return result;
        },
    .vjp =
        [](Vjp& vjp, const AsStridedBackwardAttrs& attrs) {
          Tensor laid_out = make_tensor(attrs.input_sizes, attrs.input_strides, vjp.grad().dtype(),
                                        vjp.grad().device());
          engine_ops().copy_(laid_out, vjp.grad());
          vjp.set(0, as_strided(laid_out, attrs.sizes, attrs.strides, attrs.offset));
        },
    .accepts = kComputingDTypes,
});

void register_as_strided(OpRegistry& registry) {
  registry.add(as_strided_op);
  registry.add(as_strided_backward_op);
}

Tensor as_strided(const Tensor& self, const Shape& size, const Strides& stride,
                  std::optional<int64_t> storage_offset) {
  return apply(as_strided_op, {self},
               {size, stride, storage_offset.value_or(self.storage_offset()), self.strides(),
                self.storage_offset()});
}

}  // namespace tensora
