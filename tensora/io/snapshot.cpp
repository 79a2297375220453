#include "tensora/io/snapshot.h"

#include <unordered_map>

#include "tensora/ops.h"

namespace tensora::io {
namespace {

class Copier {
 public:
  Value copy(const Value& value) {
    if (value.is_tensor()) return copy(value.to_tensor());
    if (value.is_list()) {
      Value::List list;
      for (const Value& item : value.to_list()) list.push_back(copy(item));
      return list;
    }
    if (!value.is_dict()) return value;
    Value::Dict dict;
    for (const auto& [key, entry] : value.to_dict()) dict.emplace_back(key, copy(entry));
    return dict;
  }

 private:
  Tensor copy(const Tensor& tensor) {
    check(tensor.defined() && !tensor.is_meta(), "snapshot: a tensor has no contents");
    const auto known = tensors_.find(tensor);
    if (known != tensors_.end()) return known->second;
    const IntrusivePtr<Storage>& storage = tensor.impl().storage;
    Tensor& bytes = storages_[storage.get()];
    if (!bytes.defined()) {
      const Tensor all =
          make_view(storage, {static_cast<int64_t>(storage->bytes())}, {1}, 0, kUInt8);
      bytes = all.is_cpu() ? all.clone() : all.cpu();
    }
    Tensor result = make_view(bytes.impl().storage, tensor.sizes(), tensor.strides(),
                              tensor.storage_offset(), tensor.dtype());
    if (tensor.requires_grad()) result.requires_grad_();
    return tensors_[tensor] = result;
  }

  std::unordered_map<Tensor, Tensor> tensors_;
  std::unordered_map<const Storage*, Tensor> storages_;
};

}  // namespace

Value snapshot(const Value& value) { return Copier().copy(value); }

}  // namespace tensora::io
