#include "tensora/autograd/queues.h"

#include "tensora/autograd/sparse_gradient.h"
#include "tensora/core/deferred.h"

namespace tensora {

Queue BackwardQueues::queue_of(const Node& node) {
  const auto* const queued = dynamic_cast<const QueuedNode*>(&node);
  if (!queued || queued->queue().is_none()) return {};
  // Mostly there is only one queue.
  const Queue& queue = queued->queue();
  QueueControl& control = *queue_control(queue.device.type);
  if (queue == control.current(queue.device) || !control.is_usable(queue)) return {};
  return queue;
}

void BackwardQueues::pass(const Tensor& grad, const Queue& from, const Queue& to) {
  if (!grad.defined()) return;
  QueueControl* const control = queue_control(grad.device().type);
  if (!control) return;
  // A gradient on a third device was moved there by an op that synchronizes by itself.
  const Queue callers = control->current(grad.device());
  const Queue& first = from.device == grad.device() ? from : callers;
  const Queue& second = to.device == grad.device() ? to : callers;
  if (first == second) return;
  flush_deferred();
  control->order(first, second);
  const SparseParts* const parts = sparse_parts(grad);
  control->keep_for((parts ? parts->values : grad).impl().storage->data(), second);
  if (parts) control->keep_for(parts->indices.impl().storage->data(), second);
}

void QueueScope::enter(const Queue& queue) {
  QueueControl& control = *queue_control(queue.device.type);
  previous_ = control.current(queue.device);
  control.set_current(queue);
}

void QueueScope::leave() const { queue_control(previous_.device.type)->set_current(previous_); }

}  // namespace tensora
