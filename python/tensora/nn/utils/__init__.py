"""Gradient clipping, parameters as a vector, parametrizations that people use."""
from __future__ import annotations

from typing import Any, Iterable

from ... import _C
from ..._C import Tensor
from . import rnn as rnn
from .weight_norm import (
    remove_spectral_norm as remove_spectral_norm, remove_weight_norm as remove_weight_norm, spectral_norm as spectral_norm,
    weight_norm as weight_norm)


def _with_grads(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p for p in parameters if p.grad is not None]


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scales the gradients of `parameters` so that the `norm_type`-norm of all of them together is at most `max_norm`, and
    returns the norm before; `error_if_nonfinite` raises where that is not finite, `foreach` changes nothing."""
    chosen = _with_grads(parameters)
    if not chosen:
        return _C.tensor(0.0)
    return _C.clip_grad_norm_(chosen, float(max_norm), float(norm_type), error_if_nonfinite)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Keeps every element of the gradients of `parameters` within ±`clip_value`; `foreach` changes nothing."""
    chosen = _with_grads(parameters)
    if chosen:
        _C.clip_grad_value_(chosen, float(clip_value))


def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """The `norm_type`-norm of all elements of `tensors`; `error_if_nonfinite` raises where it is not finite, `foreach`
    changes nothing."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _C.get_total_norm(tensors, float(norm_type), error_if_nonfinite)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of `parameters`, one after the other."""
    return _C.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the elements of the vector `vec` into the `parameters`."""
    at = 0
    for parameter in parameters:
        parameter.data = vec[at:at + parameter.numel()].view_as(parameter).data
        at += parameter.numel()


def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor,
                          foreach: bool | None = None) -> None:
    """Scales the gradients of `parameters` by `max_norm` / `total_norm` where that is below 1; `foreach` changes nothing."""
    scale = (max_norm / (total_norm + 1e-6)).clamp_max(1.0)
    for parameter in _with_grads(parameters):
        parameter.grad.mul_(scale.to(parameter.grad.device))


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """A module of the class `module_cls`, made with `args` and `kwargs`, whose parameters have memory and no values yet."""
    from ..modules.module import Module
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


TYPE_CHECKING = False  # type checkers take it for True
if TYPE_CHECKING:
    from . import (fusion as fusion, parametrizations as parametrizations, parametrize as parametrize, prune as prune,
                   stateless as stateless)
    from .fusion import *  # noqa: F403
else:
    def __getattr__(name):
        if name in ("parametrize", "parametrizations", "prune", "fusion", "stateless"):
            import importlib
            return importlib.import_module(f"tensora.nn.utils.{name}")
        if name.startswith("fuse_"):
            from . import fusion
            return getattr(fusion, name)
        raise AttributeError(f"module 'tensora.nn.utils' has no attribute '{name}'")
