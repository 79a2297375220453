#include "tensora/ops/shape/expand.h"

#include <utility>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<ExpandAttrs>) {
  return fields(field("size", &ExpandAttrs::size));
}

namespace {

Shape expanded_sizes(const Infer& infer, const Shape& asked) {
  const Shape& sizes = infer[0].sizes();
  const int lead = asked.size() - sizes.size();
  infer.check(lead >= 0,
              "the number of sizes must not be smaller than the number of dimensions, "
              "got ",
              asked, " for a tensor of shape ", sizes);
  Shape result = asked;
  for (int d = 0; d < asked.size(); ++d) {
    if (asked[d] == -1) {
      infer.check(d >= lead, "a new leading dimension cannot have size -1, got ", asked);
      result[d] = sizes[d - lead];
    }
    infer.check(result[d] >= 0, "sizes must not be negative, got ", asked);
    infer.check(d < lead || sizes[d - lead] == 1 || sizes[d - lead] == result[d],
                "the expanded size ", result[d], " must match the existing size ",
                d < lead ? 1 : sizes[d - lead], " at dimension ", d, " (shape ", sizes, " to ",
                asked, ")");
  }
  return result;
}

// New dims of size 1 have the strides of a new tensor, as in PyTorch: results of pointwise ops
// order their dims by them.
Strides expanded_strides(const Tensor& x, const Shape& size) {
  Strides strides = broadcast_strides(x.sizes(), x.strides(), size);
  if (x.dim() == 0) return strides;
  for (int d = size.size() - x.dim() - 1; d >= 0; --d)
    if (size[d] == 1) strides[d] = size[d + 1] * strides[d + 1];
  return strides;
}

}  // namespace

constinit OpDef<ExpandAttrs> expand_op = define(Op<ExpandAttrs>{
    .name = "expand",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ExpandAttrs& attrs) {
          const Tensor& x = infer[0];
          const Shape size = expanded_sizes(infer, attrs.size);
          infer.view(size, expanded_strides(x, size), x.storage_offset());
        },
    .vjp = [](Vjp& vjp, const ExpandAttrs&) { vjp.set(0, vjp.grad()); },  // the engine sums
    .view = true,
});

void register_expand(OpRegistry& registry) {
  registry.add(expand_op);
  shard_by(expand_op, "expand size");
}

Tensor expand(const Tensor& self, const Shape& size) { return apply(expand_op, {self}, {size}); }
Tensor expand_as(const Tensor& self, const Tensor& other) {
  return called_as("expand_as", [&] { return expand(self, other.sizes()); });
}
Tensor broadcast_to(const Tensor& self, const Shape& size) {
  return called_as("broadcast_to", [&] { return expand(self, size); });
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors) {
  Shape size;
  for (const Tensor& tensor : tensors)
    size = broadcast_shapes(size, tensor.sizes(), "broadcast_tensors");
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors)
    result.push_back(tensor.sizes() == size ? tensor : expand(tensor, size));
  return result;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing) {
  check(!tensors.empty(), "meshgrid: expected at least one tensor");
  check(indexing == "ij" || indexing == "xy", "meshgrid: indexing must be \"ij\" or \"xy\", got \"",
        indexing, "\"");
  Shape size;
  for (const Tensor& tensor : tensors) {
    check(tensor.dim() <= 1, "meshgrid: expected 0-D or 1-D tensors, got shape ", tensor.sizes());
    check(tensor.dtype() == tensors[0].dtype() && tensor.device() == tensors[0].device(),
          "meshgrid: expected tensors of one dtype and device, got ", tensors[0].dtype(), " on ",
          tensors[0].device(), " and ", tensor.dtype(), " on ", tensor.device());
    size.push_back(tensor.numel());
  }
  const bool exchanged = indexing == "xy" && tensors.size() >= 2;
  std::vector<Tensor> result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Shape along = Shape::filled(size.size(), 1);
    along[static_cast<int>(i)] = tensors[i].numel();
    const Tensor grid = expand(reshape(tensors[i], along), size);
    result.push_back(exchanged ? transpose(grid, 0, 1) : grid);
  }
  return result;
}

}  // namespace tensora
