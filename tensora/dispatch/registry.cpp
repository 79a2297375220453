#include "tensora/dispatch/op.h"

namespace tensora {

void detail::fail_unknown_attr(std::string_view op, std::string_view attr) {
  fail(op, ": there is no argument called '", attr, "'");
}

SmallVector<Arg, 8> args_of(std::span<const Tensor> tensors) {
  SmallVector<Arg, 8> result;
  for (const Tensor& tensor : tensors) result.emplace_back(tensor);
  return result;
}

void OpRegistry::add(const OpBase& op) {
  ensure(find(op.name) == nullptr, "two ops are called '", op.name, "'");
  ops_.push_back(&op);
}

const OpBase* OpRegistry::find(std::string_view name) const {
  for (const OpBase* op : ops_)
    if (op->name == name) return op;
  return nullptr;
}

Tensors apply_by_name(std::string_view name, std::span<const Tensor> inputs,
                      std::span<const std::pair<std::string, AttrValue>> attrs, Reach reach) {
  const OpBase* op = op_registry().find(name);
  check(op != nullptr, "there is no op called '", name, "'");
  check(!op->internal || reach == Reach::everything, "'", name,
        "' is an internal op, which trusts its arguments and is not meant to be called by name");
  Tensors outputs;
  op->with_attrs(*op, attrs, [&](const void* values) {
    outputs = detail::apply_all(*op, args_of(inputs), values);
  });
  return outputs;
}

}  // namespace tensora
