#include "tensora/ops/quant/quant_experts_one.cuh"

namespace tensora::cuda {

OneTokenExperts one_token_plain(DType weight) {
  switch (weight) {
    case DType::int8:
      return one_token_of<TileInt8>();
    case DType::float8_e4m3fn:
      return one_token_of<TileFloat8>();
    case DType::float16:
      return one_token_of<TileHalf<Half>, Half>();
    case DType::bfloat16:
      return one_token_of<TileHalf<BFloat16>>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda
