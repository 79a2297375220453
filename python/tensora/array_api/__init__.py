"""The functions of the Python array API standard (2024.12), over the same tensors.

`x.__array_namespace__()` gives this module. Where the standard and PyTorch agree, the functions are tensora's
own; here are those whose names, arguments or results differ.

>>> xp = tensora.ones(2).__array_namespace__()
>>> xp.concat([xp.zeros(1), xp.ones(2)])
tensor([0., 1., 1.])
"""
from collections import namedtuple
from math import e, inf, nan, pi  # noqa: F401

import tensora as _t
from .. import _C
from .._C import Tensor, bool, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8  # noqa: F401
from .._C import (abs, acos, acosh, asin, asinh, atan, atanh, ceil, conj, cos, cosh, exp, expm1, floor,  # noqa: F401
                  isfinite, isinf, isnan, log, log1p, log2, log10, logical_not, negative, positive, reciprocal, round,
                  signbit, sin, sinh, square, sqrt, tan, tanh, trunc, matmul, moveaxis, tile)
from .._dtypes import finfo as _finfo, iinfo as _iinfo, result_type as _result_type
from .._functions import asarray as _asarray, where  # noqa: F401
from .elementwise import *  # noqa: F401,F403 - of two arrays

newaxis = None
__array_api_version__ = "2024.12"

bitwise_invert = _C.bitwise_not
imag, real = _C.imag, _C.real

_SIGNED = (int8, int16, int32, int64)
_REAL, _COMPLEX = (float32, float64), (complex64, complex128)
_KINDS = {"bool": (bool,), "signed integer": _SIGNED, "unsigned integer": (uint8,), "integral": _SIGNED + (uint8,),
          "real floating": _REAL, "complex floating": _COMPLEX, "numeric": _SIGNED + (uint8,) + _REAL + _COMPLEX}


# ---- creation -------------------------------------------------------------------------------------

def empty(shape, *, dtype=None, device=None):
    """A tensor whose elements are not set."""
    return _C.empty(_shape(shape), dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """A tensor of ones."""
    return _C.ones(_shape(shape), dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """A tensor of zeros."""
    return _C.zeros(_shape(shape), dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """The same shape, not set."""
    return _C.empty_like(x, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """The same shape, of ones."""
    return _C.ones_like(x, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """The same shape, of zeros."""
    return _C.zeros_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """The same shape, of one value."""
    return _C.full_like(x, fill_value, dtype=dtype, device=device)


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor over another library's memory; a copy if `copy` says so."""
    result = _C.from_dlpack(x)
    result = result if device is None else result.to(device)
    return result.clone() if copy else result


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid."""
    return list(_t.meshgrid(*arrays, indexing=indexing))


def tril(x, /, *, k=0):
    """The part below and on the k-th diagonal."""
    return _C.tril(x, k)


def triu(x, /, *, k=0):
    """The part above and on the k-th diagonal."""
    return _C.triu(x, k)


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def full(shape, fill_value, *, dtype=None, device=None):
    """A tensor of one value."""
    return _C.full(_shape(shape), fill_value, dtype=dtype, device=device)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """start, start + step, … below stop."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step < 0:  # nothing lies between
        dtype = dtype or (int64 if _integers(start, stop, step) else None)
        return _C.empty((0,), dtype=dtype, device=device)
    return _C.arange(start, stop, step, dtype=dtype, device=device)


def _integers(*numbers):
    """Whether all numbers are integers."""
    return not [n for n in numbers if not isinstance(n, int)]


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` numbers at equal distances."""
    if not endpoint:
        return _C.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]
    return _C.linspace(start, stop, num, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the k-th diagonal, zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    result = _C.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return result


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """A tensor of the data; `copy=False` raises where a copy would be needed."""
    if copy is False and not hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
        raise ValueError("asarray: these data cannot be shared; copy=False forbids a copy")
    result = _asarray(obj, dtype=dtype, device=device, copy=copy)
    return result.clone() if copy and result is obj else result


# ---- dtypes ---------------------------------------------------------------------------------------

def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another dtype."""
    result = x.to(dtype) if device is None else x.to(device, dtype)
    return result.clone() if copy and result is x else result


def isdtype(dtype, kind):
    """Whether a dtype is of a kind, such as "integral", or one of several."""
    if isinstance(kind, tuple):
        return True in [isdtype(dtype, one) for one in kind]
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: expected one of {list(_KINDS)}, got {kind!r}")
        return dtype in _KINDS[kind]
    return dtype == kind


def can_cast(from_, to, /):
    """Whether promotion could lead from one dtype to the other."""
    from_ = from_.dtype if isinstance(from_, Tensor) else from_
    return _C.promote_types(from_, to) == to


def result_type(*arrays_and_dtypes):
    """The dtype of an operation on all of them."""
    tensors = [x for x in arrays_and_dtypes if isinstance(x, (Tensor, _C.dtype))]
    if not tensors:
        raise ValueError("result_type: expected at least one array or dtype")
    result = None
    for x in tensors:
        dtype = x.dtype if isinstance(x, Tensor) else x
        result = dtype if result is None else _C.promote_types(result, dtype)
    for x in arrays_and_dtypes:
        if not isinstance(x, (Tensor, _C.dtype)):
            result = _result_type(_C.empty((1,), dtype=result), x)
    return result


def finfo(type, /):
    """Limits of a floating dtype, or of an array's."""
    return _limits(_finfo, type)


def iinfo(type, /):
    """Limits of an integer dtype, or of an array's."""
    return _limits(_iinfo, type)


def _limits(of, type):
    dtype = type.dtype if isinstance(type, Tensor) else type
    result = of({complex64: float32, complex128: float64}.get(dtype, dtype))
    result.dtype = {complex64: float32, complex128: float64}.get(dtype, dtype)
    return result


def broadcast_arrays(*arrays):
    """All of them in their common shape."""
    return list(_C.broadcast_tensors(list(arrays)))


# ---- shapes ---------------------------------------------------------------------------------------

def broadcast_to(x, /, shape):
    """The elements repeated to a larger shape."""
    return x.broadcast_to(_shape(shape))


def concat(arrays, /, *, axis=0):
    """Arrays one after the other; flattened first if `axis` is None."""
    dtype = result_type(*arrays)
    parts = [x.to(dtype) for x in arrays]
    return _C.cat([x.reshape(-1) for x in parts], 0) if axis is None else _C.cat(parts, axis)


def stack(arrays, /, *, axis=0):
    """Arrays along a new dimension."""
    return _C.stack(list(arrays), axis)


def permute_dims(x, /, axes):
    """The dimensions in another order."""
    return x.permute(tuple(axes))


def roll(x, /, shift, *, axis=None):
    """Elements moved round."""
    return _t.roll(x, shift) if axis is None else _t.roll(x, shift, axis)


def expand_dims(x, /, axis=0):
    """A new dimension of size 1."""
    return x.unsqueeze(axis)


def flip(x, /, *, axis=None):
    """The order of elements turned round."""
    return x.flip(_axes(x, axis))


def matrix_transpose(x, /):
    """The last two dimensions exchanged."""
    return x.mT


def repeat(x, repeats, /, *, axis=None):
    """Each element several times."""
    return _t.repeat_interleave(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """Another shape; `copy` demands or forbids a copy."""
    result = x.view(shape) if copy is False else x.reshape(shape)
    return result.clone() if copy else result


def squeeze(x, /, axis):
    """Without these dimensions, which must have size 1."""
    for i in _axes(x, axis):
        if x.shape[i] != 1:
            raise ValueError(f"squeeze: dimension {i} has size {x.shape[i]}, not 1")
    return x.squeeze(_axes(x, axis))


def unstack(x, /, *, axis=0):
    """The slices along a dimension."""
    return x.unbind(axis)


def take(x, indices, /, *, axis=None):
    """The slices at these positions."""
    return _C.index_select(x, 0 if axis is None else axis, indices)


def _axes(x, axis):
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


# ---- products -------------------------------------------------------------------------------------

def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over several dimensions."""
    dtype = _C.promote_types(x1.dtype, x2.dtype)
    return _t.tensordot(x1.to(dtype), x2.to(dtype), axes)


def vecdot(x1, x2, /, *, axis=-1):
    """Scalar products of vectors."""
    dtype = _C.promote_types(x1.dtype, x2.dtype)
    x1 = x1.conj() if x1.dtype.is_complex else x1
    return _C.sum(x1.to(dtype) * x2.to(dtype), axis, dtype=dtype)


# ---- reductions -----------------------------------------------------------------------------------

def _over(x, axis, keepdims, reduce):
    """Runs `reduce(x, dims)`; no axis at all leaves every element as it is."""
    if axis == ():
        return x
    return reduce(x, _axes(x, axis), keepdims)


def _accumulated(dtype, given):
    """Small integers are summed in int64."""
    if given is not None:
        return given
    return int64 if dtype in _KINDS["integral"] or dtype is bool else dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """Sums over dimensions."""
    dtype = _accumulated(x.dtype, dtype)
    return _over(x.to(dtype), axis, keepdims, lambda x, dims, keep: _C.sum(x, dims, keep, dtype=dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """Products over dimensions."""
    x = x.to(_accumulated(x.dtype, dtype))
    for i in sorted((i % x.ndim for i in _axes(x, axis)), reverse=True):
        x = _C.prod(x, i, True)
    return x if keepdims else _dropped(x, axis)


def _dropped(x, axis):
    dims = _axes(x, axis)
    return x.squeeze(dims) if dims else x


def max(x, /, *, axis=None, keepdims=False):
    """Greatest elements."""
    return _over(x, axis, keepdims, _C.amax)


def min(x, /, *, axis=None, keepdims=False):
    """Least elements."""
    return _over(x, axis, keepdims, _C.amin)


def mean(x, /, *, axis=None, keepdims=False):
    """Means."""
    return _over(x, axis, keepdims, _C.mean)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variances."""
    return _over(x, axis, keepdims, lambda x, dims, keep: _C.var(x, dims, correction=correction, keepdim=keep))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Deviations."""
    return _over(x, axis, keepdims, lambda x, dims, keep: _C.std(x, dims, correction=correction, keepdim=keep))


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements are true."""
    return _truth(x, axis, keepdims, _C.all)


def any(x, /, *, axis=None, keepdims=False):
    """Whether an element is true."""
    return _truth(x, axis, keepdims, _C.any)


def _truth(x, axis, keepdims, reduce):
    x = x.to(bool)
    for i in sorted((i % x.ndim for i in _axes(x, axis)), reverse=True):
        x = reduce(x, i, True)
    return x if keepdims else _dropped(x, axis)


def clip(x, /, min=None, max=None):
    """Elements between two bounds, either of which may be missing."""
    return x.clone() if min is None and max is None else _C.clip(x, min, max)


def sign(x, /):
    """-1, 0 or 1; of complex numbers, their direction."""
    if not x.dtype.is_complex:
        result = _C.sign(x)
        return _C.where(_C.isnan(x), x, result) if x.dtype.is_floating_point else result
    size = _C.abs(x)
    return _C.where(size == 0, _C.zeros_like(x), x / size)


def nonzero(x, /):
    """Where elements are not zero: a vector for each dimension."""
    if x.ndim == 0:
        raise ValueError("nonzero: expected an array with dimensions, got one element")
    return _C.nonzero_tuple(x)


# ---- order ----------------------------------------------------------------------------------------

def argmax(x, /, *, axis=None, keepdims=False):
    """Where the greatest elements are."""
    return _argument(x, axis, keepdims, _C.argmax)


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the least elements are."""
    return _argument(x, axis, keepdims, _C.argmin)


def _argument(x, axis, keepdims, find):
    if axis is not None:
        return find(x, axis, keepdims)
    result = find(x.reshape(-1), 0, False)
    return result.reshape([1] * x.ndim) if keepdims else result


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements in order."""
    return _t.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Where the elements in order come from."""
    return _t.sort(x, dim=axis, descending=descending, stable=stable)[1]


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where elements would be inserted."""
    return _C.searchsorted(x1 if sorter is None else x1[sorter], x2, right=side == "right")


_All = namedtuple("unique_all_result", "values indices inverse_indices counts")
_Counts = namedtuple("unique_counts_result", "values counts")
_Inverse = namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    """The different elements, where each is first found, where each element went, and how often."""
    values, inverse, counts = _t.unique(x, return_inverse=True, return_counts=True)
    order = _t.sort(inverse.reshape(-1), stable=True)[1]
    return _All(values, order[_C.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x, /):
    """The different elements, and how often."""
    return _Counts(*_t.unique(x, return_counts=True))


def unique_inverse(x, /):
    """The different elements, and where each element went."""
    return _Inverse(*_t.unique(x, return_inverse=True))


def unique_values(x, /):
    """The different elements."""
    return _t.unique(x)


# ---- what there is --------------------------------------------------------------------------------

def __array_namespace_info__():
    """What this implementation of the standard has."""
    from .info import Info
    return Info()


from .scans import *  # noqa: E402,F401,F403
from . import fft, linalg  # noqa: E402,F401 - the extensions of the standard
