"""Invertible functions between distributions, with the logarithms of their derivatives."""
import math
import weakref

from .. import _C
from .._C import Tensor
from .._functions import broadcast_shapes
from . import constraints


def _broadcast_with(*names):
    """The shape methods of a transform whose parameters are broadcast with what it is given."""
    return lambda self, shape: broadcast_shapes(shape, *(getattr(getattr(self, name), "shape", ()) for name in names))


class Transform:
    """The base: a subclass writes _call, _inverse and log_abs_det_jacobian."""
    bijective = False
    domain = codomain = constraints.real

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._inv, self._last = cache_size, None, (None, None)

    @property
    def event_dim(self):
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse transform."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self):
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        if self._cache_size == cache_size:
            return self
        import copy
        result = copy.copy(self)
        Transform.__init__(result, cache_size)
        return result

    def __call__(self, x):
        if self._cache_size and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size and self._last[1] is y:
            return self._last[0]
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, transform):
        super().__init__(transform._cache_size)
        self._transform = transform

    domain = property(lambda self: self._transform.codomain)
    codomain = property(lambda self: self._transform.domain)
    bijective = property(lambda self: self._transform.bijective)
    sign = property(lambda self: self._transform.sign)
    inv = property(lambda self: self._transform)

    def with_cache(self, cache_size=1):
        return self._transform.with_cache(cache_size).inv

    def __call__(self, x):
        return self._transform._inv_call(x)

    def _inv_call(self, y):
        return self._transform(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._transform.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._transform.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._transform.forward_shape(shape)

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._transform == other._transform

    __hash__ = object.__hash__


def sum_rightmost(value, dim):
    """The sum over the last `dim` dims."""
    return value if dim == 0 else value.reshape(tuple(value.shape[:value.dim() - dim]) + (-1,)).sum(-1)


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self):
        if not self.parts:
            return constraints.real
        first, dim = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dim = max(dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return first if dim == first.event_dim else constraints.independent(first, dim - first.event_dim)

    @property
    def codomain(self):
        if not self.parts:
            return constraints.real
        last, dim = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            dim = max(dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return last if dim == last.event_dim else constraints.independent(last, dim - last.event_dim)

    bijective = property(lambda self: all(part.bijective for part in self.parts))

    @property
    def inv(self):
        """The inverses, in the other order."""
        inverse = (self._inv and self._inv()) or ComposeTransform([part.inv for part in reversed(self.parts)])
        self._inv, inverse._inv = weakref.ref(inverse), weakref.ref(self)
        return inverse

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return _C.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        dim, total = self.domain.event_dim, 0
        for part, a, b in zip(self.parts, points, points[1:]):
            total = total + sum_rightmost(part.log_abs_det_jacobian(a, b), dim - part.domain.event_dim)
            dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__


class IndependentTransform(Transform):
    """The last dims as one event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims

    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)
    forward_shape = property(lambda self: self.base_transform.forward_shape)
    inverse_shape = property(lambda self: self.base_transform.inverse_shape)

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """Another shape of the last dims."""
    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = _C.Size(in_shape), _C.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _swapped(self, shape, before, after):
        cut = len(shape) - len(before)
        if tuple(shape[cut:]) != tuple(before):
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(before)}")
        return tuple(shape[:cut]) + tuple(after)

    def _call(self, x):
        return x.reshape(self._swapped(x.shape, self.in_shape, self.out_shape))

    def _inverse(self, y):
        return y.reshape(self._swapped(y.shape, self.out_shape, self.in_shape))

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(tuple(x.shape[:x.dim() - len(self.in_shape)]))

    def forward_shape(self, shape):
        return self._swapped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return self._swapped(shape, self.out_shape, self.in_shape)


class _Elementwise(Transform):
    bijective = True
    sign = 1

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Elementwise):
    """exp(x)"""
    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """x to a power."""
    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else _C.tensor(float(exponent))

    sign = property(lambda self: self.exponent.sign())
    forward_shape = inverse_shape = _broadcast_with("exponent")

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = object.__hash__


class SigmoidTransform(_Elementwise):
    """1 / (1 + exp(-x))"""
    codomain = constraints.unit_interval

    def _call(self, x):
        eps = 1.2e-7 if x.dtype is not _C.float64 else 2.3e-16
        return _C.sigmoid(x).clamp(eps if x.dtype is not _C.float64 else 2.3e-308, 1 - eps)

    def _inverse(self, y):
        eps = 1.2e-7 if y.dtype is not _C.float64 else 2.3e-16
        y = y.clamp(1.2e-38 if y.dtype is not _C.float64 else 2.3e-308, 1 - eps)
        return y.log() - _C.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -_C.softplus(-x) - _C.softplus(x)


class SoftplusTransform(_Elementwise):
    """log(1 + exp(x))"""
    codomain = constraints.positive

    def _call(self, x):
        return _C.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -_C.softplus(-x)


class TanhTransform(_Elementwise):
    """tanh(x)"""
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return 2 * (math.log(2) - x - _C.softplus(-2 * x))


class AbsTransform(_Elementwise):
    """|x|, which is not invertible: the inverse gives x itself."""
    bijective = False
    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """loc + scale · x"""
    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    forward_shape = inverse_shape = _broadcast_with("loc", "scale")
    domain = codomain = property(lambda self: constraints.real if self._event_dim == 0 else constraints.independent(
        constraints.real, self._event_dim))

    @property
    def sign(self):
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale = self.scale if isinstance(self.scale, Tensor) else _C.full_like(x, self.scale)
        result = scale.abs().log()
        if self._event_dim:
            return sum_rightmost(result.expand(x.shape), self._event_dim)
        return result.expand(_C.broadcast_tensors([result, x])[0].shape)

    def __eq__(self, other):
        def same(a, b):
            return bool((a == b).all()) if isinstance(a, Tensor) or isinstance(b, Tensor) else a == b
        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)

    __hash__ = object.__hash__


class SoftmaxTransform(Transform):
    """softmax over the last dim; the inverse is the logarithm."""
    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return _C.softmax(x, -1)

    def _inverse(self, y):
        return y.log()

    def __eq__(self, other):
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__


class StickBreakingTransform(Transform):
    """From n numbers to n + 1 positive ones with sum 1."""
    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _offset(self, x):
        count = x.shape[-1]
        return count + 1 - _C.arange(1, count + 1, dtype=x.dtype, device=x.device)

    def _call(self, x):
        z = SigmoidTransform()(x - self._offset(x).log())
        rest = (1 - z).cumprod(-1)
        return _C.pad(z, [0, 1], "constant", 1) * _C.pad(rest, [1, 0], "constant", 1)

    def _inverse(self, y):
        head = y[..., :-1]
        rest = (1 - head.cumsum(-1)).clamp_min(1.2e-38 if y.dtype is not _C.float64 else 2.3e-308)
        return head.log() - rest.log() + self._offset(head).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x).log()
        return (-x + _C.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return tuple(shape[:-1]) + (shape[-1] + 1,)

    def inverse_shape(self, shape):
        return tuple(shape[:-1]) + (shape[-1] - 1,)

    def __eq__(self, other):
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__


class LowerCholeskyTransform(Transform):
    """From a matrix to a lower triangle with a positive diagonal."""
    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + _C.diag_embed(x.diagonal(0, -2, -1).exp())

    def _inverse(self, y):
        return y.tril(-1) + _C.diag_embed(y.diagonal(0, -2, -1).log())


class PositiveDefiniteTransform(Transform):
    """From a matrix to a positive definite one."""
    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(_C.linalg.cholesky(y))


identity_transform = ComposeTransform([])
from .joined_transforms import (  # noqa: E402,F401 - they derive from what stands above
    CatTransform, CorrCholeskyTransform, CumulativeDistributionTransform, StackTransform, tril_matrix_to_vec,
    vec_to_tril_matrix)

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
           "identity_transform"]
