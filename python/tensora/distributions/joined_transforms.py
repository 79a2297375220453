"""Transforms of matrices of correlations, of parts of a tensor, and by a distribution's cumulative function."""
import math

from .. import _C
from .._dtypes import finfo
from . import constraints
from .transforms import Transform, sum_rightmost


def vec_to_tril_matrix(vec, diag=0):
    """A lower triangle whose rows, up to diagonal `diag`, are filled from the last dim of `vec`."""
    count = vec.shape[-1]
    size = round((math.sqrt((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) - 1 - 2 * diag) / 2)
    rows, columns = _C.tril_indices(size, size, diag, device=vec.device)
    if rows.numel() != count:
        raise ValueError(f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
                         "square D x D matrix.")
    flat = _C.zeros(tuple(vec.shape[:-1]) + (size * size,), dtype=vec.dtype, device=vec.device)
    places = (rows * size + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(tuple(vec.shape[:-1]) + (size, size))


def tril_matrix_to_vec(mat, diag=0):
    """The elements of the lower triangle up to diagonal `diag`, row by row."""
    size = mat.shape[-1]
    if diag < -size or diag >= size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = _C.tril_indices(size, size, diag, device=mat.device)
    return mat[..., rows, columns]


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 numbers to the Cholesky factor of a D x D matrix of correlations."""
    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), -1)
        # What the length 1 of a row leaves for the elements behind the first ones.
        left = (1 - partial.square()).sqrt().cumprod(-1)
        return (partial + _C.eye(partial.shape[-1], dtype=x.dtype, device=x.device)) * _C.pad(
            left[..., :-1], [1, 0], "constant", 1)

    def _inverse(self, y):
        left = _C.pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], "constant", 1)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x, y):
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        return 0.5 * left.log().sum(-1) - 2 * (x + _C.softplus(-2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        size = round(math.sqrt(0.25 + 2 * shape[-1]) + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return tuple(shape[:-1]) + (size, size)

    def inverse_shape(self, shape):
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError(f"CorrCholeskyTransform: expected square matrices, got {tuple(shape)}")
        return tuple(shape[:-2]) + (shape[-1] * (shape[-1] - 1) // 2,)


class _Joined(Transform):
    """One transform for each part of a tensor along `dim`."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be instances of Transform")
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))


class CatTransform(_Joined):
    """Transforms parts of these lengths, one after the other along `dim`."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.transforms)} transforms need as many lengths, got {len(self.lengths)}")

    length = property(lambda self: sum(self.lengths))
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _each(self, functions, tensor):
        return _C.cat([f(part) for f, part in zip(functions, tensor.split(self.lengths, self.dim))], self.dim)

    def _call(self, x):
        return self._each(self.transforms, x)

    def _inverse(self, y):
        return self._each([t.inv for t in self.transforms], y)

    def log_abs_det_jacobian(self, x, y):
        parts = []
        for t, a, b in zip(self.transforms, x.split(self.lengths, self.dim), y.split(self.lengths, self.dim)):
            found = t.log_abs_det_jacobian(a, b)
            parts.append(sum_rightmost(found, self.event_dim - t.domain.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        if dim + self.event_dim < 0:
            return _C.cat(parts, dim + self.event_dim)
        return sum(parts)


class StackTransform(_Joined):
    """Transforms what torch.stack put side by side along `dim`."""
    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, tensor):
        if tensor.shape[self.dim] != len(self.transforms):
            raise ValueError(f"StackTransform: expected {len(self.transforms)} parts along dim {self.dim}, got "
                             f"{tensor.shape[self.dim]}")
        return tensor.unbind(self.dim)

    def _call(self, x):
        return _C.stack([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y):
        return _C.stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x, y):
        return _C.stack([t.log_abs_det_jacobian(a, b) for t, a, b in
                         zip(self.transforms, self._parts(x), self._parts(y))], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers."""
    codomain, bijective, sign = constraints.unit_interval, True, +1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
