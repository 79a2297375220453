"""Parameters: tensors that a module registers when they are assigned to it."""
from .. import _C
from .._C import Tensor


class _ParameterMeta(type(Tensor)):
    def __instancecheck__(cls, object):
        return type.__instancecheck__(cls, object) or (
            cls is Parameter and isinstance(object, Tensor) and object.__dict__.get("_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a module's parameter.

    >>> nn.Parameter(tensora.zeros(2)).requires_grad
    True
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _C.empty(0)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned to it."""
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data=None, *, persistent=True):
        buffer = Tensor._make_subclass(cls, _C.empty(0) if data is None else data, False)
        buffer.persistent = persistent
        return buffer


class UninitializedParameter(Parameter):
    """A parameter whose shape is known at the first call of a lazy module."""

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Parameter.__new__(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)
