#pragma once

#include "tensora/autograd/node.h"
#include "tensora/core/queue.h"

namespace tensora {

/// A node whose backward runs on the queue of its forward; other nodes run on the one that is
/// current where backward was called. See Note [Queues of backward] in engine.cpp.
class QueuedNode : public Node {
 public:
  const Queue& queue() const { return queue_; }
  /// Backward will run on what is now the device's current queue.
  void take_queue(Device device) {
    if (!device.is_cpu()) queue_ = current_queue(device);
  }

 private:
  Queue queue_;
};

}  // namespace tensora
