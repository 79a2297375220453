#include "tensora/ops/quant/quant_embedding.h"

#include "tests/suite/sample_weights.h"

namespace tensora::suite {

void quant_embedding_cases(Cases& cases) {
  for (const DTypeInfo& info : dtype_info_table) {
    const DType dtype = info.dtype;
    if (!is_quantized(dtype) && dtype != kFloat32 && dtype != kFloat16 && dtype != kBFloat16 &&
        dtype != kInt8 && dtype != kFloat8E4M3)
      continue;
    const auto w = std::make_shared<const SampleWeight>(dtype, 11, 256);
    cases.add({.op = "quant_embedding",
               .name = concat(dtype),
               .inputs = {{{2, 3}, 0, 11, kInt64, {0, 10, 3, 3, 7, 1}}},
               .run =
                   [w](In x) {
                     return one(quant_embedding(
                         x[0], w->placed(),
                         {.scale = w->placed_scale(), .factor = 3, .dtype = suite::dtype()}));
                   },
               .reference =
                   [w](Arrays x) {
                     Array out({2, 3, 256});
                     for (int64_t i = 0; i < out.numel(); ++i)
                       out[i] = 3 * w->numbers[static_cast<int64_t>(x[0][i / 256]) * 256 + i % 256];
                     return one(out);
                   },
               .dtypes = activation_dtypes(),
               .opt_out = kNoGradient});
  }
  const auto rows = [] { return zeros({4, 8}, {.device = device()}); };
  const auto at = [](int64_t index) {
    return full({2}, index, {.dtype = kInt64, .device = device()});
  };
  cases.error("quant_embedding", "indices", "indices must be int64, got float32",
              [=] { quant_embedding(zeros({2}, {.device = device()}), rows()); });
  cases.error("quant_embedding", "vector", "weight must be a matrix, got shape [4]",
              [=] { quant_embedding(at(0), zeros({4}, {.device = device()})); });
  cases.error("quant_embedding", "dtype", "the result can be float32, float16 or bfloat16, not ",
              [=] { quant_embedding(at(0), rows(), {.dtype = kInt8}); });
}

}  // namespace tensora::suite
