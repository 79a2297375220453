#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tensora/base/small_vector.h"
#include "tensora/core/tensor.h"
#include "tensora/core/thread_state.h"

namespace tensora {

class Node;
class CallStack;
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
/// inputs. Edges lead from outputs towards leaves, so the graph has no cycles.
class Node : public RefCounted {
 public:
  Node() : rank_(++thread_state.last_rank), region_(thread_state.graph_region) {}
  virtual ~Node() {
    if (hooks_ || created_at_) [[unlikely]]
      free_extras();
  }
  virtual std::string_view name() const = 0;
  /// `grads` has one entry per output (undefined: zero); the result one per edge.
  virtual Tensors backward(Tensors grads) = 0;
  /// Frees what the node saved; a second backward through it then fails.
  virtual void release() {}
  /// Whether this node is a leaf's: gradients end here.
  virtual bool is_leaf() const { return false; }

  std::span<const Edge> edges() const { return edges_; }
  uint32_t output_count() const { return output_count_; }
  /// Greater than that of every node it has an edge to. See Note [Order of backward] in engine.cpp.
  uint64_t rank() const { return rank_; }
  /// The checkpoint in whose body the node was made; 0 outside of any.
  uint32_t region() const { return region_; }

  /// All edges must be added before the node becomes a tensor's history.
  void add_edge(Edge edge) {
    if (edge.node && edge.node->rank_ >= rank_)  // it was made by another thread
      thread_state.last_rank = rank_ = edge.node->rank_ + 1;
    edges_.push_back(std::move(edge));
  }
  void set_output_count(uint32_t count) { output_count_ = count; }

  /// Adds a hook on the gradient of one output; returns its id.
  uint64_t add_hook(uint32_t output, std::function<Tensor(const Tensor&)> call);
  /// The same for a hook that runs after all ordinary hooks.
  uint64_t add_last_hook(uint32_t output, std::function<Tensor(const Tensor&)> call);
  void remove_hook(uint64_t id);
  /// Only where has_hooks().
  const std::vector<GradHook>& hooks() const { return *hooks_; }
  bool has_hooks() const { return hooks_ && !hooks_->empty(); }
  /// Calls the hooks on `grads`, one entry per output, and replaces entries by what they return.
  void run_hooks(Tensors& grads) const;

  /// In anomaly mode, remembers the call stack of the forward op.
  void note_caller();
  const CallStack* created_at() const { return created_at_; }

  /// See Note [Freeing long graphs].
  static void destroy(Node* node);

 private:
  uint64_t insert_hook(GradHook hook);
  void free_extras();

  SmallVector<Edge, 2> edges_;
  std::vector<GradHook>* hooks_ = nullptr;  // owned, as created_at_ is; most nodes have neither
  CallStack* created_at_ = nullptr;
  uint64_t rank_;
  uint32_t output_count_ = 1;
  uint32_t region_;
};

/// The properties that the gradient of an input must have.
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

}  // namespace tensora
