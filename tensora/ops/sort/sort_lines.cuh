#pragma once

// The lines along one dim of an array on the device: as rows, as keys, as items that can be
// compared. See Note [Sort keys] in core/sort_key.h.

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/sort_key.h"

namespace tensora::cuda {

/// The lines along `dim` as contiguous rows: the array itself, or memory for a copy of it. A 0-dim
/// array is one line of one element.
class ContiguousRows {
 public:
  ContiguousRows(std::string_view op, const View& view, int dim) : op_(op), view_(view) {
    if (view.dim() > 0) {
      view_.sizes.erase(dim);
      view_.strides.erase(dim);
      view_.sizes.push_back(view.sizes[dim]);
      view_.strides.push_back(view.strides[dim]);
      length = view.sizes[dim];
    }
    view_.update();
    rows = length == 0 ? 0 : view.numel / length;
    rows_ = view_;
    if (view_.contiguous || view.numel == 0) return;
    copy_.emplace(view.device.index, view.bytes());
    rows_.data = copy_->data();
    rows_.strides = contiguous_strides(view_.sizes);
    rows_.update();
  }
  /// Fills the copy, if there is one, from the array; or the other way round.
  void read() const {
    if (copy_) copy_elements(op_, view_, rows_);
  }
  void write_back() const {
    if (copy_) copy_elements(op_, rows_, view_);
  }
  char* data() const { return rows_.as<char>(); }

  int64_t rows = 1, length = 1;

 private:
  std::string_view op_;
  View view_, rows_;
  std::optional<Scratch> copy_;
};

/// Calls body.template operator()<T>() for the dtypes whose keys are of type Key.
template <class Key, class Body>
__device__ inline void visit_keyed(DType dtype, Body&& body) {
  visit_any(dtype, [&]<class T>() {
    if constexpr (sizeof(SortKey<T>) == sizeof(Key)) body.template operator()<T>();
  });
}

/// The key of element `i`, in the order that `descending` says.
template <class Key>
__device__ inline Key load_key(const char* data, long long i, DType dtype, bool descending) {
  Key key = 0;
  visit_keyed<Key>(dtype, [&]<class T>() {
    const Key ascending = sort_key(reinterpret_cast<const T*>(data)[i]);
    key = descending ? ascending ^ kKeyMask<T> : ascending;
  });
  return key;
}

/// Stores the element of a key as number `to`; `i` is where it came from.
template <class Key>
__device__ inline void store_element(const char* from, long long i, char* values, long long to,
                                     DType dtype, Key key, bool descending) {
  visit_keyed<Key>(dtype, [&]<class T>() {
    const Key ascending = descending ? key ^ kKeyMask<T> : key;
    reinterpret_cast<T*>(values)[to] = key_tells<T>(ascending)
                                           ? element_of_key<T>(ascending)
                                           : reinterpret_cast<const T*>(from)[i];
  });
}

/// A key and a position, compared by both: no two of a line are equal.
template <class Key>
struct KeyedItem {
  Key key;
  unsigned index;

  __device__ bool operator<(const KeyedItem& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

/// Calls body.template operator()<Key>() with the type of a dtype's keys.
template <class Body>
void visit_key(DType dtype, Body&& body) {
  if (element_size(dtype) == 8)
    body.template operator()<uint64_t>();
  else
    body.template operator()<uint32_t>();
}

}  // namespace tensora::cuda
