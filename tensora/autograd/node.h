#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tensora/base/mutex.h"
#include "tensora/base/small_vector.h"
#include "tensora/core/tensor.h"
#include "tensora/core/thread_state.h"

namespace tensora {

class Node;
using NodePtr = IntrusivePtr<Node>;
using Tensors = SmallVector<Tensor, 2>;

/// Where a gradient goes next: one output of the op behind `node`.
struct Edge {
  NodePtr node;
  uint32_t output = 0;
};

/// A hook on the gradient of one output; returns a replacement or an undefined tensor.
struct GradHook {
  uint32_t output;
  uint64_t id;
  std::function<Tensor(const Tensor&)> call;
  bool last = false;  // sees what the other hooks made of the gradient
};

/// One step of the backward graph: turns gradients of an op's outputs into gradients of its
/// inputs. Nodes point from outputs towards leaves, so the graph can hold no cycle.
class Node : public RefCounted {
 public:
  Node() : region_(thread_state.graph_region) {}
  virtual ~Node() = default;
  virtual std::string_view name() const = 0;
  /// `grads` has one entry per output (undefined: zero); the result one per edge.
  virtual Tensors backward(Tensors grads) = 0;
  /// Frees what the node saved; a second backward through it then fails.
  virtual void release() {}
  /// Whether gradients end here.
  virtual bool is_leaf() const { return false; }

  std::span<const Edge> edges() const { return edges_; }
  uint32_t output_count() const { return output_count_; }
  /// Longer than that of every node it leads to: descending depth is a topological order.
  uint32_t depth() const { return depth_; }
  /// The checkpoint in whose body the node was made; 0 outside of any.
  uint32_t region() const { return region_; }

  void add_edge(Edge edge) {
    if (edge.node && edge.node->depth_ >= depth_) depth_ = edge.node->depth_ + 1;
    edges_.push_back(std::move(edge));
  }
  void set_output_count(uint32_t count) { output_count_ = count; }

  /// Adds a hook on the gradient of one output; returns its id.
  uint64_t add_hook(uint32_t output, std::function<Tensor(const Tensor&)> call);
  /// The same for a hook that runs after all ordinary ones.
  uint64_t add_last_hook(uint32_t output, std::function<Tensor(const Tensor&)> call);
  void remove_hook(uint64_t id);
  /// Only where has_hooks().
  const std::vector<GradHook>& hooks() const { return *hooks_; }
  bool has_hooks() const { return hooks_ && !hooks_->empty(); }
  /// Whether the node must see its whole gradient at once, not part by part.
  bool waits_for_all() const { return has_hooks() || waits_for_all_; }

  /// Where the op was called, kept in anomaly mode.
  std::unique_ptr<std::string> created_at;

  /// See Note [Freeing long graphs].
  static void destroy(Node* node);

 protected:
  void wait_for_all() { waits_for_all_ = true; }

 private:
  SmallVector<Edge, 2> edges_;
  std::unique_ptr<std::vector<GradHook>> hooks_;
  uint32_t output_count_ = 1;
  uint32_t depth_ = 1;
  uint32_t region_;
  bool waits_for_all_ = false;
};

/// What a gradient must look like to flow into an input.
struct InputInfo {
  Shape sizes = {};
  DType dtype = DType::float32;
  Device device = {};

  static InputInfo of(const Tensor& tensor) {
    return {tensor.sizes(), tensor.dtype(), tensor.device()};
  }
  /// Sums a gradient of a broadcast shape and casts it; `op` is named when that is impossible.
  void fit(Tensor& grad, std::string_view op) const;
};

/// The end of a path: adds what arrives to a leaf's gradient. It owns the gradient, and the leaf
/// owns it, so that neither needs to point back.
class AccumulateGrad final : public Node, public Pooled {
 public:
  std::string_view name() const override { return "AccumulateGrad"; }
  bool is_leaf() const override { return true; }
  Tensors backward(Tensors grads) override;

  Tensor grad() const;
  void set_grad(Tensor grad);
  /// Called with the leaf's gradient after each backward that reached the leaf.
  void add_after_hook(std::function<void(const Tensor&)> hook);

 private:
  mutable Mutex mutex_;  // several graphs in several threads may share a leaf
  Tensor grad_;
  std::vector<std::function<void(const Tensor&)>> after_hooks_;
};

/// How a view lies in the tensor it was taken from.
struct ViewOrigin {
  Tensor base;            // never itself a tracked view
  uint32_t seen_version;  // the storage's version for which `grad_fn` is right
};

/// What autograd hangs on a tensor.
struct AutogradMeta final : AutogradData, Pooled {
  NodePtr grad_fn;
  uint32_t output = 0;                       // which output of grad_fn this tensor is
  IntrusivePtr<AccumulateGrad> accumulator;  // a leaf's, or where retain_grad keeps the gradient
  std::unique_ptr<ViewOrigin> view;
  bool retains_grad = false;
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
/// Declares `view` a differentiable view of `source` (or of the base that `source` views).
void track_view(const Tensor& view, const Tensor& source);
/// After an in-place op on `tensor`, recorded as `node`: the tensor, and if it is a view its base,
/// get the new history. See Note [In-place on views].
void rebase_history(const Tensor& tensor, const NodePtr& node);
/// Throws where PyTorch forbids writing in place: leaves that need a gradient, and the like.
void check_inplace(const Tensor& tensor, std::string_view op);
/// A shallow copy outside the graph, sharing the data.
Tensor shallow_detach(const Tensor& tensor);

/// What the engine needs of the ops, which stand above it; filled at start-up by ops/.
struct EngineOps {
  Tensor (*add)(const Tensor&, const Tensor&);
  void (*add_)(const Tensor&, const Tensor&);
  Tensor (*ones_like)(const Tensor&);
  Tensor (*zeros)(const Shape&, DType, Device);
  Tensor (*clone)(const Tensor&);  // contiguous
  void (*copy_)(const Tensor& to, const Tensor& from);
  Tensor (*as_strided)(const Tensor&, const Shape&, const Strides&, int64_t offset);
  Tensor (*sum_to)(const Tensor&, const Shape&);  // undoes broadcasting
  Tensor (*cast)(const Tensor&, DType, Device);
  bool (*has_nan)(const Tensor&);
};
const EngineOps& engine_ops();
void set_engine_ops(const EngineOps& ops);

}  // namespace tensora
