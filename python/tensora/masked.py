"""Reductions and normalizations of the elements that a mask selects, as torch.masked.

`mask` is broadcast to the input's shape; where it is False, an element counts as the reduction's identity.
"""
import math

from . import _C
from ._dtypes import iinfo
from .nn import functional as F

_SMALL = (_C.uint8, _C.bool, _C.int8, _C.int16, _C.int32)  # they are summed as int64
_range = range


def _mask_of(input, mask):
    if mask.dim() > input.dim():
        raise IndexError("expected a mask that can be broadcast to the input, but it has more dims")
    return mask.to(_C.bool).expand(input.shape)


def _extreme(input, lowest):
    """The number that every other one replaces in a maximum (`lowest`) or a minimum."""
    if input.is_floating_point():
        return -math.inf if lowest else math.inf
    if input.is_complex() or input.dtype is _C.bool:
        raise NotImplementedError(f"masked: there is no smallest number of {input.dtype}")
    limits = iinfo(input.dtype)
    return limits.min if lowest else limits.max


def _filled(input, mask, identity):
    """The input with `identity` where the mask is False."""
    if mask is None:
        return input
    other = _C.full((), identity, dtype=input.dtype, device=input.device)
    return _C.where(_mask_of(input, mask), input, other)


def _dims(dim, ndim):
    if dim is None or dim == ():
        return tuple(_range(ndim))
    ndim, dims = max(ndim, 1), []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        if d % ndim in dims:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        dims.append(d % ndim)
    return tuple(sorted(dims))


def _summed_dtype(input, dtype):
    return dtype or (_C.int64 if input.dtype in _SMALL else input.dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum."""
    return _C.sum(_filled(input, mask, 0), _dims(dim, input.dim()), keepdim, _summed_dtype(input, dtype))


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product."""
    result = _filled(input, mask, 1).to(_summed_dtype(input, dtype))
    for d in reversed(_dims(dim, input.dim())):
        result = result.prod(d, keepdim)
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    """The sums up to each element."""
    return _C.cumsum(_filled(input, mask, 0).to(dtype or input.dtype), _dims(dim, input.dim())[0]).to(dtype or input.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """The products up to each element."""
    return _C.cumprod(_filled(input, mask, 1).to(dtype or input.dtype), _dims(dim, input.dim())[0]).to(dtype or input.dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element."""
    return _C.amax(_filled(input, mask, _extreme(input, True)), _dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element."""
    return _C.amin(_filled(input, mask, _extreme(input, False)), _dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the largest element, as a number of the input's dtype unless told otherwise."""
    return _C.argmax(_filled(input, mask, _extreme(input, True)), dim, keepdim).to(dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the smallest element, as a number of the input's dtype unless told otherwise."""
    return _C.argmin(_filled(input, mask, _extreme(input, False)), dim, keepdim).to(dtype or input.dtype)


def _count(input, dims, mask, keepdim):
    chosen = _C.ones_like(input, dtype=_C.bool) if mask is None else _mask_of(input, mask)
    return chosen.sum(dims, keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean."""
    wanted = dtype or input.dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError("mean(): Could not infer output dtype. Input dtype must be either a floating point or complex "
                         f"dtype. Got: {wanted}")
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _count(input, _dims(dim, input.dim()), mask, keepdim)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median; the lower one of two."""
    inexact = input.is_floating_point()
    numbers = input if inexact else input.to(_C.float32)
    result = _C.nanmedian(_filled(numbers, mask, math.nan), _dims(dim, input.dim())[0], keepdim)[0]
    if inexact:
        return result
    if bool(result.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(dtype or input.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of exponentials."""
    identity = -math.inf if input.is_complex() else _extreme(input, True)
    return _C.logsumexp(_filled(input, mask, identity), _dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other))"""
    return _C.logaddexp(_filled(input, input_mask, _extreme(input, True)),
                        _filled(other, other_mask, _extreme(other, True))).to(dtype or input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm."""
    filled = _filled(input, mask, math.inf if ord == -math.inf else 0)
    return _C.linalg.vector_norm(filled, ord, _dims(dim, input.dim()), keepdim, dtype or input.dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    wanted = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else _C.float32)
    computed = wanted if wanted.is_floating_point or wanted.is_complex else _C.float32
    dims = _dims(dim, input.dim())
    centre = sum(input, dims, keepdim=True, dtype=wanted, mask=mask) / _count(input, dims, mask, True)
    difference = input - centre
    total = sum(difference * difference.conj(), dims, keepdim=keepdim, dtype=computed, mask=mask)
    count = _count(input, dims, mask, keepdim).to(computed.to_real() if computed.is_complex else computed)
    return (total / (count - correction).clamp_min(0)).to(wanted)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def softmax(input, dim, *, dtype=None, mask=None):
    """exp(x) over its sum along `dim`."""
    return F.softmax(_filled(input, mask, _extreme(input, True)), _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of softmax."""
    filled = _filled(input, mask, _extreme(input, True))
    return F.log_softmax(filled, _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """softmax of the negative."""
    filled = _filled(input, mask, _extreme(input, False))
    return F.softmin(filled, _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """Divided by the norm along `dim`."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return _filled(input, mask, 0) / length.clamp_min(eps)
