#pragma once

// The queues (streams) on which backward runs.

#include "tensora/autograd/queued_node.h"

namespace tensora {

// Note [Queues of backward]
// A node's backward runs on the queue on which its forward ran, so that branches that overlapped in
// forward overlap in backward too. A gradient that goes from a node on one queue to a node on
// another is handed over: the second queue waits for what the first holds so far, and the
// gradient's memory rests, once freed, until the second has used it. The host never waits. Leaves
// take their gradients on the queue that was current where backward was called, so whatever the
// caller queues next sees them complete.

class BackwardQueues {
 public:
  /// Called where backward was called from: what is current now is the caller's.
  BackwardQueues() : active_(has_queues()) {}

  /// Where the node runs; none stands for the caller's.
  Queue of(const Node& node) const;
  void hand_over(const Tensor& grad, const Queue& from, const Queue& to) const;

 private:
  bool active_;  // some device with queues is in use
};

/// Makes a queue current for a scope; none changes nothing.
class QueueScope {
 public:
  explicit QueueScope(const Queue& queue);
  ~QueueScope();
  QueueScope(const QueueScope&) = delete;
  QueueScope& operator=(const QueueScope&) = delete;

 private:
  Queue previous_;
};

}  // namespace tensora
