// The history of a tensor: how it changes by in-place writes, and how views share their base's.
#include "tensora/autograd/history.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/queued_node.h"
#include "tensora/autograd/sparse_gradient.h"

namespace tensora {

AutogradMeta& autograd_meta(const Tensor& tensor) {
  TensorImpl& impl = tensor.impl();
  if (!impl.autograd) impl.autograd = new AutogradMeta;
  return *static_cast<AutogradMeta*>(impl.autograd);
}

AccumulateGrad& accumulator_of(const Tensor& tensor) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (!meta.accumulator)
    meta.accumulator = IntrusivePtr<AccumulateGrad>::adopt(new AccumulateGrad(tensor));
  return *meta.accumulator;
}

Tensor ViewStep::view_of(const Tensor& base) const {
  std::vector<const ViewStep*> path;
  for (const ViewStep* step = this; step; step = step->before.get()) path.push_back(step);
  Tensor result = base;
  for (auto step = path.rbegin(); step != path.rend(); ++step) result = (*step)->apply_to(result);
  return result;
}

// A loop, as for graphs: see Note [Freeing long graphs].
void ViewStep::destroy(ViewStep* step) {
  while (step) {
    ViewStep* before = step->before.release();
    delete step;
    step = before && before->drop_ref() ? before : nullptr;
  }
}

namespace {

// The same view of the base as it is now; throws if the base's sizes do not allow it any more.
Tensor view_again(const Tensor& tensor, const ViewOrigin& view) {
  Tensor again;
  try {
    const enable_grad recording;
    again = view.steps->view_of(view.base);
  } catch (const Error&) {
    // undefined
  }
  check(again.defined() && again.sizes() == tensor.sizes() && again.strides() == tensor.strides() &&
            again.storage_offset() == tensor.storage_offset(),
        "a view of shape ", tensor.sizes(),
        " was taken of a tensor whose sizes were changed in place since, so that its gradient is "
        "not known; take the view again");
  return again;
}

// The edge of a view whose base was rewritten.
Edge renewed_edge(const Tensor& tensor, const ViewOrigin& view) {
  const Tensor again = view_again(tensor, view);
  const AutogradMeta& meta = autograd_meta(again);
  return {meta.grad_fn, meta.output};
}

// retain_grad keeps the gradient of the newest contents: its hook moves to the new history.
void replace_history(const Tensor& tensor, const Edge& edge) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (meta.retains_grad) meta.grad_fn->remove_hook(meta.retain_hook);
  set_history(tensor, edge.node, edge.output);
  if (meta.retains_grad) keep_gradient(meta);
}

// Note [In-place on views]
// Writing through a view changes its base. The base's new history is this node. It takes the
// gradient of the whole base and passes the written part to the op that wrote it. The rest goes to
// the base's former history, with the written part replaced by zeros or by the op's gradient for
// its old contents. The written part is extracted by the view's own ops, applied to the gradient,
// which therefore has the base's layout.
class WriteIntoBase final : public QueuedNode, public Pooled {
 public:
  WriteIntoBase(const ViewOrigin& view, NodePtr writer)
      : writer_(std::move(writer)),
        steps_(view.steps),
        base_sizes_(view.base.sizes()),
        base_strides_(view.base.strides()) {
    note_caller();
    take_queue(view.base.device());
    add_edge(edge_of_history(view.base));
    // The writer's first edge is the view's own old contents; it flows through the base.
    for (const Edge& edge : writer_->edges().subspan(1)) add_edge(edge);
  }
  std::string_view name() const override { return "WriteIntoBase"; }
  void release() override { writer_->release(); }

  Tensors backward(Tensors grads) override {
    Tensors result(edges().size());
    if (!grads[0].defined()) return result;
    const EngineOps& ops = engine_ops();
    Tensor whole = make_tensor(base_sizes_, base_strides_, grads[0].dtype(), grads[0].device());
    ops.copy_(whole, grads[0]);
    const Tensor part = steps_->view_of(whole);
    Tensors writer_grads;
    writer_grads.push_back(ops.clone(part));
    Tensors inputs = backward_within(*writer_, std::move(writer_grads));
    const Tensor old_part =
        inputs[0].defined() ? inputs[0] : ops.zeros(part.sizes(), part.dtype(), part.device());
    ops.copy_(part, old_part);
    result[0] = std::move(whole);
    for (size_t i = 1; i < result.size(); ++i) result[i] = std::move(inputs[i]);
    return result;
  }

 private:
  static Edge edge_of_history(const Tensor& base) {
    AutogradMeta* meta = autograd_meta_or_null(base);
    if (!meta || !meta->grad_fn) return {};
    return {meta->grad_fn, meta->output};
  }

  NodePtr writer_;
  IntrusivePtr<ViewStep> steps_;  // not the base, whose history this becomes
  Shape base_sizes_;
  Strides base_strides_;
};

}  // namespace

// Note [Views taken without recording]
// A view taken under no_grad or inference_mode has no history of its own, and its base may have
// one. Writing to such a view while recording, or using it after its base has changed, could mean
// either to take part in the base's history or to stay out of it. Like PyTorch, we refuse both.
void renew_view_history(const Tensor& tensor) {
  ViewOrigin& view = autograd_meta(tensor).view;
  if (!view || view.seen_version == tensor.version()) return;
  if (is_differentiable(tensor.dtype()) && view.base.requires_grad()) {
    if (!view.recorded && !is_grad_enabled()) return;
    check(view.recorded, "a view of shape ", tensor.sizes(),
          " was taken under no_grad or inference_mode, and its base or another view of it was "
          "changed in place since, so that it is unclear whether it has the base's gradient; take "
          "the view again, or detach() it");
    view.seen_version = tensor.version();
    replace_history(tensor, renewed_edge(tensor, view));
  }
  view.seen_version = tensor.version();
}

void keep_gradient(AutogradMeta& meta) {
  meta.retain_hook =
      meta.grad_fn->add_last_hook(meta.output, [keeper = meta.accumulator](const Tensor& grad) {
        Tensors grads;
        grads.push_back(grad);
        keeper->backward(std::move(grads));
        return Tensor();
      });
}

Edge gradient_edge(const Tensor& tensor) {
  AutogradMeta* meta = autograd_meta_or_null(tensor);
  if (meta) renew_view_history(tensor);
  if (!tensor.impl().requires_grad) return {};
  if (meta && meta->grad_fn) return {meta->grad_fn, meta->output};
  return {NodePtr::share(&accumulator_of(tensor)), 0};
}

void set_history(const Tensor& tensor, const NodePtr& node, uint32_t output) {
  AutogradMeta& meta = autograd_meta(tensor);
  meta.grad_fn = node;
  meta.output = output;
  tensor.impl().requires_grad = true;
}

void track_view(const Tensor& view, const Tensor& source, IntrusivePtr<ViewStep> step) {
  const AutogradMeta* source_meta = autograd_meta_or_null(source);
  const bool of_a_view = source_meta && source_meta->view;
  if (of_a_view) step->before = source_meta->view.steps;
  const bool recorded = is_grad_enabled() && (!of_a_view || source_meta->view.recorded);
  autograd_meta(view).view = {.base = of_a_view ? source_meta->view.base : source,
                              .steps = std::move(step),
                              .seen_version = view.version(),
                              .recorded = recorded};
}

void rebase_history(const Tensor& tensor, const NodePtr& node) {
  ViewOrigin& view = autograd_meta(tensor).view;
  if (!view) {
    replace_history(tensor, {node, 0});
    return;
  }
  replace_history(view.base, {NodePtr::adopt(new WriteIntoBase(view, node)), 0});
  view.seen_version = tensor.version();
  replace_history(tensor, renewed_edge(tensor, view));
}

void check_inplace(const Tensor& tensor, std::string_view op, bool recording) {
  check(!tensor.is_inference() || is_inference_mode(), op,
        "_: a tensor made under inference_mode cannot be changed in place outside it; clone it");
  check(!tensor.impl().storage->read_only(), op,
        "_: the tensor wraps const memory, which cannot be changed in place; clone it");
  if (!is_grad_enabled()) return;
  AutogradMeta* meta = autograd_meta_or_null(tensor);
  if (meta && meta->view) {
    const Tensor& base = meta->view.base;
    // See Note [Views taken without recording].
    check(meta->view.recorded || !(recording || base.requires_grad()), op,
          "_: the tensor is a view that was taken under no_grad or inference_mode, and is being "
          "changed in place while gradients are recorded; do both inside, or both outside");
    check(!(base.requires_grad() && base.is_leaf()), op,
          "_: a view of a leaf Variable that requires grad is being used in an in-place operation; "
          "wrap it in no_grad, or work on a clone");
    // A view that its base no longer has is refused here, before anything is written.
    if (recording || base.requires_grad()) view_again(tensor, meta->view);
  }
  check(!(tensor.requires_grad() && tensor.is_leaf()), op,
        "_: a leaf Variable that requires grad is being used in an in-place operation; wrap it in "
        "no_grad, or work on a clone");
}

Tensor shallow_detach(const Tensor& tensor) {
  if (const SparseParts* const parts = sparse_parts(tensor)) [[unlikely]]
    return make_sparse({parts->indices, shallow_detach(parts->values), parts->coalesced},
                       tensor.sizes());
  const TensorImpl& impl = tensor.impl();
  auto* copy = new TensorImpl;
  copy->view = impl.view;
  copy->storage = impl.storage;
  copy->offset = impl.offset;
  copy->inference = impl.inference;
  return Tensor(IntrusivePtr<TensorImpl>::adopt(copy));
}

}  // namespace tensora
