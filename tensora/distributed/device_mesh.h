#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/shape.h"

namespace tensora::distributed {

/// The ranks of a group as a grid, such as 2 x 4 with the dims "data" and "tensor". Ranks are in
/// row-major order: those of the last dim follow each other.
class DeviceMesh {
 public:
  /// See device_mesh.
  DeviceMesh(const Shape& sizes, std::vector<std::string> names,
             std::shared_ptr<ProcessGroup> group);

  int dims() const { return static_cast<int>(grid_->groups.size()); }
  int size(int dim) const { return group(dim).size(); }
  /// Where this rank is along a dim.
  int coordinate(int dim) const { return group(dim).rank(); }
  /// The ranks that differ from this one along `dim` alone, in the order of their coordinates.
  ProcessGroup& group(int dim) const { return *grid_->groups[index_of(dim)]; }
  std::shared_ptr<ProcessGroup> shared_group(int dim) const { return grid_->groups[index_of(dim)]; }
  /// The dim of that name; throws with the names that there are.
  int dim_of(std::string_view name) const;

 private:
  struct Grid {
    std::vector<std::string> names;
    std::vector<std::shared_ptr<ProcessGroup>> groups;
  };
  size_t index_of(int dim) const;

  std::shared_ptr<const Grid> grid_;  // of all copies
};

/// A mesh of the ranks of `group` (null: the world), which all of them call with the same
/// arguments. The product of `sizes` is the number of ranks. Names may be left out.
DeviceMesh device_mesh(const Shape& sizes, std::vector<std::string> names = {},
                       std::shared_ptr<ProcessGroup> group = nullptr);

}  // namespace tensora::distributed
