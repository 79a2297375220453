#include "tensora/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/queued_node.h"

namespace tensora {
namespace {

EngineOps engine_ops_table;

// Note [Freeing long graphs]
// A node owns its edges, so the last reference to the end of a 100,000-op chain would free the
// chain by 100,000 nested destructors. Instead the outermost destroy of a thread runs a loop, and
// nested ones only queue their node.
thread_local constinit std::vector<Node*>* doomed = nullptr;

}  // namespace

const EngineOps& engine_ops() { return engine_ops_table; }
void set_engine_ops(const EngineOps& ops) { engine_ops_table = ops; }

void Node::destroy(Node* node) {
  if (doomed) {
    doomed->push_back(node);
    return;
  }
  std::vector<Node*> queue;
  doomed = &queue;
  delete node;
  while (!queue.empty()) {
    Node* next = queue.back();
    queue.pop_back();
    delete next;
  }
  doomed = nullptr;
}

void InputInfo::fit(Tensor& grad, std::string_view op) const {
  if (grad.sizes() != sizes) {
    check(can_broadcast_to(sizes, grad.sizes()), "backward of '", op, "' gave a gradient of shape ",
          grad.sizes(), " for an input of shape ", sizes);
    grad = engine_ops().sum_to(grad, sizes);
  }
  if (grad.dtype() != dtype || grad.device() != device)
    grad = engine_ops().cast(grad, dtype, device);
}

namespace {

uint64_t next_hook_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

uint64_t Node::add_hook(uint32_t output, std::function<Tensor(const Tensor&)> call) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<GradHook>>();
  const auto end =
      std::find_if(hooks_->begin(), hooks_->end(), [](const GradHook& hook) { return hook.last; });
  const uint64_t id = next_hook_id();
  hooks_->insert(end, {output, id, std::move(call)});
  return id;
}

uint64_t Node::add_last_hook(uint32_t output, std::function<Tensor(const Tensor&)> call) {
  if (!hooks_) hooks_ = std::make_unique<std::vector<GradHook>>();
  return hooks_->emplace_back(GradHook{output, next_hook_id(), std::move(call), true}).id;
}

void Node::remove_hook(uint64_t id) {
  if (hooks_) std::erase_if(*hooks_, [id](const GradHook& hook) { return hook.id == id; });
}

Tensor AccumulateGrad::grad() const {
  std::lock_guard lock(mutex_);
  return grad_;
}

void AccumulateGrad::set_grad(Tensor grad) {
  std::lock_guard lock(mutex_);
  grad_ = std::move(grad);
}

void AccumulateGrad::add_after_hook(std::function<void(const Tensor&)> hook) {
  std::lock_guard lock(mutex_);
  after_hooks_.push_back(std::move(hook));
  wait_for_all();
}

Tensors AccumulateGrad::backward(Tensors grads) {
  Tensor& incoming = grads[0];
  if (!incoming.defined()) return {};
  std::lock_guard lock(mutex_);
  const bool recording = is_grad_enabled();
  if (!grad_.defined()) {
    // A gradient nobody else holds becomes ours without a copy.
    const bool sole_owner = incoming.impl().use_count() == 1 &&
                            incoming.impl().storage->use_count() == 1 && incoming.is_contiguous();
    if (recording)
      grad_ = incoming;
    else
      grad_ = sole_owner ? std::move(incoming) : engine_ops().clone(incoming);
  } else if (recording) {
    grad_ = engine_ops().add(grad_, incoming);
  } else {
    engine_ops().add_(grad_, incoming);
  }
  for (auto& hook : after_hooks_) hook(grad_);
  return {};
}

AutogradMeta& autograd_meta(const Tensor& tensor) {
  TensorImpl& impl = tensor.impl();
  if (!impl.autograd) impl.autograd = new AutogradMeta;
  return *static_cast<AutogradMeta*>(impl.autograd);
}

namespace {

// The gradient of a view whose base was rewritten: the base's, read through the view's geometry.
NodePtr renewed_view_history(const Tensor& view, const Tensor& base) {
  const enable_grad recording;
  const Tensor again =
      engine_ops().as_strided(base, view.sizes(), view.strides(), view.storage_offset());
  return autograd_meta(again).grad_fn;
}

IntrusivePtr<AccumulateGrad>& accumulator_of(AutogradMeta& meta) {
  if (!meta.accumulator) {
    meta.accumulator = IntrusivePtr<AccumulateGrad>::adopt(new AccumulateGrad);
  }
  return meta.accumulator;
}

// A gradient that is retained is that of the newest contents: its hook moves along.
void replace_history(const Tensor& tensor, const NodePtr& node) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (meta.retains_grad) meta.grad_fn->remove_hook(meta.retain_hook);
  set_history(tensor, node, 0);
  if (meta.retains_grad) keep_gradient(meta);
}

// Note [In-place on views]
// Writing through a view changes its base. The base's new history is this node: it takes the
// gradient of the whole base, hands the written part to the op that wrote, and passes the rest,
// with zeros in the written part or what the op gives back for its old contents, to the base's
// former history.
class WriteIntoBase final : public QueuedNode, public Pooled {
 public:
  WriteIntoBase(const Tensor& base, const Tensor& view, NodePtr writer)
      : writer_(std::move(writer)),
        base_sizes_(base.sizes()),
        base_strides_(base.strides()),
        view_sizes_(view.sizes()),
        view_strides_(view.strides()),
        offset_(view.storage_offset() - base.storage_offset()) {
    take_queue(base.device());
    add_edge(gradient_edge_of_history(base));
    // The writer's first edge is the view's own old contents; it flows through the base.
    bool first = true;
    for (const Edge& edge : writer_->edges()) {
      if (!first) add_edge(edge);
      first = false;
    }
  }
  std::string_view name() const override { return "WriteIntoBase"; }
  void release() override { writer_->release(); }

  Tensors backward(Tensors grads) override {
    Tensors result(edges().size());
    if (!grads[0].defined()) return result;
    const EngineOps& ops = engine_ops();
    Tensor whole = make_tensor(base_sizes_, base_strides_, grads[0].dtype(), grads[0].device());
    ops.copy_(whole, grads[0]);
    Tensor part = ops.as_strided(whole, view_sizes_, view_strides_, offset_);
    Tensors writer_grads;
    writer_grads.push_back(ops.clone(part));
    Tensors inputs = writer_->backward(std::move(writer_grads));
    const Tensor old_part =
        inputs[0].defined() ? inputs[0] : ops.zeros(view_sizes_, part.dtype(), part.device());
    ops.copy_(part, old_part);
    result[0] = std::move(whole);
    for (size_t i = 1; i < result.size(); ++i) result[i] = std::move(inputs[i]);
    return result;
  }

 private:
  static Edge gradient_edge_of_history(const Tensor& base) {
    AutogradMeta* meta = autograd_meta_or_null(base);
    if (!meta || !meta->grad_fn) return {};
    return {meta->grad_fn, meta->output};
  }

  NodePtr writer_;
  Shape base_sizes_;
  Strides base_strides_;
  Shape view_sizes_;
  Strides view_strides_;
  int64_t offset_;
};

}  // namespace

void renew_view_history(const Tensor& tensor) {
  AutogradMeta& meta = autograd_meta(tensor);
  ViewOrigin* view = meta.view.get();
  if (!view || view->seen_version == tensor.version()) return;
  view->seen_version = tensor.version();
  if (!is_differentiable(tensor.dtype()) || !view->base.requires_grad()) return;
  replace_history(tensor, renewed_view_history(tensor, view->base));
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
  if (!meta) meta = &autograd_meta(tensor);
  if (meta->grad_fn) return {meta->grad_fn, meta->output};
  return {IntrusivePtr<Node>(IntrusivePtr<AccumulateGrad>(accumulator_of(*meta))), 0};
}

void set_history(const Tensor& tensor, const NodePtr& node, uint32_t output) {
  AutogradMeta& meta = autograd_meta(tensor);
  meta.grad_fn = node;
  meta.output = output;
  tensor.impl().requires_grad = true;
}

void track_view(const Tensor& view, const Tensor& source) {
  if (source.is_inference()) {  // which nobody changes here, so there is nothing to track
    view.impl().inference = true;
    return;
  }
  AutogradMeta* source_meta = autograd_meta_or_null(source);
  Tensor base = source_meta && source_meta->view ? source_meta->view->base : source;
  autograd_meta(view).view =
      std::make_unique<ViewOrigin>(ViewOrigin{std::move(base), view.version()});
}

void rebase_history(const Tensor& tensor, const NodePtr& node) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (!meta.view) {
    replace_history(tensor, node);
    return;
  }
  const Tensor base = meta.view->base;
  replace_history(base, NodePtr::adopt(new WriteIntoBase(base, tensor, node)));
  meta.view->seen_version = tensor.version();
  replace_history(tensor, renewed_view_history(tensor, base));
}

void check_inplace(const Tensor& tensor, std::string_view op) {
  check(!tensor.is_inference() || is_inference_mode(), op,
        "_: a tensor made under inference_mode cannot be changed in place outside it; clone it");
  if (!is_grad_enabled()) return;
  AutogradMeta* meta = autograd_meta_or_null(tensor);
  if (meta && meta->view) {
    const Tensor& base = meta->view->base;
    check(!(base.requires_grad() && base.is_leaf()), op,
          "_: a view of a leaf tensor that requires grad is being used in an in-place operation; "
          "wrap it in no_grad, or work on a clone");
  }
  check(!(tensor.requires_grad() && tensor.is_leaf()), op,
        "_: a leaf tensor that requires grad is being used in an in-place operation; wrap it in "
        "no_grad, or work on a clone");
}

Tensor shallow_detach(const Tensor& tensor) {
  const TensorImpl& impl = tensor.impl();
  auto* copy = new TensorImpl;
  copy->view = impl.view;
  copy->storage = impl.storage;
  copy->offset = impl.offset;
  copy->inference = impl.inference;
  return Tensor(IntrusivePtr<TensorImpl>::adopt(copy));
}

}  // namespace tensora
