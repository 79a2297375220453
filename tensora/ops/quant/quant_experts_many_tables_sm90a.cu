#include "tensora/ops/quant/quant_experts_many.cuh"

namespace tensora::cuda {

ManyExperts many_tables(DType weight) {
  switch (weight) {
    case DType::iq4_nl:
      return many_experts_of<TileIQ4_NL>();
    case DType::iq4_xs:
      return many_experts_of<TileIQ4_XS>();
    case DType::mxfp4:
      return many_experts_of<TileMXFP4>();
    case DType::nf4:
      return many_experts_of<TileNF4>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda
