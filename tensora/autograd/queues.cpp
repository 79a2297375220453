#include "tensora/autograd/queues.h"

namespace tensora {

Queue BackwardQueues::of(const Node& node) const {
  if (!active_) return {};
  const auto* const queued = dynamic_cast<const QueuedNode*>(&node);
  if (!queued || queued->queue().is_none()) return {};
  // Mostly there is only one queue.
  const Queue& queue = queued->queue();
  QueueControl& control = *queue_control(queue.device.type);
  if (queue == control.current(queue.device) || !control.is_usable(queue)) return {};
  return queue;
}

void BackwardQueues::hand_over(const Tensor& grad, const Queue& from, const Queue& to) const {
  if (!active_ || from == to || !grad.defined()) return;
  QueueControl* const control = queue_control(grad.device().type);
  if (!control) return;
  // A gradient on a third device was moved there by an op that synchronizes by itself.
  const Queue callers = control->current(grad.device());
  const Queue& first = from.device == grad.device() ? from : callers;
  const Queue& second = to.device == grad.device() ? to : callers;
  if (first == second) return;
  control->order(first, second);
  control->keep_for(grad.impl().storage->data(), second);
}

QueueScope::QueueScope(const Queue& queue) {
  if (queue.is_none()) return;
  QueueControl& control = *queue_control(queue.device.type);
  previous_ = control.current(queue.device);
  control.set_current(queue);
}

QueueScope::~QueueScope() {
  if (!previous_.is_none()) queue_control(previous_.device.type)->set_current(previous_);
}

}  // namespace tensora
