"""Functions with a backward of their own."""
import functools

from .. import _C
from .._C import Tensor
from .._modes import no_grad


class FunctionCtx:
    """What forward and backward share."""
    materialize_grads = True
    saved_tensors = _to_save = _dirty = _non_differentiable = ()
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward; ctx.saved_tensors there."""
        self._to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *inputs):
        """Forward changed these inputs in place, and returns them."""
        self._dirty = inputs

    def mark_non_differentiable(self, *outputs):
        """These outputs take no part in the graph."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value):
        """Whether backward gets zeros for outputs that nothing depended on, instead of None."""
        self.materialize_grads = value

    def _run_forward(self, args):
        kind = self._kind
        if kind.setup_context is not Function.setup_context:
            result = kind.forward(*args)
            kind.setup_context(self, args, result)
        else:
            result = kind.forward(self, *args)
        if not isinstance(result, (Tensor, tuple, list)):
            raise TypeError(f"{kind.__name__}.forward must return tensors, got {type(result).__name__}")
        self._count = len(args)
        return result

    def _run_backward(self, gradients):
        kind = self._kind
        run = kind.backward if kind.backward is not Function.backward else kind.vjp
        result = run(self, *gradients)
        result = list(result) if isinstance(result, (tuple, list)) else [result]
        while len(result) > self._count and result[-1] is None:
            result.pop()
        if len(result) != self._count:
            raise RuntimeError(f"function {kind.__name__}Backward returned an incorrect number of gradients "
                               f"(expected {self._count}, got {len(result)})")
        return result


class Function:
    """A differentiable function with a backward of its own.

    >>> class Double(tensora.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = tensora.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom "
                                  "autograd.Function to use it with backward mode AD.")

    vjp = backward

    @classmethod
    def apply(cls, *args, **kwargs):
        if kwargs:
            raise TypeError(f"{cls.__name__}.apply takes no keyword arguments")
        ctx = FunctionCtx()
        ctx._kind = cls
        return _C._function_apply(ctx, args)


def once_differentiable(function):
    """A backward that cannot itself be differentiated."""
    @functools.wraps(function)
    def run(ctx, *args):
        with no_grad():
            return function(ctx, *args)
    return run
