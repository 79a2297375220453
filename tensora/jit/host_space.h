#pragma once

// Internal header: the space of a call as the CPU goes through it.

#include "tensora/jit/tile_kernel.h"

namespace tensora::jit {

/// The dims of a space, those merged that all arrays allow to, with the arrays' strides. Of a
/// program of rows the last dim is the row.
struct HostSpace {
  Shape sizes;
  std::vector<Strides> strides;  // inputs, then results; in elements; 0: broadcast
  Strides columns;               // of programs with column steps: of the sums; 0: summed
  Strides numbering;             // of programs with random steps: of the row-major positions
  bool rows_are_one = true;      // false: the dims of a row could not be merged
};
HostSpace make_space(const TileProgram& program, const TileCall& call);

/// Splits a space into tiles that are boxes: a range of one dim with all of the dims inside it.
struct Tiling {
  int dim = 0;           // that is split; dims before it have one index per tile
  int64_t per_tile = 1;  // indices of that dim
  int64_t per_dim = 1;   // tiles along it
  int64_t count = 1;     // of all tiles
  int64_t elements = 1;  // of a tile, at most

  /// `wanted` elements per tile; a whole row at least if `rows`.
  Tiling(const Shape& sizes, int64_t wanted, bool rows);
  /// The sizes of a tile, and where it begins.
  Shape sizes_of(const Shape& sizes, int64_t tile) const;
  int64_t offset_of(const Shape& sizes, const Strides& strides, int64_t tile) const;
};

}  // namespace tensora::jit
