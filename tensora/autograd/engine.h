#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tensora/autograd/node.h"

namespace tensora {

struct BackwardOptions {
  bool retain_graph = false;  // keep saved tensors, so that backward can run again
  bool create_graph = false;  // record the backward itself, for higher-order gradients
  bool allow_unused = false;  // `grad` only: undefined instead of an error for unreached inputs
};

/// Accumulates the gradients of `outputs` into the leaves. Undefined entries of `gradients` stand
/// for 1 and are allowed for single-element outputs.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients = {},
              BackwardOptions options = {});

/// The same, but adds only to `grad()` of `inputs`, which need not be leaves.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              BackwardOptions options, std::span<const Tensor> inputs);

/// The gradients of `outputs` with respect to `inputs`; leaves' `.grad()` stay as they are.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients = {}, BackwardOptions options = {});
std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs,
                         BackwardOptions options = {});
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients = {}, BackwardOptions options = {});

/// What arrives at `targets`, before their hooks, when `gradients` start from `roots`; nothing
/// flows past a target. For nodes whose backward runs a graph of its own.
std::vector<Tensor> gradients_at(std::span<const Edge> targets, std::span<const Edge> roots,
                                 std::vector<Tensor> gradients, BackwardOptions options);

/// Called by a node during its backward: whether a gradient for `node` is of use. It is not where
/// `grad` was asked for those of other tensors only.
bool is_gradient_wanted(const Node& node);
/// For a node that runs another one, which the running backward does not know: all of its gradients
/// are of use.
Tensors backward_within(Node& node, Tensors grads);

/// Called during backward, by a hook or a node: `callback` runs once when that backward has ended,
/// in the order of the calls. Callbacks may queue further ones. Dropped if backward throws.
void queue_callback(std::function<void()> callback);

/// Anomaly mode: a backward that produces NaN throws, naming the forward op and where it was
/// called from.
bool is_anomaly_enabled();
/// For the whole process, except threads within a detect_anomaly scope.
void set_detect_anomaly(bool enabled);
/// Sets it for a scope of the current thread.
struct detect_anomaly : OverrideScope<&Modes::anomaly> {
  explicit detect_anomaly(bool enabled = true) : OverrideScope(enabled) {}
};

}  // namespace tensora
