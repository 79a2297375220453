"""Gradients: backward, grad, functions of one's own, and checks of gradients."""
import warnings

from .. import _C
from .._C import Tensor
from .._modes import (
    no_grad as no_grad, enable_grad as enable_grad, set_grad_enabled as set_grad_enabled,
    inference_mode as inference_mode)
from . import graph  # noqa: F401
from .function import Function as Function, once_differentiable as once_differentiable
from .gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck

TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from .. import profiler as profiler
    from . import forward_ad as forward_ad, functional as functional
else:
    def __getattr__(name):
        if name == "profiler":
            from .. import profiler
            return profiler
        if name == "grad_mode":
            from .. import _modes
            return _modes
        # Few programs need the former; the dual tensors of the latter are a subclass of Tensor, for which every call looks once
        # it is defined.
        if name in ("functional", "forward_ad"):
            import importlib
            return importlib.import_module(f"tensora.autograd.{name}")
        raise AttributeError(f"module 'tensora.autograd' has no attribute '{name}'")


class _VariableMeta(type):
    def __instancecheck__(cls, object):
        return isinstance(object, Tensor)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old way to say that a tensor needs a gradient: a tensor over the same memory, outside of any graph.

    >>> tensora.autograd.Variable(tensora.ones(2), requires_grad=True).requires_grad
    True
    """

    class _execution_engine:
        """What distributed training asks of PyTorch's engine."""

        @staticmethod
        def queue_callback(callback):
            """Calls callback() when the running backward ends."""
            _C._queue_callback(callback)

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile is not None:
            import warnings
            warnings.warn("volatile was removed and now has no effect; use no_grad()", stacklevel=2)
        return (_C.empty(0) if data is None else data.detach()).requires_grad_(requires_grad)


def _listed(value):
    return [value] if isinstance(value, (Tensor, graph.GradientEdge)) else list(value)


def _at_edges(inputs):
    """Tensors, where some are given by their edges in the graph."""
    return [_C._tensor_at(*x) if isinstance(x, graph.GradientEdge) else x for x in inputs]


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulates the gradients of `tensors` into the leaves, or into `inputs` alone."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                               "Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    tensors = _listed(tensors)
    given = [None] * len(tensors) if grad_tensors is None else _listed(grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        return _C._backward(tensors, given, keep, create_graph)
    inputs = _listed(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    for leaf, gradient in zip(inputs, _C._grad(tensors, inputs, given, keep, create_graph, True)):
        if gradient is not None:
            leaf.grad = gradient if leaf._grad is None else leaf._grad + gradient


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs`; .grad stays as it is.

    >>> x = tensora.tensor(2., requires_grad=True)
    >>> tensora.autograd.grad(x ** 3, x)
    (tensor(12.),)
    """
    if not only_inputs:
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True).", FutureWarning,
                      stacklevel=2)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    if is_grads_batched:
        return _batched_grads(outputs, inputs, grad_outputs, create_graph, bool(allow_unused), materialize_grads)
    outputs, inputs = _listed(outputs), _listed(inputs)
    if materialize_grads and any(isinstance(x, graph.GradientEdge) for x in inputs):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    inputs = _at_edges(inputs)
    given = [None] * len(outputs) if grad_outputs is None else _listed(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = _C._grad(outputs, inputs, given, keep, create_graph, bool(allow_unused) or materialize_grads)
    if materialize_grads:
        found = tuple(_C.zeros_like(x).requires_grad_(create_graph) if g is None else g for g, x in zip(found, inputs))
    return found


class set_multithreading_enabled:
    """Accepted, as a call and as a scope: backward runs on the thread that calls it."""

    def __init__(self, mode):
        """Nothing depends on the mode."""

    def __enter__(self):
        """Nothing depends on the scope."""

    def __exit__(self, *error):
        """Nothing depends on the scope."""


def _batched_grads(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads):
    """The gradients for each entry along dim 0 of `grad_outputs`, stacked."""
    given = [] if grad_outputs is None else _listed(grad_outputs)
    sizes = {g.shape[0] for g in given if isinstance(g, Tensor) and g.dim() > 0}
    if len(sizes) != 1 or any(g is None for g in given):
        raise ValueError(f"grad: is_grads_batched needs grad_outputs with one size along dim 0, got {sorted(sizes)}")
    rows = [grad(outputs, inputs, [g[i] for g in given], True, create_graph, allow_unused=allow_unused,
                 materialize_grads=materialize_grads) for i in range(sizes.pop())]
    return tuple(None if column[0] is None else _C.stack(list(column)) for column in zip(*rows))


class set_detect_anomaly:
    """A backward that produces NaN raises, naming the forward op; with check_nan=False there is nothing to check."""

    def __init__(self, mode=True, check_nan=True):
        self._before = _C.is_anomaly_enabled()
        _C._set_detect_anomaly(bool(mode and check_nan))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _C._set_detect_anomaly(self._before)


class detect_anomaly(set_detect_anomaly):
    def __init__(self, check_nan=True):
        super().__init__(True, check_nan)
