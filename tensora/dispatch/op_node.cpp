#include "tensora/dispatch/op_node.h"

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"

namespace tensora {

OpNode::OpNode(const OpBase& op, const void* attrs) : op_(op) {
  attrs_ = op.attrs_size <= sizeof inline_attrs_ ? inline_attrs_ : pool_allocate(op.attrs_size);
  op.copy_attrs(attrs_, attrs);
  if (is_anomaly_enabled()) created_at = std::make_unique<std::string>(call_stack());
}

OpNode::~OpNode() {
  op_.destroy_attrs(attrs_);
  if (attrs_ != inline_attrs_) pool_free(attrs_, op_.attrs_size);
}

void OpNode::connect(Args inputs) {
  for (const Arg& input : inputs) {
    if (!input->defined()) {
      add_edge({});
      inputs_.emplace_back();
      continue;
    }
    add_edge(gradient_edge(*input));
    InputInfo& info = inputs_.emplace_back();
    info.sizes = input->sizes();
    info.dtype = input->dtype();
    info.device = input->device();
  }
}

uint32_t OpNode::wanted_slots() const {
  uint32_t slots = 0;
  for (size_t i = 0; i < edges().size(); ++i)
    if (edges()[i].node) slots |= op_.saves[std::min<size_t>(i, op_.saves.size() - 1)];
  return slots;
}

void OpNode::save_inputs(Args inputs) {
  const uint32_t slots = wanted_slots() & 0xffffu;
  for (size_t i = 0; i < inputs.size() && i < 16; ++i)
    if ((slots & in(static_cast<int>(i))) && inputs[i]->defined())
      saved_.push_back({*inputs[i], inputs[i]->version(), in(static_cast<int>(i))});
}

void OpNode::save_outputs(std::span<const Tensor> outputs) {
  const uint32_t slots = wanted_slots();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint32_t slot = out(static_cast<int>(i));
    // An output that carried this node as its history would close a cycle: keep it without.
    if (slots & slot) saved_.push_back({shallow_detach(outputs[i]), outputs[i].version(), slot});
  }
}

void OpNode::release() {
  released_ |= !saved_.empty();
  saved_.clear();
}

const SavedTensor& OpNode::saved(uint32_t slot) const {
  for (const SavedTensor& candidate : saved_) {
    if (candidate.slot != slot) continue;
    check(candidate.tensor.version() == candidate.version, "backward: a tensor of shape ",
          candidate.tensor.sizes(), " that '", op_.name,
          "' needs for its gradient was changed in place since (version ",
          candidate.tensor.version(), ", expected ", candidate.version, "); clone it before");
    return candidate;
  }
  fail_internal("backward of '", op_.name, "' reads a tensor that its .saves does not list");
}

Tensors OpNode::backward(Tensors grads) {
  check(!released_, "backward: the graph of '", op_.name,
        "' was already used and its saved tensors were freed; pass retain_graph to the first "
        "backward if you need a second one");
  check(op_.gradient != Gradient::not_differentiable, "backward: '", op_.name,
        "' is not differentiable");
  Tensors results(edges().size());
  Vjp vjp(*this, grads, results);
  op_.vjp(op_, vjp, attrs_);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && edges()[i].node) fit_to_input(results[i], i);
  return results;
}

void OpNode::fit_to_input(Tensor& grad, size_t i) const {
  const InputInfo& info = inputs_[i];
  if (grad.sizes() != info.sizes) {
    ensure(can_broadcast_to(info.sizes, grad.sizes()), "backward of '", op_.name,
           "' gave a gradient of shape ", grad.sizes(), " for an input of shape ", info.sizes);
    grad = engine_ops().sum_to(grad, info.sizes);
  }
  if (grad.dtype() != info.dtype || grad.device() != info.device)
    grad = engine_ops().cast(grad, info.dtype, info.device);
}

Tensor Vjp::input(size_t i) const { return node_.saved(in(static_cast<int>(i))).tensor; }

Tensor Vjp::output(size_t i) const {
  const Tensor& kept = node_.saved(out(static_cast<int>(i))).tensor;
  if (!is_grad_enabled()) return kept;
  Tensor result = shallow_detach(kept);
  set_history(result, NodePtr::share(&node_), static_cast<uint32_t>(i));
  return result;
}

bool Vjp::needs(size_t i) const { return static_cast<bool>(node_.edges()[i].node); }
const Shape& Vjp::input_sizes(size_t i) const { return node_.inputs_[i].sizes; }
DType Vjp::input_dtype(size_t i) const { return node_.inputs_[i].dtype; }
size_t Vjp::input_count() const { return node_.inputs_.size(); }

}  // namespace tensora
