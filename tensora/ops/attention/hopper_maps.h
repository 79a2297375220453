#pragma once

// Internal header
// What the kernels for Hopper share on the host: TMA's descriptions of arrays, and the order of
// tiles.

#include <cuda.h>

#include "tensora/ops/attention/attention_call.h"

namespace tensora::cuda {

/// Describes an array (B H N D) as boxes of `box_rows` rows and 64 elements; what lies outside is
/// read as zero. False if the TMA cannot read it: no such driver, or strides it does not support.
bool describe_boxes(const Array4& array, int size, int64_t rows, int64_t heads, int64_t batch,
                    int box_rows, CUtensorMap& map);

/// The tiles of 128 rows of all heads. Heads that fit the L2 cache together come together, and
/// within them tile 0 of each comes first.
struct TileOrder {
  int tiles, heads_together, total;  // per head; in a section; of all heads

  struct Place {
    int tile, head, batch;
  };
  TENSORA_HD Place at(int number, int heads) const {
    const int all = total / tiles, section = number / (heads_together * tiles);
    const int rest = number - section * heads_together * tiles;
    const int left = all - section * heads_together;
    const int own = left < heads_together ? left : heads_together;
    const int line = section * heads_together + rest % own;
    return {rest / own, line % heads, line / heads};
  }
};
/// For `heads` heads of `rows` rows, each of which reads `bytes`.
TileOrder tile_order(std::string_view op, int64_t rows, int64_t heads, int64_t bytes);

}  // namespace tensora::cuda
