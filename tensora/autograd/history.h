#pragma once

// Internal header: what autograd keeps for a tensor.

#include <atomic>
#include <memory>

#include "tensora/autograd/node.h"
#include "tensora/base/mutex.h"

namespace tensora {

/// The node of a leaf: adds what arrives to the leaf's gradient. The node owns the gradient, and
/// the leaf owns the node, so that no back reference is needed.
class AccumulateGrad final : public Node, public Pooled {
 public:
  using AfterHook = std::function<void(const Tensor& leaf)>;

  /// The gradient will have the strides of `leaf` if that is dense, and otherwise be row-major.
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  std::string_view name() const override { return "AccumulateGrad"; }
  bool is_leaf() const override { return true; }
  Tensors backward(Tensors grads) override;

  Tensor grad() const;
  void set_grad(Tensor grad);
  /// Without the lock: no backward may reach the leaf while the caller assigns.
  Tensor& mutable_grad() { return grad_; }
  /// The leaf holds another array now; a gradient that does not fit it is dropped.
  void follow(const Tensor& leaf);
  /// `hook` is called after each backward that reached the leaf; returns its id.
  uint64_t add_after_hook(const Tensor& leaf, AfterHook hook);
  void remove_after_hook(uint64_t id);
  /// Whether hooks need the complete gradient; otherwise it may be accumulated part by part.
  bool waits_for_all() const {
    return has_hooks() || after_hook_count_.load(std::memory_order_relaxed) > 0;
  }
  /// How many hooks all leaves of the process have, of both kinds.
  static std::atomic<int64_t>& hook_count();

 private:
  void take_in(Tensor& incoming);
  void take_in_sparse(Tensor& incoming);
  bool has_layout(const Tensor& grad) const;

  struct Registered {
    uint64_t id;
    AfterHook call;
  };
  mutable Mutex mutex_;  // several graphs in several threads may share a leaf
  Tensor grad_;
  std::unique_ptr<const Strides> layout_;  // null: row-major
  Tensor leaf_;                            // the leaf's data, for the hooks; only if there are any
  std::vector<Registered> after_hooks_;
  std::atomic<uint32_t> after_hook_count_{0};
};

/// How a view was taken of its base: the op that was applied last, and the steps before it. They
/// can be replayed on new contents of the base, or on its gradient.
class ViewStep : public RefCounted {
 public:
  virtual ~ViewStep() = default;
  /// Applies this step's op.
  virtual Tensor apply_to(const Tensor& input) const = 0;
  /// Applies all steps to `base`.
  Tensor view_of(const Tensor& base) const;
  static void destroy(ViewStep* step);

  IntrusivePtr<ViewStep> before;
};

/// How often a tensor that had required gradients before was switched, one way or the other: what
/// was recorded of a program's graphs may not hold any more.
std::atomic<uint64_t>& leaf_switches();

/// Of which tensor a view is a part.
struct ViewOrigin {
  Tensor base;                   // never itself a tracked view
  IntrusivePtr<ViewStep> steps;  // null: the tensor is no view
  uint32_t seen_version = 0;     // the storage's version for which the view's `grad_fn` is right
  bool recorded = true;          // false: taken under no_grad or inference_mode
  explicit operator bool() const { return static_cast<bool>(steps); }
};

/// Autograd's data of a tensor.
struct AutogradMeta : AutogradData, Pooled {
  NodePtr grad_fn;
  uint32_t output = 0;                       // which output of grad_fn this tensor is
  IntrusivePtr<AccumulateGrad> accumulator;  // a leaf's, or where retain_grad keeps the gradient
  ViewOrigin view;
  bool retains_grad = false;
  bool has_parts = false;    // of a sparse tensor: see sparse_gradient.h
  uint64_t retain_hook = 0;  // on grad_fn, where `retains_grad`
};

/// The meta of a tensor, made if absent.
AutogradMeta& autograd_meta(const Tensor& tensor);
inline AutogradMeta* autograd_meta_or_null(const Tensor& tensor) {
  return static_cast<AutogradMeta*>(tensor.impl().autograd);
}

/// The edge along which the gradient of `tensor` flows; empty if it needs none. For a view whose
/// base was written to, the history is renewed first.
Edge gradient_edge(const Tensor& tensor);
/// Makes `tensor` output number `output` of `node`.
void set_history(const Tensor& tensor, const NodePtr& node, uint32_t output);
/// If `tensor` is a view whose base was written to since, gives it the base's new history.
void renew_view_history(const Tensor& tensor);
/// Hooks the accumulator of a tensor that retains its gradient to its present history.
void keep_gradient(AutogradMeta& meta);
/// Declares `view` a differentiable view of `source` (or of the base that `source` views), taken by
/// `step`.
void track_view(const Tensor& view, const Tensor& source, IntrusivePtr<ViewStep> step);
/// The accumulator of a tensor, made if absent.
AccumulateGrad& accumulator_of(const Tensor& tensor);
/// After an in-place op on `tensor`, recorded as `node`: the tensor, and if it is a view its base,
/// get the new history. See Note [In-place on views].
void rebase_history(const Tensor& tensor, const NodePtr& node);
/// Throws where PyTorch forbids writing in place: leaves that need a gradient, and the like.
/// `recording`: an operand needs a gradient.
void check_inplace(const Tensor& tensor, std::string_view op, bool recording);
/// A shallow copy outside the graph, sharing the data.
Tensor shallow_detach(const Tensor& tensor);

/// The ops that the engine needs. It must not include ops/, which fills these in at start-up.
struct EngineOps {
  Tensor (*add)(const Tensor&, const Tensor&);
  void (*add_)(const Tensor&, const Tensor&);
  Tensor (*ones_like)(const Tensor&);
  Tensor (*zeros)(const Shape&, DType, Device);
  Tensor (*clone)(const Tensor&);  // contiguous
  void (*copy_)(const Tensor& to, const Tensor& from);
  Tensor (*sum_to)(const Tensor&, const Shape&);  // undoes broadcasting
  Tensor (*cast)(const Tensor&, DType, Device);
  bool (*has_nan)(const Tensor&);
  Tensor (*densify)(const Tensor&);                     // of a sparse tensor
  Tensor (*join_sparse)(const Tensor&, const Tensor&);  // the sum of two
};
const EngineOps& engine_ops();
void set_engine_ops(const EngineOps& ops);

}  // namespace tensora
