#pragma once

// Internal header
// What the CUDA kernels of quant_experts hand to one another. See Note [Grouped expert products].

#include "tensora/base/host_device.h"
#include "tensora/ops/quant/few_rows.h"

// Note [Grouped expert products]
// Which expert computes what is known on the device only, and the host does not ask: it launches
// for the worst case, and blocks without work end at once. One kernel counts the rows of each
// expert (a row: a token at one of its experts) and divides them into tiles of up to `width` rows
// of one expert; row r of tile t gets the number t * width + r. A second one gathers the
// activations in that order. The gate and up product of all tiles is one launch, the down product
// another; the last kernel adds the rows of each token, times the router's weights.
// A single token needs none of that: see Note [One token's experts].

namespace tensora::cuda {

/// Rows of one expert; without rows, the end of the list.
struct ExpertTile {
  int expert, rows;
};

/// The rows of all tokens by expert.
struct ExpertRows {
  ExpertTile* tiles = nullptr;  // `most`, those that are used first
  int* place = nullptr;         // of token t at its i-th expert: place[t * used + i]
  int most = 0, width = 0;
};

/// The order in which the numbers of a group of activations lie in a tile's panels, so that they
/// meet a thread's weights: see Note [Numbers as operands].
enum class PanelOrder : int { sixteen, eight, halves, pairs };

/// Where number n of a group lies.
TENSORA_HD constexpr int panel_place(PanelOrder order, int n) {
  int c = 0, word = 0, element = n % 2;
  if (order == PanelOrder::sixteen) {
    c = n % 16 / 4, word = n % 4 / 2;
    return (n & ~15) + word * 8 + 2 * c + element;
  }
  if (order == PanelOrder::eight) c = n % 32 / 8, word = n % 8 / 2;
  if (order == PanelOrder::halves) c = n % 16 / 4, word = n % 32 / 16 * 2 + n % 4 / 2;
  if (order == PanelOrder::pairs) c = n % 16 / 4, word = n % 4, element = n % 32 / 16;
  return (n & ~31) + word / 2 * 16 + word % 2 * 8 + 2 * c + element;
}

/// Numbers of a panel: 128 bytes of each row of a tile, in TMA's pattern for 128 bytes.
inline constexpr int kPanel = 64;

/// Where in a panel the byte `byte` of a row lies.
TENSORA_HD constexpr int panel_byte(int row, int byte) {
  return row * 128 + (((byte >> 4) ^ (row & 7)) << 4) + (byte & 15);
}

/// One product of all tiles.
struct ExpertsProduct {
  const char* weight = nullptr;  // of all experts, one behind the other
  const char* up = nullptr;      // gated products
  const float* scale = nullptr;
  const float* up_scale = nullptr;
  int64_t row_bytes = 0;
  int rows = 0, k = 0;  // of an expert's matrix
  const ExpertTile* tiles = nullptr;
  int most = 0, width = 0;  // as of ExpertRows
  const char* x = nullptr;  // many rows: panels, else rows of k numbers
  int panels = 0;           // of a tile
  char* out = nullptr;      // gated: as x of the next product; else float32 [splits][row][rows]
  int out_panels = 0;       // gated, many rows: panels of a tile
  PanelOrder out_order = PanelOrder::eight;
  DType out_dtype = DType::bfloat16;
  RowsCall::Gate gate = RowsCall::Gate::none;
  int splits = 1;  // of k; not of gated products
};

}  // namespace tensora::cuda
