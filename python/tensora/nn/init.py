"""Starting values of parameters; the C++ functions. They fill `tensor` in place, with random numbers of `generator`."""
from __future__ import annotations

import functools
import math
import warnings
from typing import Any, Callable

from .. import _C
from .._C import Generator, Tensor
from .._modes import no_grad


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which `nonlinearity` changes the scale of its input; `param` is leaky_relu's slope."""
    if nonlinearity == "leaky_relu" and param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
        raise ValueError(f"negative_slope {param} not a valid number")
    return _C.init.calculate_gain(nonlinearity, param)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    return _C.init._calculate_fan_in_and_fan_out(tensor)


def _fill(function: Callable[..., Tensor], generator: Generator | None, *arguments: Any) -> Tensor:
    """Calls a function of the default generator with the state of another one."""
    if generator is None:
        return function(*arguments)
    default = _C.default_generator
    before = default.get_state()
    default.set_state(generator.get_state())
    try:
        return function(*arguments)
    finally:
        generator.set_state(default.get_state())
        default.set_state(before)


def _is_empty(tensor: Tensor) -> bool:
    """Whether there is nothing to fill, in which case the user is told."""
    if tensor.numel() == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Sets all elements of `tensor` to `val`."""
    return _C.init.constant_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Sets all elements of `tensor` to 1."""
    return _C.init.ones_(tensor)


def zeros_(tensor: Tensor) -> Tensor:
    """Sets all elements of `tensor` to 0."""
    return _C.init.zeros_(tensor)


def eye_(tensor: Tensor) -> Tensor:
    """Makes the matrix `tensor` the identity."""
    return _C.init.eye_(tensor)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes `tensor` the weight of a convolution of `groups` groups that returns its input, as far as it has channels."""
    return _C.init.dirac_(tensor, groups)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with uniform numbers from `a` to `b`, of `generator`."""
    return _fill(_C.init.uniform_, generator, tensor, a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with normal numbers of mean `mean` and standard deviation `std`, of `generator`."""
    return _fill(_C.init.normal_, generator, tensor, mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with normal numbers of mean `mean` and standard deviation `std` between `a` and `b`, of
    `generator`."""
    numbers_of_pytorch = getattr(_C, "_has_pytorch_numbers", False) and tensor.is_cpu
    if not numbers_of_pytorch or std <= 0 or a >= b:
        return _fill(_C.init.trunc_normal_, generator, tensor, mean, std, a, b)
    return _by_rejection(tensor, mean, std, a, b, {} if generator is None else {"generator": generator})


def _by_rejection(tensor, mean, std, a, b, extras):
    """The way in which PyTorch draws: normal numbers, or uniform ones if most normal numbers would be rejected, until all
    are accepted."""
    with no_grad():
        below = [(1 + math.erf((x - mean) / std / math.sqrt(2))) / 2 for x in (a, b)]
        result = tensor.detach().clone()
        pending = _C.ones_like(result, dtype=_C.bool)
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        low, high = (tensor.new_tensor(x).item() for x in (a, b))
        while pending.any():
            if below[1] - below[0] > 0.3:
                drawn = _C.empty_like(result).normal_(mean, std, **extras)
                result = _C.where(pending, drawn, result)
                pending = (result < low) | (result > high)
            else:
                drawn = _C.empty_like(result).uniform_(a, b, **extras)
                result = _C.where(pending, drawn, result)
                log_density = ((drawn - mean) / std) ** 2 * -0.5 - peak
                pending = pending & (_C.empty_like(result).uniform_(**extras).log() > log_density)
        return tensor.copy_(result)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with uniform numbers of variance 2 `gain`² / (inputs + outputs), of `generator` (Glorot, 2010)."""
    return _fill(_C.init.xavier_uniform_, generator, tensor, gain)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with normal numbers of variance 2 `gain`² / (inputs + outputs), of `generator` (Glorot, 2010)."""
    return _fill(_C.init.xavier_normal_, generator, tensor, gain)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with uniform numbers of variance gain² / fan, of `generator` (He, 2015): the gain is that of
    `nonlinearity`, of which `a` is the slope, and the fan the number of inputs or outputs, `mode` "fan_in" or "fan_out"."""
    if _is_empty(tensor):
        return tensor
    return _fill(_C.init.kaiming_uniform_, generator, tensor, a, mode, nonlinearity)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:
    """Fills `tensor` with normal numbers; `a`, `mode`, `nonlinearity` and `generator` as in kaiming_uniform_."""
    if _is_empty(tensor):
        return tensor
    return _fill(_C.init.kaiming_normal_, generator, tensor, a, mode, nonlinearity)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Makes the rows or columns of `tensor`, as a matrix of its first dim and the rest, orthogonal vectors of length
    `gain`, random ones of `generator` (Saxe, 2013)."""
    return _fill(_C.init.orthogonal_, generator, tensor, gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fills the matrix `tensor` with normal numbers of deviation `std` and zeros, the share `sparsity` of each column, of
    `generator` (Martens, 2010)."""
    return _fill(_C.init.sparse_, generator, tensor, sparsity, std)


def _older(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The older name of a function: it warns."""
    name = function.__name__[:-1]

    @functools.wraps(function)
    def warn(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)
    warn.__name__ = warn.__qualname__ = name
    return warn


uniform, normal, constant, eye, dirac = _older(uniform_), _older(normal_), _older(constant_), _older(eye_), _older(dirac_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)


def _calculate_correct_fan(tensor, mode):
    fans = _C.init._calculate_fan_in_and_fan_out(tensor)
    return fans[0] if mode == "fan_in" else fans[1]
