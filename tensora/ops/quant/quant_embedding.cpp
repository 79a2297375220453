#include "tensora/ops/quant/quant_embedding.h"

#include "tensora/ops.h"
#include "tensora/ops/quant/quant_embedding_op.h"
#include "tensora/ops/quant/quant_weights.h"

namespace tensora {

constexpr auto describe(std::type_identity<QuantEmbeddingAttrs>) {
  return fields(field("factor", &QuantEmbeddingAttrs::factor),
                field("dtype", &QuantEmbeddingAttrs::dtype));
}

constinit OpDef<QuantEmbeddingAttrs> quant_embedding_op = define(Op<QuantEmbeddingAttrs>{
    .name = "quant_embedding",
    .inputs = {"indices", "weight", "scale?"},
    .infer =
        [](Infer& infer, const QuantEmbeddingAttrs& attrs) {
          const Tensor& indices = infer[0];
          infer.check(indices.dtype() == kInt64, "indices must be int64, got ", indices.dtype());
          infer.check(indices.is_contiguous(), "indices must be contiguous");
          check_weight(infer, 1, 2, "weight");
          infer.check(contains(kActivationDTypes, attrs.dtype),
                      "the result can be float32, float16 or bfloat16, not ", attrs.dtype);
          infer.check(infer[1].size(0) > 0 || indices.numel() == 0,
                      "there are no rows to look up in");
          Shape sizes = indices.sizes();
          sizes.push_back(infer[1].size(1));
          infer.output(sizes, attrs.dtype);
        },
    .reference =
        [](Args in, const QuantEmbeddingAttrs& attrs) {
          const Tensor rows = widened(*in[1], optional_tensor(in, 2));
          const Tensor found = index_select(rows, 0, ravel(*in[0]));
          Shape sizes = in[0]->sizes();
          sizes.push_back(rows.size(1));
          return Tensors{to(reshape(found, sizes) * attrs.factor, attrs.dtype)};
        },
    .gradient = Gradient::not_differentiable,
    .accepts = kWeightDTypes | set_of(kInt64),
});

void register_quant_embedding(OpRegistry& registry) { registry.add(quant_embedding_op); }

Tensor quant_embedding(const Tensor& indices, const Tensor& weight,
                       const QuantEmbeddingOptions& options) {
  return apply(quant_embedding_op,
               {contiguous(indices), contiguous(weight), contiguous_or_none(options.scale)},
               {options.factor, options.dtype});
}

}  // namespace tensora
