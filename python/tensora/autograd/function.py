"""Functions with a backward of their own."""
import functools
import warnings

from .. import _C
from .._C import Tensor
from .._modes import no_grad


handlers = {}  # what applies a Function to tensors of a type, dual ones and elements of vmap: handlers[type](cls, args)


class FunctionCtx:
    """What forward and backward share."""
    materialize_grads = True
    saved_tensors = _to_save = _dirty = _non_differentiable = ()
    needs_input_grad = ()
    _is_tensor = None  # which outputs of forward are tensors; None: all

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward; ctx.saved_tensors there."""
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors for jvp; ctx.saved_tensors there."""
        self._for_jvp = tensors

    @property
    def saved_variables(self):
        """The old name of saved_tensors."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def mark_dirty(self, *inputs):
        """Forward changed these inputs in place, and returns them."""
        self._dirty = inputs

    def mark_non_differentiable(self, *outputs):
        """These outputs take no part in the graph."""
        self._non_differentiable = outputs

    def set_materialize_grads(self, value):
        """Whether backward gets zeros for outputs that nothing depended on, instead of None."""
        self.materialize_grads = value

    def _node_name(self):
        return f"{self._kind.__name__}Backward"

    def _run_forward(self, args):
        kind = self._kind
        if kind.setup_context is not Function.setup_context:
            result = kind.forward(*args)
            kind.setup_context(self, args, result)
        else:
            result = kind.forward(self, *args)
        self._count = len(args)
        if isinstance(result, Tensor):
            return result
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        is_tensor = [isinstance(output, Tensor) for output in outputs]
        if all(is_tensor):
            return result
        self._is_tensor, self._outputs = is_tensor, result
        return tuple(output for output, one in zip(outputs, is_tensor) if one)

    def _completed(self, tensors):
        """What forward returned, with these tensors."""
        result = self.__dict__.pop("_outputs")  # which would be a cycle through the graph
        if not isinstance(result, (tuple, list)):
            return result
        tensors = iter(tensors)
        return tuple(next(tensors) if one else output for output, one in zip(result, self._is_tensor))

    def _run_backward(self, gradients):
        kind = self._kind
        if self._is_tensor is not None:
            given = iter(gradients)
            gradients = [next(given) if one else None for one in self._is_tensor]
        run = kind.backward if kind.backward is not Function.backward else kind.vjp
        result = run(self, *gradients)
        result = list(result) if isinstance(result, (tuple, list)) else [result]
        while len(result) > self._count and result[-1] is None:
            result.pop()
        if len(result) != self._count:
            raise RuntimeError(f"function {kind.__name__}Backward returned an incorrect number of gradients "
                               f"(expected {self._count}, got {len(result)})")
        return result


def _with_defaults(function, args, kwargs):
    """The positional arguments of a call, with those of `kwargs` and the defaults."""
    import inspect
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class Function:
    """A differentiable function with a backward of its own. Outputs of forward that are no tensors are given to the
    caller as they are, and have None among the gradients.

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

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode "
                                  "AD.")

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated: make forward and backward "
                           f"static methods that take ctx first, and call {type(self).__name__}.apply")

    generate_vmap_rule = False  # rules are made for all Functions

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("vmap is not implemented: apply runs once for each element")

    @classmethod
    def apply(cls, *args, **kwargs):
        if cls.setup_context is not Function.setup_context and (kwargs or getattr(cls.forward, "__defaults__", None)):
            args = _with_defaults(cls.forward, args, kwargs)
        elif kwargs:
            raise TypeError(f"{cls.__name__}.apply takes no keyword arguments")
        if handlers:
            for value in args:
                if type(value) in handlers:
                    return handlers[type(value)](cls, args)
        ctx, outputs = cls._applied(args)
        ctx.__dict__.pop("_for_jvp", None)  # which would be a cycle, if they are outputs
        return outputs

    @classmethod
    def _applied(cls, args):
        ctx = FunctionCtx()
        ctx._kind = cls
        outputs = _C._function_apply(ctx, args)
        return ctx, outputs if ctx._is_tensor is None else ctx._completed(outputs)


class InplaceFunction(Function):
    """A Function under the name that PyTorch has for those that may write into their inputs, if `inplace`."""

    def __init__(self, inplace=False):
        self.inplace = inplace


class _Once(Function):
    """The identity of gradients that have no gradient themselves."""

    @staticmethod
    def forward(ctx, *gradients):
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(function):
    """A backward that cannot itself be differentiated: a second derivative through it raises."""
    @functools.wraps(function)
    def run(ctx, *args):
        with no_grad():
            outputs = function(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        listed = outputs if isinstance(outputs, tuple) else (outputs,)
        if not any(isinstance(gradient, Tensor) and gradient.requires_grad for gradient in args):
            return outputs
        made = iter(_Once.apply(*(out.detach().requires_grad_() for out in listed if out is not None)))
        return tuple(None if out is None else next(made) for out in listed)
    return run
