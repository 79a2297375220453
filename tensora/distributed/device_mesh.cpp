#include "tensora/distributed/device_mesh.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"

namespace tensora::distributed {

DeviceMesh::DeviceMesh(const Shape& sizes, std::vector<std::string> names,
                       std::shared_ptr<ProcessGroup> group)
    : names_(std::move(names)) {
  if (!group) group = world();
  int64_t ranks = 1;
  for (const int64_t size : sizes) {
    check_as<ValueError>(size >= 1, "device_mesh: expected sizes of at least 1, got ", sizes);
    ranks *= size;
  }
  check_as<ValueError>(sizes.size() >= 1 && ranks == group->size(), "device_mesh: the group ",
                       group->name(), " has ", group->size(), " ranks, and the mesh is ", sizes);
  check_as<ValueError>(names_.empty() || std::ssize(names_) == sizes.size(), "device_mesh: got ",
                       names_.size(), " names for ", sizes.size(), " dims");
  if (sizes.size() == 1) {
    groups_.push_back(std::move(group));
    return;
  }
  int64_t inner = ranks;
  for (int dim = 0; dim < sizes.size(); ++dim) {
    inner /= sizes[dim];  // ranks from one coordinate of this dim to the next
    const int64_t coordinate = group->rank() / inner % sizes[dim];
    const int64_t others = group->rank() - coordinate * inner;
    const std::string name =
        concat("mesh.", names_.empty() ? concat(dim) : names_[static_cast<size_t>(dim)]);
    groups_.push_back(group->split(static_cast<int>(others), static_cast<int>(coordinate), name));
  }
}

size_t DeviceMesh::index_of(int dim) const {
  check_as<IndexError>(dim >= 0 && dim < dims(), "DeviceMesh: expected a dim from 0 to ",
                       dims() - 1, ", got ", dim);
  return static_cast<size_t>(dim);
}

int DeviceMesh::dim_of(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<int>(found - names_.begin());
  std::string known;
  for (const std::string& one : names_) append(known, concat(known.empty() ? "" : ", ", one));
  fail("DeviceMesh: there is no dim \"", name,
       "\"; the dims are: ", known.empty() ? std::string("without names") : known);
}

DeviceMesh device_mesh(const Shape& sizes, std::vector<std::string> names,
                       std::shared_ptr<ProcessGroup> group) {
  return {sizes, std::move(names), std::move(group)};
}

}  // namespace tensora::distributed
