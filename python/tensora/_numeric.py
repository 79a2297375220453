"""Numerical functions that are composed of ops: finite differences, histograms over several dims."""
import math
from collections import namedtuple

from . import _C
from ._C import Tensor

__all__ = ["gradient", "histogramdd", "nonzero_static"]


# ---- gradient --------------------------------------------------------------------------------------

def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """The derivative along each dim, by finite differences; `spacing` are distances, or tensors of coordinates.

    >>> tensora.gradient(tensora.tensor([1., 2., 4., 8.]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if len({d % input.dim() for d in dims if input.dim()}) < len(dims) and input.dim():
        raise RuntimeError(f"gradient: a dim appears multiple times in the list of dims {dims}")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if isinstance(spacing, (list, tuple)):
        if len(spacing) != len(dims):
            raise RuntimeError(f"gradient: expected spacing to be a number, or a list of length {len(dims)}, one item for "
                               f"each dim, but got a list of length {len(spacing)}")
        spacings = list(spacing)
    else:
        spacings = [1 if spacing is None else spacing] * len(dims)
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(_C.get_default_dtype())
    return tuple(_differences(input, d, s, edge_order) for d, s in zip(dims, spacings))


def _differences(input, dim, spacing, edge_order):
    size = input.shape[dim]
    if size < edge_order + 1:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    rows = input.movedim(dim, -1)
    uneven = isinstance(spacing, Tensor) and spacing.dim() == 1
    if uneven:
        if spacing.numel() != size:
            raise RuntimeError(f"gradient: expected {size} coordinates for dim {dim}, got {spacing.numel()}")
        steps = (spacing[1:] - spacing[:-1]).to(device=input.device)
    else:
        steps = _C.full((size - 1,), float(spacing), device=input.device,
                        dtype=input.dtype.to_real() if input.is_complex() else input.dtype)
    slopes = (rows[..., 1:] - rows[..., :-1]) / steps
    before, after = steps[:-1], steps[1:]
    # The slopes on both sides, weighted so that a parabola has its derivative. At even distances the element itself does not
    # count, so that its infinity is no NaN.
    inner = ((slopes[..., :-1] * after + slopes[..., 1:] * before) if uneven else rows[..., 2:] - rows[..., :-2]) / (before + after)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        turn = (slopes[..., 1:] - slopes[..., :-1]) / (before + after)
        first, last = first - turn[..., :1] * steps[:1], last + turn[..., -1:] * steps[-1:]
    return _C.cat([first, inner, last], -1).movedim(-1, dim)


# ---- histograms ------------------------------------------------------------------------------------

_Histogram = namedtuple("histogramdd", ("hist", "bin_edges"))


def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """How many of the points, the rows of `input`, lie in each cell of a grid; with the edges of the grid."""
    points = input.reshape(-1, input.shape[-1])
    edges = _edges(points, bins, range)
    counts = [edge.numel() - 1 for edge in edges]
    inside, cell = _C.ones(points.shape[0], dtype=_C.bool), _C.zeros(points.shape[0], dtype=_C.int64)
    for column, edge, count in zip(points.t(), edges, counts):
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        place = _C.searchsorted(edge, column.contiguous(), right=True) - 1
        cell = cell * count + place.clamp(0, count - 1)  # the last edge belongs to the last cell
    weights = _C.ones_like(points[:, 0]) if weight is None else weight.reshape(-1).to(input.dtype)
    if weights.numel() != points.shape[0]:
        raise RuntimeError(f"histogramdd: expected one weight for each of {points.shape[0]} points, got {weights.numel()}")
    hist = _C.zeros(math.prod(counts), dtype=input.dtype).index_add(0, cell[inside], weights[inside]).reshape(counts)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).reshape([-1] + [1] * (len(edges) - 1 - d))
    return _Histogram(hist, tuple(edges))


def _edges(points, bins, range):
    count = points.shape[1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(f"histogramdd: expected bins for each of {count} dims, got {len(bins)}")
    if isinstance(bins[0], Tensor):
        return bins
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(f"histogramdd: expected {2 * count} numbers as the range, got {len(range)}")
    edges = []
    for d, number in enumerate(bins):
        if number < 1:
            raise RuntimeError(f"histogramdd: expected at least one bin, got {number}")
        if range is not None:
            low, high = float(range[2 * d]), float(range[2 * d + 1])
        elif points.shape[0]:
            low, high = points[:, d].min().item(), points[:, d].max().item()
        else:
            low, high = 0.0, 1.0
        if low > high or not math.isfinite(high - low):
            raise RuntimeError(f"histogramdd: the range [{low}, {high}] of dim {d} is not finite or not in order")
        low, high = (low - 1, high + 1) if low == high else (low, high)
        edges.append(_C.linspace(low, high, number + 1, dtype=points.dtype))
    return edges


def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` rows of nonzero(input), filled up with `fill_value`: the shape does not depend on the values."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = _C.nonzero(input)[:size]
    rest = _C.full((size - found.shape[0], input.dim()), fill_value, dtype=_C.int64, device=input.device)
    return _C.cat([found, rest])


Tensor.nonzero_static = nonzero_static
