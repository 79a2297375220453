"""Helpers for distributions of a program's own."""
from .. import _C
from .._dtypes import finfo
from .._C import Tensor
from .._modes import enable_grad
from .distribution import _broadcast
from .transforms import sum_rightmost as _sum_rightmost  # noqa: F401
from .transforms import vec_to_tril_matrix as vec_to_tril_matrix, tril_matrix_to_vec as tril_matrix_to_vec

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape."""
    if not all(isinstance(v, (Tensor, int, float)) or hasattr(type(v), "__torch_function__") for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")
    return _broadcast(*values)


def _standard_normal(shape, dtype, device):
    return _C.randn(list(shape), dtype=dtype, device=device)


def logits_to_probs(logits, is_binary=False):
    """Probabilities: the sigmoid of logits, or their softmax over the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs):
    """Probabilities away from 0 and 1 by the smallest step of their dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """log(p / (1 - p)) if there are two classes, log(p) otherwise."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is computed once: the value takes its place."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__
        self.name = wrapped.__name__

    def __get__(self, instance, owner=None):
        if instance is None:
            return property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.name] = value
        return value
