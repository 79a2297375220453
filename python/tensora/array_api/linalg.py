"""The extension of the standard for linear algebra."""
from .. import _C, linalg as _linalg
from ..linalg import *  # noqa: F401,F403 - those whose arguments agree
from ..linalg import (cholesky, det, diagonal, eigh, eigvalsh, inv, matmul, matrix_power, matrix_rank, qr,  # noqa: F401
                      slogdet, solve, svd, svdvals)
from . import matrix_transpose, tensordot, vecdot  # noqa: F401


def cross(x1, x2, /, *, axis=-1):
    """Vectors that are orthogonal to both."""
    dims = max(x1.ndim, x2.ndim)
    x1, x2 = (x.reshape([1] * (dims - x.ndim) + list(x.shape)) for x in (x1, x2))
    return _linalg.cross(x1, x2, dim=axis)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """Norms of matrices."""
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Norms of vectors."""
    if axis is None:
        result = _linalg.vector_norm(x.reshape(-1), ord)
        return result.reshape([1] * x.ndim) if keepdims else result
    return _linalg.vector_norm(x, ord, (axis,) if isinstance(axis, int) else tuple(axis), keepdims)


def outer(x1, x2, /):
    """All products of two vectors' elements."""
    return _C.outer(x1, x2)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse; singular values below rtol times the greatest count as zero."""
    if not isinstance(rtol, _C.Tensor):
        return _linalg.pinv(x) if rtol is None else _linalg.pinv(x, rtol=float(rtol))
    u, s, vh = _linalg.svd(x, full_matrices=False)
    small = s <= rtol[..., None] * (s[..., :1] if s.shape[-1] else s)
    inverse = _C.where(small, _C.zeros_like(s), 1 / s)
    return vh.mH @ (inverse[..., None] * u.mH)


def trace(x, /, *, offset=0, dtype=None):
    """Sums of diagonals."""
    from . import sum
    return sum(x.diagonal(offset, -2, -1), axis=-1, dtype=dtype)
