"""Distributions over the real numbers."""
import math

from .. import _C
from .._dtypes import finfo
from . import constraints
from .distribution import Distribution, ExponentialFamily, _broadcast

EULER = 0.57721566490153286060


class Normal(ExponentialFamily):
    """The normal distribution.

    >>> tensora.distributions.Normal(0., 1.).log_prob(tensora.tensor(0.))
    tensor(-0.9189)
    """
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale ** 2)

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * _C.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value):
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale ** 2) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    def cdf(self, value):
        self._validate_sample(value)
        return 0.5 * (1 + _C.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value):
        return self.loc + self.scale * _C.erfinv(2 * value - 1) * math.sqrt(2)


class Uniform(Distribution):
    """Numbers from `low` to `high`, all equally likely."""
    arg_constraints = {"low": constraints.real, "high": constraints.real}
    support = property(lambda self: constraints.interval(self.low, self.high))
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = _broadcast(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low >= high")

    mode = property(lambda self: self.high * float("nan"))
    mean = property(lambda self: (self.low + self.high) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape=()):
        return self.low + (self.high - self.low) * _C.rand(self._shape(sample_shape), dtype=self.low.dtype,
                                                           device=self.low.device)

    def log_prob(self, value):
        self._validate_sample(value)
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self):
        return (self.high - self.low).log()

    def cdf(self, value):
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def _log_moment(self):
        return (_C.xlogy(self.high, self.high) - _C.xlogy(self.low, self.low)) / (self.high - self.low) - 1


class Exponential(ExponentialFamily):
    """Waiting times of events that happen `rate` times per unit."""
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        self.rate, = _broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mode = property(lambda self: _C.zeros_like(self.rate))
    mean = property(lambda self: 1 / self.rate)
    variance = property(lambda self: self.rate ** -2)

    def rsample(self, sample_shape=()):
        return _C.empty(self._shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value):
        return -_C.log1p(-value) / self.rate

    def entropy(self):
        return 1 - self.rate.log()

    def _log_moment(self):
        return -self.rate.log() - EULER


class Laplace(Distribution):
    """Two exponentials back to back around `loc`, with mean absolute deviation `scale`."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mode = property(lambda self: self.loc)
    mean = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale ** 2)

    def rsample(self, sample_shape=()):
        u = _C.empty(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u.uniform_(finfo(u.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * _C.log1p(-u.abs())

    def log_prob(self, value):
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        self._validate_sample(value)
        apart = value - self.loc
        return 0.5 - 0.5 * apart.sign() * _C.expm1(-apart.abs() / self.scale)

    def icdf(self, value):
        apart = value - 0.5
        return self.loc - self.scale * apart.sign() * _C.log1p(-2 * apart.abs())

    def entropy(self):
        return 1 + (2 * self.scale).log()


class Cauchy(Distribution):
    """The ratio of two normal numbers, scaled by `scale` and moved by `loc`; it has no mean."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: _C.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: _C.full_like(self.loc, math.inf))

    def rsample(self, sample_shape=()):
        noise = _C.empty(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value):
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - _C.log1p(((value - self.loc) / self.scale) ** 2)

    def cdf(self, value):
        self._validate_sample(value)
        return _C.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return _C.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


