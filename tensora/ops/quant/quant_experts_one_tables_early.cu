#include "tensora/ops/quant/quant_experts_one.cuh"

namespace tensora::cuda {

OneTokenExperts one_token_tables(DType weight) {
  switch (weight) {
    case DType::iq4_nl:
      return one_token_of<TileIQ4_NL>();
    case DType::iq4_xs:
      return one_token_of<TileIQ4_XS>();
    case DType::mxfp4:
      return one_token_of<TileMXFP4>();
    case DType::nf4:
      return one_token_of<TileNF4>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda
