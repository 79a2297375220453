#pragma once

// The queues (streams) on which backward runs.

#include "tensora/autograd/queued_node.h"

namespace tensora {

// Note [Queues of backward]
// A node's backward runs on the queue on which its forward ran, so that branches that overlapped in
// forward overlap in backward too. Where a gradient passes from a node on one queue to a node on
// another, the second queue waits for the work that is on the first, and the gradient's memory,
// once freed, is not reused until the second queue has finished with it. The host never waits.
// Leaves accumulate on the queue that was current when backward was called, so whatever the caller
// queues next sees complete gradients.

class BackwardQueues {
 public:
  /// To be constructed when backward is called: the queues that are current now are the caller's.
  BackwardQueues() : active_(has_queues()) {}

  /// The queue on which the node runs; none means the caller's.
  Queue of(const Node& node) const { return active_ ? queue_of(node) : Queue(); }
  void hand_over(const Tensor& grad, const Queue& from, const Queue& to) const {
    if (active_ && !(from == to)) pass(grad, from, to);
  }

 private:
  static Queue queue_of(const Node& node);
  static void pass(const Tensor& grad, const Queue& from, const Queue& to);

  bool active_;  // some device with queues is in use
};

/// Makes a queue current for a scope; none changes nothing.
class QueueScope {
 public:
  explicit QueueScope(const Queue& queue) {
    if (!queue.is_none()) [[unlikely]]
      enter(queue);
  }
  ~QueueScope() {
    if (!previous_.is_none()) [[unlikely]]
      leave();
  }
  QueueScope(const QueueScope&) = delete;
  QueueScope& operator=(const QueueScope&) = delete;

 private:
  void enter(const Queue& queue);
  void leave() const;

  Queue previous_;
};

}  // namespace tensora
