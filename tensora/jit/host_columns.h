#pragma once

// Internal header: sums over the rows of an array, as part of a program on the CPU.

#include "tensora/jit/host_space.h"

namespace tensora::jit {

// Note [Column sums]
// A tile adds its rows by the library's own kernel, and the tiles' sums are added in double
// precision. Tiles are dealt out to chunks, whose number depends on the sizes alone, and a chunk
// adds its tiles in order: so the result does not depend on the number of threads.

/// The column steps of a call.
class ColumnSums {
 public:
  ColumnSums(const TileProgram& program, const TileCall& call, const HostSpace& space,
             int64_t tiles);
  /// The tiles of different chunks may be added at the same time.
  int64_t chunks() const { return chunks_; }
  int64_t first_tile(int64_t chunk) const { return chunk * tiles_ / chunks_; }
  /// Adds the rows of a tile whose first element has this offset by HostSpace::columns.
  void add(int value, int64_t chunk, int64_t offset, const View& tile);
  /// Writes the sums of all tiles to the results.
  void finish();

 private:
  struct Sum {
    int value = -1;
    const View* result = nullptr;
    std::vector<double> chunks;  // of each the sums
  };

  const HostSpace& space_;
  const int64_t tiles_;
  int64_t chunks_ = 1, columns_ = 1;
  std::vector<Sum> sums_;
};

}  // namespace tensora::jit
