#include "python/src/bindings.h"
#include "tensora/autograd/history.h"
#include "tensora/base/mutex.h"
#include "tensora/core/deferred.h"
#include "tensora/tensora.h"

#include <mutex>
#include <unordered_map>

// Storages: the memory that tensors share, for `.data`, for copies that keep the sharing, and for
// memory that processes share.

namespace tensora::python {
namespace {

namespace nb = nanobind;

// Note [Data and its version]
// `x.data` shares the memory of x and has a version counter of its own, so that writing to it does
// not disturb a backward that saved x. The counter is a part of the storage: `.data` therefore has
// a second Storage over the same memory, which keeps the first one alive. `roots` tells the first
// one of each second one, so that the `.data` of a `.data` makes no chain. Two tensors share memory
// if the addresses of their storages are equal.
struct Roots {
  Mutex mutex;
  std::unordered_map<const Storage*, Storage*> of;
};
Roots& roots() {
  static auto* made = new Roots;  // tensors may outlive static objects
  return *made;
}

/// Owned by a second storage: keeps the first one.
struct Root {
  IntrusivePtr<Storage> storage;
  const Storage* alias = nullptr;
  ~Root() {
    const std::lock_guard lock(roots().mutex);
    roots().of.erase(alias);
  }
};

IntrusivePtr<Storage> root_of(const IntrusivePtr<Storage>& storage) {
  const std::lock_guard lock(roots().mutex);
  const auto found = roots().of.find(storage.get());
  return found == roots().of.end() ? storage : IntrusivePtr<Storage>::share(found->second);
}

IntrusivePtr<Storage> second_storage(const IntrusivePtr<Storage>& storage) {
  auto root = std::make_shared<Root>();
  root->storage = root_of(storage);
  const Storage& first = *root->storage;
  auto second = first.read_only()
                    ? Storage::wrap(static_cast<const void*>(first.data()), first.bytes(),
                                    first.device(), root)
                    : Storage::wrap(first.data(), first.bytes(), first.device(), root);
  root->alias = second.get();
  const std::lock_guard lock(roots().mutex);
  roots().of[second.get()] = root->storage.get();
  return second;
}

const Storage& storage_of(const Tensor& tensor) {
  check(static_cast<bool>(tensor.impl().storage), "storage: this tensor has no memory");
  return *tensor.impl().storage;
}

}  // namespace

Tensor data_of(const Tensor& tensor) {
  const IntrusivePtr<Storage>& storage = tensor.impl().storage;
  flush_deferred();  // the second storage needs the memory
  Tensor result = shallow_detach(tensor);
  if (storage && storage->data()) result.impl().storage = second_storage(storage);
  return result;
}

void bind_storage(nb::module_& module) {
  module.def("_storage_address", [](const Tensor& tensor) {
    flush_deferred();
    return reinterpret_cast<uintptr_t>(storage_of(tensor).data());
  });
  module.def("_storage_bytes", [](const Tensor& tensor) {
    const auto bytes = static_cast<int64_t>(storage_of(tensor).bytes());
    return make_view(tensor.impl().storage, {bytes}, {1}, 0, kUInt8);
  });
  module.def("_on_storage", [](const Tensor& bytes, DType dtype, const std::vector<int64_t>& sizes,
                               const std::vector<int64_t>& strides, int64_t offset) {
    check(sizes.size() == strides.size(), "storage: expected as many strides as sizes");
    check(offset >= 0, "storage: the offset must not be negative, got ", offset);
    for (size_t i = 0; i < sizes.size(); ++i)
      check(sizes[i] >= 0 && strides[i] >= 0, "storage: sizes and strides must not be negative");
    // The numbers may come from a file: neither sum nor product may overflow.
    const Shape shape(sizes);
    const int64_t extent =
        shape.contains(0) ? 0 : storage_extent(shape, Strides(strides), offset, "storage");
    const auto width = static_cast<int64_t>(element_size(dtype));
    const auto room = static_cast<int64_t>(storage_of(bytes).bytes());
    check(multiply_sizes(extent, width, "storage") <= room,
          "storage: the tensor does not fit into ", room, " bytes");
    return make_view(bytes.impl().storage, shape, Strides(strides), offset, dtype);
  });
}

}  // namespace tensora::python
