#include "tensora/ops/shape/as_strided.h"

#include "tensora/autograd/history.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/copy/fill.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<AsStridedBackwardAttrs>) {
  using A = AsStridedBackwardAttrs;
  return fields(field("input_sizes", &A::input_sizes), field("input_strides", &A::input_strides),
                field("sizes", &A::sizes), field("strides", &A::strides),
                field("offset", &A::offset));
}
constexpr auto describe(std::type_identity<AsStridedAttrs>) {
  return fields(field("sizes", &AsStridedAttrs::sizes), field("strides", &AsStridedAttrs::strides),
                field("offset", &AsStridedAttrs::offset),
                field("input_strides", &AsStridedAttrs::input_strides),
                field("input_offset", &AsStridedAttrs::input_offset));
}

namespace {

int64_t extent(const Shape& sizes, const Strides& strides, int64_t offset) {
  return storage_extent(sizes, strides, offset, "as_strided");
}

// Note [The gradient of as_strided]
// A view may go beyond its input: it may begin before it, end after it, or lie between its
// elements. Then a part of the storage that contains both, the frame, connects them: the view's
// gradient is summed there, and the input's is read from it. Where several indices of the input
// share an element (the input was expanded), its gradient is divided among them, as in PyTorch.
Tensor gradient_of_input(const Vjp& vjp, const AsStridedAttrs& attrs) {
  const Shape& sizes = vjp.input_sizes(0);
  const Tensor& grad = vjp.grad();
  check(attrs.input_offset && attrs.input_strides.size() == sizes.size(),
        "as_strided: called by name, its gradient needs input_strides and input_offset");
  const int64_t offset = attrs.offset - *attrs.input_offset;
  const int64_t end =
      std::max(extent(sizes, attrs.input_strides, 0), extent(attrs.sizes, attrs.strides, offset));
  if (is_dense(sizes, attrs.input_strides) && offset >= 0 && end <= sizes.numel())
    return apply(as_strided_backward_op, {grad},
                 {sizes, attrs.input_strides, attrs.sizes, attrs.strides, offset});
  if (sizes.numel() == 0 || grad.numel() == 0)
    return zeros(sizes, {.dtype = grad.dtype(), .device = grad.device()});
  const int64_t begin = std::min<int64_t>(offset, 0);
  const Shape frame{end - begin};
  const auto sum_in_frame = [&](const Tensor& x, const Strides& strides, int64_t at) {
    return apply(as_strided_backward_op, {x}, {frame, {1}, x.sizes(), strides, at - begin});
  };
  const auto read_from_frame = [&](const Tensor& x) {
    return as_strided(x, sizes, attrs.input_strides, -begin);
  };
  const Tensor result = read_from_frame(sum_in_frame(grad, attrs.strides, offset));
  if (!may_overlap_itself(sizes, attrs.input_strides)) return result;
  const Tensor one = ones(sizes, {.dtype = grad.dtype(), .device = grad.device()});
  return result / read_from_frame(sum_in_frame(one, attrs.input_strides, 0));
}

}  // namespace

constinit OpDef<AsStridedAttrs> as_strided_op = define(Op<AsStridedAttrs>{
    .name = "as_strided",
    .inputs = {"self"},
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
          const int64_t offset =
              attrs.input_offset ? attrs.offset - *attrs.input_offset + infer[0].storage_offset()
                                 : attrs.offset;
          const int64_t needed = extent(attrs.sizes, attrs.strides, offset);
          infer.check(offset >= 0 && needed <= available, "size ", attrs.sizes, ", stride ",
                      attrs.strides, " and offset ", offset, " reach element ", needed - 1,
                      " of a storage of ", available, " elements");
          infer.view(attrs.sizes, attrs.strides, offset);
        },
    .vjp = [](Vjp& vjp, const AsStridedAttrs& attrs) { vjp.set(0, gradient_of_input(vjp, attrs)); },
    .view = true,
    .addresses_storage = true,
});

constinit OpDef<AsStridedBackwardAttrs> as_strided_backward_op = define(Op<AsStridedBackwardAttrs>{
    .name = "as_strided_backward",
    .inputs = {"grad"},
    .internal = true,
    .infer =
        [](Infer& infer, const AsStridedBackwardAttrs& attrs) {
          infer.check(is_dense(attrs.input_sizes, attrs.input_strides),
                      "the gradient of as_strided needs a dense input, got "
                      "sizes ",
                      attrs.input_sizes, " and strides ", attrs.input_strides);
          const int64_t reached = extent(attrs.sizes, attrs.strides, attrs.offset);
          infer.check(attrs.offset >= 0 && reached <= attrs.input_sizes.numel(),
                      "the view reaches beyond its input, so its gradient cannot be computed");
          infer.output(attrs.input_sizes, attrs.input_strides, infer[0].dtype());
        },
    .reference =
        [](Args in, const AsStridedBackwardAttrs& attrs) {
          const Tensor& grad = *in[0];
          Tensors result;
          if (may_overlap_itself(attrs.sizes, attrs.strides)) {
            // Elements that several indices reach are summed, in the order of memory.
            const int64_t count = attrs.input_sizes.numel();
            const Tensor places = as_strided(arange(count, {.device = grad.device()}), attrs.sizes,
                                             attrs.strides, attrs.offset);
            const Tensor zero = zeros({count}, {.dtype = grad.dtype(), .device = grad.device()});
            const Tensor summed = scatter_add(zero, 0, ravel(places), ravel(grad));
            result.push_back(as_strided(summed, attrs.input_sizes, attrs.input_strides, 0));
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
