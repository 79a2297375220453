// The autograd methods of Tensor.
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/core/deferred.h"

namespace tensora {

const Tensor& Tensor::requires_grad_(bool value) const {
  check(!value || is_differentiable(dtype()),
        "requires_grad_: only floating-point tensors can require gradients, got ", dtype());
  if (value && !is_leaf()) return *this;  // it does
  check(is_leaf(),
        "requires_grad_: you can only change requires_grad flags of leaf variables. Use detach()");
  check(!value || !is_inference() || is_inference_mode(),
        "requires_grad_: a tensor made under inference_mode cannot require gradients; clone it");
  const AutogradMeta* const meta = autograd_meta_or_null(*this);
  if (impl().requires_grad != value && meta && meta->accumulator) ++leaf_switches();
  impl().requires_grad = value;
  // Created now, not at the first use: several threads may build graphs on this leaf at once.
  if (value) accumulator_of(*this);
  return *this;
}

std::atomic<uint64_t>& leaf_switches() {
  static constinit std::atomic<uint64_t> count{0};
  return count;
}

bool Tensor::gets_history_from_base() const {
  renew_view_history(*this);
  return impl().requires_grad;
}

bool Tensor::is_leaf() const {
  const AutogradMeta* meta = autograd_meta_or_null(*this);
  if (meta) renew_view_history(*this);
  return !meta || !meta->grad_fn;
}

NodePtr Tensor::grad_fn() const { return is_leaf() ? nullptr : gradient_edge(*this).node; }

Tensor Tensor::grad() const {
  const AutogradMeta* meta = autograd_meta_or_null(*this);
  return meta && meta->accumulator ? meta->accumulator->grad() : Tensor();
}

void Tensor::set_grad(const Tensor& grad) const {
  if (grad.defined()) {
    check(grad.sizes() == sizes(), "set_grad: a tensor of shape ", sizes(),
          " cannot have a gradient of shape ", grad.sizes());
    check(grad.dtype() == dtype() && grad.device() == device(), "set_grad: expected ", dtype(),
          " on ", device(), ", got ", grad.dtype(), " on ", grad.device());
  }
  const AutogradMeta* meta = autograd_meta_or_null(*this);
  if (!grad.defined() && !(meta && meta->accumulator)) return;
  accumulator_of(*this).set_grad(grad);
}

Tensor& Tensor::mutable_grad() const {
  note_host_work("the body takes a reference to a gradient");
  return accumulator_of(*this).mutable_grad();
}

bool Tensor::retains_grad() const {
  const AutogradMeta* meta = autograd_meta_or_null(*this);
  return meta && meta->retains_grad;
}

uint32_t Tensor::output_nr() const { return is_leaf() ? 0 : gradient_edge(*this).output; }

void Tensor::retain_grad() const {
  check(requires_grad(), "retain_grad: the tensor does not require gradients");
  if (is_leaf()) return;
  AutogradMeta& meta = autograd_meta(*this);
  if (std::exchange(meta.retains_grad, true)) return;
  meta.accumulator = IntrusivePtr<AccumulateGrad>::adopt(new AccumulateGrad(*this));
  keep_gradient(meta);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  tensora::backward(std::span(this, 1), std::span(&gradient, 1),
                    {.retain_graph = retain_graph, .create_graph = create_graph});
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph,
                      bool create_graph) const {
  backward(gradient, retain_graph.value_or(create_graph), create_graph);
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                      const std::vector<Tensor>& inputs) const {
  tensora::backward(
      std::span(this, 1), std::span(&gradient, 1),
      {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph}, inputs);
}

std::function<void()> Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check(requires_grad(), "register_hook: the tensor does not require gradients");
  const Edge edge = gradient_edge(*this);
  const uint64_t id = edge.node->add_hook(edge.output, std::move(hook));
  return [node = edge.node, id] { node->remove_hook(id); };
}

std::function<void()> Tensor::register_post_accumulate_grad_hook(
    std::function<void(const Tensor&)> hook) const {
  check(requires_grad(),
        "register_post_accumulate_grad_hook: the tensor does not require gradients");
  check(is_leaf(),
        "register_post_accumulate_grad_hook: only a leaf accumulates its gradient; use "
        "register_hook for a tensor that was computed");
  const auto accumulator = IntrusivePtr<AccumulateGrad>::share(&accumulator_of(*this));
  const uint64_t id = accumulator->add_after_hook(*this, std::move(hook));
  return [accumulator, id] { accumulator->remove_after_hook(id); };
}

void Tensor::set_data(const Tensor& other) const {
  check(is_leaf() && !is_view(),
        "set_data: only a leaf that is no view can be given another array; this tensor was "
        "computed");
  check(!requires_grad() || is_differentiable(other.dtype()),
        "set_data: a tensor that requires gradients cannot hold ", other.dtype());
  check(!is_sparse(other), "set_data: a sparse tensor has no array; convert it with to_dense");
  note_host_work("the body gives a tensor other data");
  TensorImpl& mine = impl();
  const TensorImpl& theirs = other.impl();
  mine.view = theirs.view;
  mine.storage = theirs.storage;
  mine.offset = theirs.offset;
  AutogradMeta* meta = autograd_meta_or_null(*this);
  if (meta && meta->accumulator) meta->accumulator->follow(*this);
}

const Tensor& Tensor::detach_() const {
  check(!is_view(), "detach_: a view cannot be detached in place; use detach()");
  AutogradMeta* meta = autograd_meta_or_null(*this);
  if (meta) {
    if (meta->retains_grad) meta->grad_fn->remove_hook(meta->retain_hook);
    meta->retains_grad = false;
    meta->grad_fn = nullptr;
  }
  impl().requires_grad = false;
  return *this;
}

bool Tensor::is_view() const {
  const AutogradMeta* meta = autograd_meta_or_null(*this);
  return meta && static_cast<bool>(meta->view);
}

}  // namespace tensora
