#include "tensora/distributed/device_mesh.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"

namespace tensora::distributed {

DeviceMesh::DeviceMesh(const Shape& sizes, std::vector<std::string> names,
                       std::shared_ptr<ProcessGroup> group) {
  if (!group) group = world();
  int64_t ranks = 1;
  for (const int64_t size : sizes) {
    check_as<ValueError>(size >= 1, "device_mesh: expected sizes of at least 1, got ", sizes);
    ranks *= size;
  }
  check_as<ValueError>(sizes.size() >= 1 && ranks == group->size(), "device_mesh: the group ",
                       group->name(), " has ", group->size(), " ranks, and the mesh is ", sizes);
  check_as<ValueError>(names.empty() || std::ssize(names) == sizes.size(), "device_mesh: got ",
                       names.size(), " names for ", sizes.size(), " dims");
  const auto grid = std::make_shared<Grid>(Grid{.names = std::move(names), .groups = {}});
  grid_ = grid;
  if (sizes.size() == 1) {
    grid->groups.push_back(std::move(group));
    return;
  }
  int64_t inner = ranks;
  for (int dim = 0; dim < sizes.size(); ++dim) {
    inner /= sizes[dim];  // ranks from one coordinate of this dim to the next
    const int64_t coordinate = group->rank() / inner % sizes[dim];
    const int64_t others = group->rank() - coordinate * inner;
    const std::string name =
        concat("mesh.", grid->names.empty() ? concat(dim) : grid->names[static_cast<size_t>(dim)]);
    grid->groups.push_back(
        group->split(static_cast<int>(others), static_cast<int>(coordinate), name));
  }
}

size_t DeviceMesh::index_of(int dim) const {
  check_as<IndexError>(dim >= 0 && dim < dims(), "DeviceMesh: expected a dim from 0 to ",
                       dims() - 1, ", got ", dim);
  return static_cast<size_t>(dim);
}

int DeviceMesh::dim_of(std::string_view name) const {
  const auto found = std::ranges::find(grid_->names, name);
  if (found != grid_->names.end()) return static_cast<int>(found - grid_->names.begin());
  std::string known;
  for (const std::string& one : grid_->names) append(known, concat(known.empty() ? "" : ", ", one));
  fail("DeviceMesh: there is no dim \"", name,
       "\"; the dims are: ", known.empty() ? std::string("without names") : known);
}

DeviceMesh device_mesh(const Shape& sizes, std::vector<std::string> names,
                       std::shared_ptr<ProcessGroup> group) {
  return {sizes, std::move(names), std::move(group)};
}

}  // namespace tensora::distributed
