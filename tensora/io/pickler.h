#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensora/io/state.h"

namespace tensora::io {

/// Writes a Value as a pickle in the form of PyTorch's checkpoints, with tensors as references to
/// storages outside it.
class Pickler {
 public:
  /// A storage that the pickle refers to by its position in `storages()`; the tensor keeps it
  /// alive.
  struct StorageUse {
    Tensor tensor;      // the first one that uses it
    int64_t count = 0;  // of elements
  };

  /// `parameters` are written as nn.Parameter.
  explicit Pickler(std::span<const Tensor> parameters = {});

  /// The whole pickle.
  std::string dump(const Value& value);
  const std::vector<StorageUse>& storages() const { return storages_; }

 private:
  void add(const Value& value, int depth);
  void add_integer(int64_t value);
  void add_text(std::string_view text);
  void add_tensor(const Tensor& tensor);
  void add_data(const Tensor& tensor, bool requires_grad);
  void add_no_hooks();
  void add_storage(const Tensor& tensor);
  void add_tuple(const Shape& values);
  void add_global(std::string_view module, std::string_view name);

  std::string out_;
  std::vector<StorageUse> storages_;
  std::map<std::pair<const void*, size_t>, size_t> keys_;    // by address and size of the memory
  std::unordered_map<const TensorImpl*, uint32_t> tensors_;  // places in the pickle's memo
  std::unordered_set<const TensorImpl*> parameters_;
};

}  // namespace tensora::io
