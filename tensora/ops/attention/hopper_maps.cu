#include "tensora/ops/attention/hopper_maps.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace tensora::cuda {
namespace {

using EncodeTiled = decltype(cuTensorMapEncodeTiled);

EncodeTiled* encoder() {
  static EncodeTiled* const found = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address,
                                                                12000, cudaEnableDefault, &result);
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess
               ? reinterpret_cast<EncodeTiled*>(address)
               : nullptr;
  }();
  return found;
}

}  // namespace

bool describe_boxes(const Array4& array, int size, int64_t rows, int64_t heads, int64_t batch,
                    int box_rows, CUtensorMap& map) {
  const int64_t counts[3] = {rows, heads, batch};
  cuuint64_t strides[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = array.strides[2 - i];
    if (counts[i] > 1 && stride <= 0) return false;  // broadcast, or backwards
    // A dim of one element may have any stride; the TMA wants one that it can represent.
    strides[i] = counts[i] == 1 ? 16 : static_cast<cuuint64_t>(stride) * 2;
  }
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(size), static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(heads), static_cast<cuuint64_t>(batch)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  const auto type = array.element == Element::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                       : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return encoder() && encoder()(&map, type, 4, array.data, sizes, strides, box, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

TileOrder tile_order(std::string_view op, int64_t rows, int64_t heads, int64_t bytes) {
  constexpr int64_t kTogetherBytes = 24 << 20, kTileRows = 128;  // about half of the L2 cache
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows, total = tiles * heads;
  check(total < (int64_t{1} << 31), op, ": too many tiles for one launch: ", total);
  const int64_t together = std::clamp<int64_t>(kTogetherBytes / std::max<int64_t>(bytes, 1), 1,
                                               std::max<int64_t>(heads, 1));
  return {static_cast<int>(tiles), static_cast<int>(together), static_cast<int>(total)};
}

}  // namespace tensora::cuda
