"""Parameters: tensors that a module registers when they are assigned to it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _C
from .._C import Tensor
from .common_types import Device, Dtype

if TYPE_CHECKING:
    _TensorType = type
else:
    _TensorType = type(Tensor)


class _ParameterMeta(_TensorType):
    def __instancecheck__(cls, object: Any) -> bool:
        return type.__instancecheck__(cls, object) or (
            cls is Parameter and isinstance(object, Tensor) and object.__dict__.get("_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a module's parameter: the numbers of `data`, trained if `requires_grad`.

    >>> nn.Parameter(tensora.zeros(2)).requires_grad
    True
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _C.empty(0)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """The tensor `data` as one that a module registers as a buffer when it is assigned to it; `persistent` ones are part of
    the state_dict."""
    persistent: bool
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer = Tensor._make_subclass(cls, _C.empty(0) if data is None else data, False)
        buffer.persistent = persistent
        return buffer


class UninitializedTensorMixin:
    """What has no shape yet; see UninitializedParameter."""


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is known at the first call of a lazy module; trained if `requires_grad`."""

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: Dtype = None) -> UninitializedParameter:
        return Parameter.__new__(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is known at the first call of a lazy module; saved if `persistent`."""

    def __new__(cls, requires_grad: bool = False, device: Device = None, dtype: Dtype = None,
                persistent: bool = True) -> UninitializedBuffer:
        if requires_grad:
            raise NotImplementedError("UninitializedBuffer: requires_grad=True is not supported; use UninitializedParameter")
        return Buffer.__new__(cls, _C.empty(0, device=device, dtype=dtype), persistent=persistent)


def is_lazy(param: Any) -> bool:
    """Whether the tensor `param` has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
