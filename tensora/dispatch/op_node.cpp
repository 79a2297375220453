#include "tensora/dispatch/op_node.h"

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"

namespace tensora {

void OpNode::connect(Args inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (!input.defined()) {
      inputs_.emplace_back();
      add_edge({});
      continue;
    }
    inputs_.emplace_back(input.sizes(), input.dtype(), input.device());
    Edge edge = gradient_edge(input);
    if (edge.node) wanted_ = wanted_ | op_.saves[i];
    add_edge(std::move(edge));
  }
}

namespace {

int32_t input_slot(size_t i) { return static_cast<int32_t>(i); }
int32_t output_slot(size_t i) { return -1 - static_cast<int32_t>(i); }

// The contents and the history that a tensor has before it is overwritten. Saving the tensor itself
// would keep neither, and would create a reference cycle with its new history.
Tensor preserved(const Tensor& tensor) {
  Tensor copy = [&] {
    const no_grad silent;
    return engine_ops().clone(tensor);
  }();
  if (const Edge edge = gradient_edge(tensor); edge.node) set_history(copy, edge.node, edge.output);
  return copy;
}

bool shares_storage(const Tensor& tensor, std::span<const Tensor> others) {
  for (const Tensor& other : others)
    if (shares_memory(tensor, other)) return true;
  return false;
}

}  // namespace

void OpNode::save(Tensor tensor, int32_t slot) {
  const uint32_t version = tensor.version();
  std::unique_ptr<PackedTensor> packed = SavedTensorHooks::pack(tensor);
  if (!packed) {
    saved_.push_back({std::move(tensor), version, slot});
    return;
  }
  has_packed_ = true;
  auto history = std::make_unique<PackedHistory>();
  history->packed = std::move(packed);
  history->edge = gradient_edge(tensor);
  saved_.push_back({Tensor(), 0, slot, std::move(history)});
}

void OpNode::unpack() {
  for (size_t i = 0; i < saved_.size(); ++i) {
    SavedTensor& kept = saved_[i];
    if (!kept.packed) continue;
    const Tensor tensor = kept.packed->packed->unpack();
    check(tensor.defined(), "saved_tensors_hooks: the unpack hook of what '", op_.name,
          "' saved returned no tensor");
    kept.tensor = shallow_detach(tensor);
    kept.version = kept.tensor.version();
    const Edge& edge = kept.packed->edge;
    if (edge.node) set_history(kept.tensor, edge.node, edge.output);
  }
}

void OpNode::save_inputs(Args inputs, std::span<const Tensor> overwritten) {
  if (wanted_.inputs == 0) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int32_t slot = input_slot(i);
    const Tensor& input = *inputs[i];
    if (!wanted_.has_input(i) || !input.defined()) continue;
    check(!input.is_inference(), op_.name,
          ": a tensor made under inference_mode cannot be saved "
          "for backward; clone it outside of inference_mode");
    save(shares_storage(input, overwritten) ? preserved(input) : input, slot);
  }
}

void OpNode::save_outputs(std::span<const Tensor> outputs) {
  if (wanted_.outputs == 0) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    // An output whose history is this node would create a reference cycle: save it without history.
    if (wanted_.has_output(i)) save(shallow_detach(outputs[i]), output_slot(i));
  }
}

void OpNode::release() {
  released_ |= !saved_.empty();
  saved_.clear();
}

const SavedTensor& OpNode::saved(int32_t slot) const {
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
  if (has_packed_) unpack();
  Tensors results(edges().size());
  Vjp vjp(*this, grads, results);
  op_.vjp(op_, vjp, attrs_.get());
  if (has_packed_)
    for (size_t i = 0; i < saved_.size(); ++i)
      if (saved_[i].packed) saved_[i].tensor = Tensor();
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined() && edges()[i].node) inputs_[i].fit(results[i], op_.name);
  return results;
}

Tensor Vjp::input(size_t i) const { return node_.saved(input_slot(i)).tensor; }

Tensor Vjp::output(size_t i) const {
  const Tensor& kept = node_.saved(output_slot(i)).tensor;
  // With a history, positions would make what is indexed by them seem to depend on the inputs.
  if (!is_grad_enabled() || !is_differentiable(kept.dtype())) return kept;
  Tensor result = shallow_detach(kept);
  set_history(result, NodePtr::share(&node_), static_cast<uint32_t>(i));
  return result;
}

bool Vjp::needs(size_t i) const {
  const Node* next = node_.edges()[i].node.get();
  return next && is_gradient_wanted(*next);
}
const Shape& Vjp::input_sizes(size_t i) const { return node_.inputs_[i].sizes; }
DType Vjp::input_dtype(size_t i) const { return node_.inputs_[i].dtype; }
size_t Vjp::input_count() const { return node_.inputs_.size(); }

}  // namespace tensora
