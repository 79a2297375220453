"""Gamma numbers, and the distributions that are made of them."""
import math

from .. import _C
from .._dtypes import finfo
from ..autograd.function import Function, once_differentiable
from . import constraints
from .distribution import Distribution, ExponentialFamily, _broadcast


def _draw(concentration):
    """Marsaglia and Tsang's method; below 1, the next higher concentration and a power of a uniform number."""
    boost = concentration < 1
    shape = _C.where(boost, concentration + 1, concentration)
    d = shape - 1.0 / 3
    c = 1 / (9 * d).sqrt()
    done, accepted = _C.zeros_like(d).bool(), d
    while not bool(done.all()):
        x = _C.randn_like(d)
        v = (1 + c * x) ** 3
        u = _C.rand_like(d).clamp_min(1e-30)
        good = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp_min(1e-30).log())
        accepted = _C.where(good & ~done, d * v, accepted)
        done = done | good
    u = _C.rand_like(d).clamp_min(1e-30)
    return _C.where(boost, accepted * u ** (1 / concentration), accepted)


def _slope(a, x):
    """dx/da = -(dF/da) / density for the distribution function F(x; a).

    Whether a draw is accepted depends on a, so a gradient through the accepted numbers would be wrong. F is a series of
    x^n / (a (a + 1) … (a + n)); for large a nearly all draws are accepted, and their own gradient is close enough.
    """
    a, x = a.to(_C.float64), x.to(_C.float64).clamp_min(1e-300)
    large = a > 1000
    d = _C.where(large, a, 1000.0) - 1.0 / 3
    c = 1 / (9 * d).sqrt()
    cubic_root = (x / d) ** (1.0 / 3)
    direct = cubic_root ** 3 - 1.5 * cubic_root ** 2 * (cubic_root - 1)
    a, y = _C.where(large, 1.0, a), _C.where(large, 1.0, x)
    log_y, term, psi = y.log(), 1 / a, _C.digamma(a) + 1 / a
    total, n = term * (psi - log_y), 0
    while True:
        n += 1
        term, psi = term * y / (a + n), psi + 1 / (a + n)
        change = term * (psi - log_y)
        total = total + change
        if bool((change.abs() <= 1e-14 * total.abs()).logical_or(term == 0).all()):
            return _C.where(large, direct, y * total)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx, concentration):
        sample = _draw(concentration.to(_C.float64)).to(concentration.dtype).clamp_min(finfo(concentration.dtype).tiny)
        ctx.save_for_backward(concentration, sample)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        concentration, sample = ctx.saved_tensors
        return gradient * _slope(concentration, sample).to(gradient.dtype)


def _standard_gamma(concentration):
    """Gamma numbers of rate 1."""
    return _StandardGamma.apply(concentration)


class Gamma(ExponentialFamily):
    """Gamma numbers with shape `concentration` and `rate`."""
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = _broadcast(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp_min(0))
    mean = property(lambda self: self.concentration / self.rate)
    variance = property(lambda self: self.concentration / self.rate ** 2)

    def rsample(self, sample_shape=()):
        sample = _standard_gamma(self.concentration.expand(self._shape(sample_shape))) / self.rate
        return sample.clamp_min(finfo(sample.dtype).tiny)

    def log_prob(self, value):
        self._validate_sample(value)
        value = _broadcast(value, self.rate)[0]
        return (_C.xlogy(self.concentration, self.rate) + _C.xlogy(self.concentration - 1, value) - self.rate * value
                - _C.lgamma(self.concentration))

    def cdf(self, value):
        self._validate_sample(value)
        return _C.special.gammainc(self.concentration, self.rate * value)

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + _C.lgamma(a) + (1 - a) * _C.digamma(a)

    def _log_moment(self):
        return _C.digamma(self.concentration) - self.rate.log()


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        df, = _broadcast(df)
        super().__init__(df / 2, _C.full_like(df, 0.5), validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args
        self._check_argument("df", df, validate_args)

    df = property(lambda self: self.concentration * 2)


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, scaled by `scale` and moved by `loc`."""
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = _broadcast(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    mode = property(lambda self: self.loc)
    mean = property(lambda self: _C.where(self.df > 1, self.loc, math.nan))

    @property
    def variance(self):
        finite = self.scale ** 2 * self.df / (self.df - 2)
        return _C.where(self.df > 2, finite, _C.where(self.df > 1, _C.full_like(self.df, math.inf), math.nan))

    def rsample(self, sample_shape=()):
        x = _C.randn(self._shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        z = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * x * (self.df / z).sqrt()

    def log_prob(self, value):
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + _C.lgamma(0.5 * self.df) \
            - _C.lgamma(0.5 * (self.df + 1))
        return -0.5 * (self.df + 1) * _C.log1p(y ** 2 / self.df) - z

    def entropy(self):
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = _C.lgamma(half) + 0.5 * math.log(math.pi) - _C.lgamma(next_half)
        return self.scale.log() + next_half * (_C.digamma(next_half) - _C.digamma(half)) + 0.5 * self.df.log() + log_beta


class Dirichlet(ExponentialFamily):
    """Probabilities that sum to 1 over the last dim, with weights `concentration`."""
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        above = (self.concentration - 1).clamp_min(0.0)
        corner = _C.one_hot(above.argmax(-1), above.shape[-1]).to(above.dtype)
        return _C.where((self.concentration < 1).all(-1, True), corner, above / above.sum(-1, True))

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def rsample(self, sample_shape=()):
        gammas = _standard_gamma(self.concentration.expand(self._shape(sample_shape)).to(_C.float64))
        limits, parts = finfo(self.concentration.dtype), gammas / gammas.sum(-1, True)
        return parts.to(self.concentration.dtype).clamp(limits.tiny, 1 - limits.eps / 2)

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return _C.xlogy(a - 1, value).sum(-1) + _C.lgamma(a.sum(-1)) - _C.lgamma(a).sum(-1)

    def entropy(self):
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (_C.lgamma(a).sum(-1) - _C.lgamma(total) - (k - total) * _C.digamma(total)
                - ((a - 1) * _C.digamma(a)).sum(-1))


class Beta(ExponentialFamily):
    """Numbers from 0 to 1 with density x^(concentration1 - 1) (1 - x)^(concentration0 - 1), up to a factor."""
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = _broadcast(concentration1, concentration0)
        self._dirichlet = Dirichlet(_C.stack([self.concentration1, self.concentration0], -1), validate_args=False)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])
    variance = property(lambda self: self._dirichlet.variance[..., 0])

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value):
        self._validate_sample(value)
        return self._dirichlet.log_prob(_C.stack([value, 1 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    def _log_moment(self):
        return _C.digamma(self.concentration1) - _C.digamma(self.concentration1 + self.concentration0)
