"""Functions along an axis: running sums and products, differences, counts, indices."""
import tensora.array_api as xp

from .. import _C

__all__ = ["count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "take_along_axis"]


def _cumulative(name, scan, identity):
    def run(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim > 1:
                raise ValueError(f"{name}: name the axis of an array with several dimensions")
            axis = 0
        result = scan(x.to(xp._accumulated(x.dtype, dtype)), axis)
        if include_initial:
            sizes = [1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)]
            result = _C.cat([_C.full(sizes, identity, dtype=result.dtype, device=x.device), result], axis)
        return result
    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Running {'sums' if identity == 0 else 'products'}."
    return run


cumulative_sum = _cumulative("cumulative_sum", _C.cumsum, 0)
cumulative_prod = _cumulative("cumulative_prod", _C.cumprod, 1)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours, n times."""
    return _C.diff(x, n, axis, prepend, append)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements are not zero."""
    return xp.sum(x != 0, axis=axis, dtype=_C.int64, keepdims=keepdims)


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at the indices along an axis."""
    return _C.take_along_dim(x, indices, axis)
