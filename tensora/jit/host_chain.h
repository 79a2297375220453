#pragma once

// Internal header: running a chain on a tile.

#include <memory>

#include "tensora/jit/aligned_memory.h"
#include "tensora/jit/host_plan.h"

namespace tensora::jit {

/// A value's elements in a tile.
struct TileArray {
  char* data = nullptr;
  DType dtype = DType::float32;
  Strides strides = {};  // of the tile's dims, in elements
  bool stream = false;   // a large result: written past the cache where it is contiguous
};

/// A chain with its memory; for one thread.
class ChainRunner {
 public:
  /// `attrs` has one entry per step of the program.
  ChainRunner(const ChainPlan& plan, std::span<const void* const> attrs);
  ~ChainRunner();
  ChainRunner(const ChainRunner&) = delete;
  ChainRunner& operator=(const ChainRunner&) = delete;

  /// Takes other attributes.
  void set_attrs(std::span<const void* const> attrs);
  /// Runs on a tile of `sizes`; `arrays` has one entry per external.
  void run(const Shape& sizes, std::span<const TileArray> arrays);

  static constexpr int64_t kBlock = 2048;   // elements that are converted at once
  static constexpr int64_t kFlatRow = 128;  // shorter rows are put together
  static constexpr int64_t kFlatTile = 4096;
  // A panel of a transposed operand: 256 bytes of each of its columns. The lines of a column follow
  // one another in memory, and a panel stays in the second-level cache.
  static constexpr int64_t kPanelBytes = 256, kPanelColumns = 1024;

  /// Whether an array's elements lie one after the other along the last dim but one, and not along
  /// the last: it is read in panels, and tiles should have this many rows.
  static int64_t panel_rows(const TileArray& array, const Shape& sizes);

 private:
  struct Use {
    size_t item;
    int operand;
  };
  void run_rows(const Shape& sizes, std::span<const TileArray> arrays, int first_dim);
  void run_panels(const Shape& sizes, std::span<const TileArray> arrays);
  void run_part(std::span<const TileArray> arrays, const int64_t* strides, int64_t n);
  void run_rest(std::span<const TileArray> arrays, int64_t whole, int64_t rest);
  void run_flat(const Shape& sizes, std::span<const TileArray> arrays, int first_dim);
  /// How a chain accesses an array: as floats or 16-bit floats where they lie, as floats in a block
  /// of its own, or as one float that is repeated.
  enum class Access : uint8_t { direct, narrow, block, repeated };
  Access access_of(size_t external, const TileArray& array, int64_t stride) const;
  bool is_placed(size_t external) const {
    return access_[external] == Access::direct || access_[external] == Access::narrow;
  }
  void set_access(size_t external, Access access, DType dtype);
  void set_stream(size_t external, bool stream);
  void bind(size_t external, void* memory) {
    for (const Use& use : uses_[external])
      steps_[use.item].memory[use.operand] = static_cast<char*>(memory);
  }
  float* block(size_t external);

  const ChainPlan& plan_;
  std::vector<cpu::ChainStep> steps_;
  std::vector<std::vector<Use>> uses_;  // of each external
  std::vector<bool> loaded_;            // per external: it is never an operand of a functor
  std::vector<Access> access_;          // per external
  std::vector<char*> places_;           // per external: where its elements of the part begin
  std::vector<const char*> converted_;  // per external: what its block holds
  AlignedMemory<float> slots_, blocks_, splats_;
  AlignedMemory<char> panels_;
  size_t block_floats_ = 0;
  bool streamed_ = false;
};

}  // namespace tensora::jit
