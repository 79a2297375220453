#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_batch_prepare.cuh"
#include "tensora/ops/quant/quant_batch_tiles.h"

namespace tensora::cuda {
namespace {

BatchLaunch launch_of(DType weight) {
  switch (weight) {
    case DType::q4_0:
      return batch_of_q4_0;
    case DType::q4_1:
      return batch_of_q4_1;
    case DType::q5_0:
      return batch_of_q5_0;
    case DType::q5_1:
      return batch_of_q5_1;
    case DType::q8_0:
      return batch_of_q8_0;
    case DType::q2_k:
      return batch_of_q2_k;
    case DType::q3_k:
      return batch_of_q3_k;
    case DType::q4_k:
      return batch_of_q4_k;
    case DType::q5_k:
      return batch_of_q5_k;
    case DType::q6_k:
      return batch_of_q6_k;
    case DType::iq4_nl:
      return batch_of_iq4_nl;
    case DType::iq4_xs:
      return batch_of_iq4_xs;
    case DType::mxfp4:
      return batch_of_mxfp4;
    case DType::nf4:
      return batch_of_nf4;
    default:
      return nullptr;
  }
}

/// Addresses of blocks are multiples of it.
uintptr_t alignment_of(DType weight) {
  const auto bytes = static_cast<uintptr_t>(dtype_info(weight).block_bytes);
  return std::min<uintptr_t>(bytes & ~(bytes - 1), 16);
}

/// How many blocks of a cluster share a tile: most multiprocessors are to have two blocks, but
/// clusters of eight take longer to begin than they save.
int parts_of(int device, int tiles, int chunks) {
  int parts = 1;
  while (2 * parts <= std::min(chunks, kBatchMostParts) &&
         2 * parts * tiles <= 2 * device_info(device).multiprocessors)
    parts *= 2;
  return parts;
}

/// The same where a multiprocessor has one block: what ends first, as far as whole rounds over the
/// multiprocessors tell. A block's beginning and end take about as long as three chunks.
int wide_parts_of(int device, int blocks, int chunks) {
  constexpr int kEnds = 3;
  int best = 1, least = 0;
  for (int parts = 1; parts <= std::min(chunks, kBatchMostParts); parts *= 2) {
    const int all = device_info(device).multiprocessors;
    const int rounds = (blocks * parts + all - 1) / all;
    const int time = rounds * ((chunks + parts - 1) / parts + kEnds);
    if (parts == 1 || time < least) best = parts, least = time;
  }
  return best;
}

}  // namespace

bool batch_rows(std::string_view op, int device, DType weight, const RowsCall& given) {
  const BatchLaunch launch = launch_of(weight);
  RowsCall call = given;
  if (!launch || !runs_sm90a(device) || call.norm || call.x_dtype != DType::bfloat16 ||
      call.k <= 0 || reinterpret_cast<uintptr_t>(call.x) % 16 != 0 ||
      call.weights[0].row_bytes >= int64_t{1} << 28)
    return false;
  const int each = call.gate != RowsCall::Gate::none ? kBatchWeights / 2 : kBatchWeights;
  call.tiles = 0;
  for (int i = 0; i < call.count; ++i) {
    RowsWeight& one = call.weights[i];
    const auto address = reinterpret_cast<uintptr_t>(one.data) |
                         reinterpret_cast<uintptr_t>(one.up) |
                         static_cast<uintptr_t>(one.row_bytes);
    if (address % alignment_of(weight) != 0) return false;
    one.first_tile = call.tiles;
    call.tiles += (one.rows + each - 1) / each;
  }
  BatchRows rows;
  rows.width = batch_width(call.rows);
  rows.chunks = (call.k + kBatchChunk - 1) / kBatchChunk;
  rows.blocks = (call.rows + rows.width - 1) / rows.width;
  rows.parts = rows.width > 64 ? wide_parts_of(device, call.tiles * rows.blocks, rows.chunks)
                               : parts_of(device, call.tiles, rows.chunks);
  const int64_t bytes = int64_t{rows.blocks} * rows.chunks * rows.tile_bytes();
  const Scratch scratch(device, static_cast<size_t>(bytes) + static_cast<size_t>(call.rows) * 4);
  rows.x = scratch.data();
  rows.scales = reinterpret_cast<const float*>(scratch.data() + bytes);
  Launch{op, device, 0, true}(prepare_batch_rows, dim3(static_cast<unsigned>(call.rows)),
                              dim3(kPrepareThreads), call.x, call.k, rows);
  launch(op, device, call, rows);
  return true;
}

}  // namespace tensora::cuda
