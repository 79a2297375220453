#pragma once

// Internal header: ops that are being collected into one kernel.

#include <optional>

#include "tensora/jit/lazy.h"
#include "tensora/jit/tape.h"
#include "tensora/jit/tile_kernel.h"

namespace tensora::jit {

/// Where the elements of an operand lie, as a map from a group's index space to a storage. Equal
/// maps mean the same elements in the same order.
struct ElementMap {
  int memory = -1;
  int64_t offset_bytes = 0;
  DType dtype = DType::float32;
  Strides strides;  // one per dim of the space; 0 where the operand is broadcast

  bool operator==(const ElementMap&) const = default;
};

/// An operand of a planned kernel: which operand of the tape, and how the kernel indexes it.
struct PlannedOperand {
  uint32_t operand = 0;  // position in the tape
  Shape sizes;           // of the space, 1 where it is broadcast
  Strides strides;
};

/// A group as a kernel.
struct PlannedKernel {
  PreparedTile tile;
  Shape sizes;
  int row_dims = 0;
  std::vector<PlannedOperand> inputs, results;
  std::vector<int> attrs;  // per step the node whose attributes it takes; -1: those of the program
};

/// Consecutive or interleaved nodes of a tape that can run as one kernel over one index space. See
/// Note [Groups] in group_nodes.cpp.
class OpenGroup {
 public:
  OpenGroup(const Tape& tape, Device device, Fuse fuse)
      : tape_(&tape), device_(device), fuse_(fuse) {}

  /// Fixes the index space, which is otherwise that of the first node.
  void fix_space(const Shape& space) {
    space_ = space;
    is_fixed_ = true;
  }
  /// Adds a node, or says why it cannot be added, and leaves the group as it was.
  std::string add(uint32_t node, const OpForm& form);
  /// The same for a node that another kernel runs too. What it makes is not to be stored here.
  std::string add_again(uint32_t node, const OpForm& form);
  /// Whether `other`, which neither uses this group's results nor the other way round, can be made
  /// part of this one.
  bool can_take(const OpenGroup& other) const;
  void take(const OpenGroup& other);

  const std::vector<uint32_t>& nodes() const { return nodes_; }
  const Shape& space() const { return space_; }
  Device device() const { return device_; }
  /// Makes the kernel. `is_stored` says whether anybody needs the contents of a memory; with
  /// `wide`, 16-bit floats that are not stored stay in float32. Throws if there is none for such a
  /// group on the device.
  PlannedKernel finish(const std::vector<bool>& is_stored, bool wide) const;
  /// Whether a kernel would write more arrays than it may.
  bool has_too_many_results(const std::vector<bool>& is_stored) const;
  /// Why the nodes are faster one by one; empty if they are not.
  std::string loses() const;
  bool writes(int memory) const;
  bool reads(int memory) const;

 private:
  enum class Place : uint8_t { element, row, row_before };  // row_before: without the row's dims
  struct Ref {
    bool is_step = false;
    int number = 0;
  };
  struct Input {
    uint32_t operand;
    ElementMap map;
    TileProgram::Input form;
  };
  struct Step {
    TileProgram::Step step;
    std::vector<std::optional<Ref>> operands;
    int node = -1;         // whose attributes it takes
    uint32_t operand = 0;  // the output of the tape that it makes
    ElementMap map;
    bool again = false;  // another kernel stores it, or nobody needs it
  };

  std::string place_of(const Shape& sizes, Place& place) const;
  std::string price_of_rows(const OpForm& form, int64_t length, int64_t rows, int64_t element,
                            uint32_t outputs) const;
  std::string start(const TapeNode& node, const OpForm& form);
  std::optional<ElementMap> map_of(const Operand& operand, Place place) const;
  std::string read(uint32_t operand, Place place, const TapeNode& node, std::optional<Ref>& ref);
  std::string write(uint32_t operand, Place place, ElementMap& map) const;
  bool overwrites_too_early(const Step& made) const;
  Extent extent_of(const Ref& ref) const;
  bool is_number(const Ref& ref) const;
  std::string why_not_operands(const Step& step, Place place, const OpForm& form) const;
  std::string add_form(uint32_t node, const OpForm& form);
  std::string add_steps(uint32_t node, const OpForm& form);
  std::string add_number(uint32_t node);
  bool is_anywhere(const Step& step) const;
  std::string add_random(uint32_t node);
  std::string add_columns(uint32_t node, const OpForm& form);
  Shape outer() const;
  const Step* definition(int memory) const;
  PlannedOperand planned(uint32_t operand, const ElementMap& map) const;
  bool is_result(const Step& step, const std::vector<bool>& is_stored) const;
  std::vector<bool> steps_to_widen(const std::vector<bool>& is_stored) const;

  const Tape* tape_;
  Device device_;
  Fuse fuse_;
  Shape space_;
  bool is_fixed_ = false;
  int row_dims_ = 0;
  int column_dims_ = 0;  // that sums over the dims before them have; 0: there are none
  std::vector<uint32_t> nodes_;
  std::vector<Input> inputs_;
  std::vector<Step> steps_;
};

}  // namespace tensora::jit
