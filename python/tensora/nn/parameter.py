"""Parameters: tensors that a module registers when they are assigned to it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _C
from .._C import Tensor
from .._modes import no_grad
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
    """What has no shape yet: `materialize` gives it one. Until then it can be moved and converted."""
    cls_to_become: type[Tensor]

    def materialize(self, shape: Any, device: Device = None, dtype: Dtype = None) -> None:
        """Makes it a tensor of this shape, whose elements are still to be filled."""
        with no_grad():
            self.data = _C.empty(shape, device=self.device if device is None else device,
                                 dtype=self.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer, as load_state_dict does that loads "
                           "one into a module that is initialized. Call forward first, which initializes it.")

    def share_memory_(self) -> Any:
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call forward first, which initializes "
                           "it.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is known at the first call of a lazy module; trained if `requires_grad`.

    >>> weight = nn.parameter.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', tensora.Size([2, 3]))
    """
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: Dtype = None) -> UninitializedParameter:
        return Parameter.__new__(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is known at the first call of a lazy module; saved if `persistent`."""
    cls_to_become = Buffer

    def __new__(cls, requires_grad: bool = False, device: Device = None, dtype: Dtype = None,
                persistent: bool = True) -> UninitializedBuffer:
        if requires_grad:
            raise NotImplementedError("UninitializedBuffer: requires_grad=True is not supported; use UninitializedParameter")
        return Buffer.__new__(cls, _C.empty(0, device=device, dtype=dtype), persistent=persistent)


def is_lazy(param: Any) -> bool:
    """Whether the tensor `param` has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
