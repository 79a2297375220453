#pragma once

#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "tensora/base/small_vector.h"
#include "tensora/core/tensor.h"

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
};

/// One step of the backward graph: turns gradients of an op's outputs into gradients of its
/// inputs. Nodes point from outputs towards leaves, so the graph can hold no cycle.
class Node : public RefCounted {
 public:
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

  void add_edge(Edge edge) {
    if (edge.node && edge.node->depth_ >= depth_) depth_ = edge.node->depth_ + 1;
    edges_.push_back(std::move(edge));
  }
  void set_output_count(uint32_t count) { output_count_ = count; }

  std::vector<GradHook>& hooks() {
    if (!hooks_) hooks_ = std::make_unique<std::vector<GradHook>>();
    return *hooks_;
  }
  bool has_hooks() const { return hooks_ && !hooks_->empty(); }

  /// Where the op was called, kept in anomaly mode.
  std::unique_ptr<std::string> created_at;

  /// See Note [Freeing long graphs].
  static void destroy(Node* node);

 private:
  SmallVector<Edge, 2> edges_;
  std::unique_ptr<std::vector<GradHook>> hooks_;
  uint32_t output_count_ = 1;
  uint32_t depth_ = 1;
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
  void add_after_hook(std::function<void(const Tensor&)> hook);

 private:
  mutable std::mutex mutex_;  // several graphs in several threads may share a leaf
  Tensor grad_;
  std::vector<std::function<void(const Tensor&)>> after_hooks_;
};

/// How a view lies in the tensor it was taken from.
struct ViewOrigin {
  Tensor base;             // never itself a tracked view
  uint32_t seen_version;   // the storage's version for which `grad_fn` is right
};

/// What autograd hangs on a tensor.
struct AutogradMeta final : AutogradData, Pooled {
  NodePtr grad_fn;
  uint32_t output = 0;                         // which output of grad_fn this tensor is
  IntrusivePtr<AccumulateGrad> accumulator;    // a leaf's, or where retain_grad keeps the gradient
  std::unique_ptr<ViewOrigin> view;
  bool retains_grad = false;
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
  Tensor (*clone)(const Tensor&);                        // contiguous
  void (*copy_)(const Tensor& to, const Tensor& from);
  Tensor (*as_strided)(const Tensor&, const Shape&, const Strides&, int64_t offset);
  Tensor (*sum_to)(const Tensor&, const Shape&);         // undoes broadcasting
  Tensor (*cast)(const Tensor&, DType, Device);
  bool (*has_nan)(const Tensor&);
};
const EngineOps& engine_ops();
void set_engine_ops(const EngineOps& ops);

}  // namespace tensora
