"""Gradient clipping, parameters as a vector, parametrizations that people use."""
from ... import _C
from ..._C import Tensor
from . import rnn  # noqa: F401
from .weight_norm import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm  # noqa: F401


def _with_grads(parameters):
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p for p in parameters if p.grad is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that the norm of all of them together is at most max_norm."""
    chosen = _with_grads(parameters)
    if not chosen:
        return _C.tensor(0.0)
    return _C.clip_grad_norm_(chosen, float(max_norm), float(norm_type), error_if_nonfinite)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Keeps every element of the gradients within ±clip_value."""
    chosen = _with_grads(parameters)
    if chosen:
        _C.clip_grad_value_(chosen, float(clip_value))


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of all tensors."""
    return _C.get_total_norm(list(tensors), float(norm_type), error_if_nonfinite)


def parameters_to_vector(parameters):
    """All elements, one after the other."""
    return _C.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Writes the elements of a vector into the parameters."""
    at = 0
    for parameter in parameters:
        parameter.data = vec[at:at + parameter.numel()].view_as(parameter).data
        at += parameter.numel()


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients by max_norm / total_norm where that is below 1."""
    scale = (max_norm / (total_norm + 1e-6)).clamp_max(1.0)
    for parameter in _with_grads(parameters):
        parameter.grad.mul_(scale.to(parameter.grad.device))


def __getattr__(name):
    if name in ("parametrize", "parametrizations", "prune", "fusion", "stateless"):
        import importlib
        return importlib.import_module(f"tensora.nn.utils.{name}")
    if name.startswith("fuse_"):
        from . import fusion
        return getattr(fusion, name)
    raise AttributeError(f"module 'tensora.nn.utils' has no attribute '{name}'")
