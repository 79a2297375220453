"""Weights computed by hooks before every forward: weight norm and spectral norm in their older form.

The newer form, with other names in the state_dict, is in parametrizations.py.
"""
from __future__ import annotations

from typing import TypeVar

from ... import _C
from ..._modes import no_grad
from ..modules.module import Module
from ..parameter import Parameter, is_lazy

_M = TypeVar("_M", bound=Module)


def _weight_of(module, name, what):
    weight = getattr(module, name)
    if is_lazy(weight):
        raise ValueError(f"The module passed to `{what}` can't have uninitialized parameters. Run it on some input first.")
    return weight


def _other_dims(weight, dim):
    return [d for d in range(weight.dim()) if d != dim % weight.dim()] if dim is not None else list(range(weight.dim()))


class _WeightNorm:
    """weight = g · v / |v|, computed before every forward."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute(self, module):
        v, g = getattr(module, self.name + "_v"), getattr(module, self.name + "_g")
        return v * (g / v.norm(2, _other_dims(v, self.dim), True))

    def __call__(self, module, args):
        module.__dict__[self.name] = self.compute(module)


def weight_norm(module: _M, name: str = "weight", dim: int | None = 0) -> _M:
    """Splits the parameter `name` of `module` into its length, one for each index of `dim`, and its direction."""
    weight = _weight_of(module, name, "WeightNorm")
    hook = _WeightNorm(name, dim)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(weight.detach().norm(2, _other_dims(weight, dim), True)))
    module.register_parameter(name + "_v", Parameter(weight.detach().clone()))
    module.__dict__[name] = hook.compute(module)
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: _M, name: str = "weight") -> _M:
    """Makes the weight `name` of `module` a parameter again."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, _WeightNorm) and hook.name == name:
            weight = hook.compute(module).detach()
            module.__dict__.pop(name, None)
            del module._parameters[name + "_g"], module._parameters[name + "_v"], module._forward_pre_hooks[key]
            setattr(module, name, Parameter(weight))
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")


class _SpectralNorm:
    """weight over its largest singular value, which power iteration follows."""

    def __init__(self, name, iterations, eps, dim):
        self.name, self.iterations, self.eps, self.dim = name, iterations, eps, dim

    def matrix(self, weight):
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def compute(self, module, update):
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if update:
            with no_grad():
                for _ in range(self.iterations):
                    v.copy_(_C.normalize(matrix.t().mv(u), 2.0, 0, self.eps))
                    u.copy_(_C.normalize(matrix.mv(v), 2.0, 0, self.eps))
        return weight / _C.dot(u.clone(), matrix.mv(v.clone()))

    def __call__(self, module, args):
        module.__dict__[self.name] = self.compute(module, module.training)


def spectral_norm(module: _M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> _M:
    """Divides the weight `name` of `module`, as a matrix of `dim` and the rest, by its largest singular value, which
    `n_power_iterations` iterations at each call approximate; norms are at least `eps`."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    weight = _weight_of(module, name, "SpectralNorm")
    hook = _SpectralNorm(name, n_power_iterations, eps, dim)
    matrix = hook.matrix(weight.detach())
    del module._parameters[name]
    module.register_parameter(name + "_orig", Parameter(weight.detach()))
    module.register_buffer(name + "_u", _C.normalize(_C.randn(matrix.shape[0], dtype=weight.dtype), 2.0, 0, eps))
    module.register_buffer(name + "_v", _C.normalize(_C.randn(matrix.shape[1], dtype=weight.dtype), 2.0, 0, eps))
    module.__dict__[name] = hook.compute(module, False)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: _M, name: str = "weight") -> _M:
    """Makes the weight `name` of `module` a parameter again, divided by its largest singular value."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, _SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute(module, False)
            module.__dict__.pop(name, None)
            del module._parameters[name + "_orig"], module._buffers[name + "_u"], module._buffers[name + "_v"]
            del module._forward_pre_hooks[key]
            setattr(module, name, Parameter(weight))
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
