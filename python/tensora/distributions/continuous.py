"""Distributions over the real numbers."""
import math

from .. import _C
from .._modes import no_grad
from . import constraints
from .distribution import Distribution, _broadcast


class Normal(Distribution):
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
        return 0.5 * (1 + _C.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value):
        return self.loc + self.scale * _C.erfinv(2 * value - 1) * math.sqrt(2)


class LogNormal(Distribution):
    """exp of a normal number with mean `loc` and standard deviation `scale`."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._base = Normal(loc, scale, validate_args=False)
        self.loc, self.scale = self._base.loc, self._base.scale
        super().__init__(self.loc.shape, validate_args=validate_args)

    mode = property(lambda self: (self.loc - self.scale ** 2).exp())
    mean = property(lambda self: (self.loc + self.scale ** 2 / 2).exp())
    variance = property(lambda self: (self.scale ** 2).expm1() * (2 * self.loc + self.scale ** 2).exp())

    def rsample(self, sample_shape=()):
        return self._base.rsample(sample_shape).exp()

    def log_prob(self, value):
        self._validate_sample(value)
        return self._base.log_prob(value.log()) - value.log()

    def entropy(self):
        return self._base.entropy() + self.loc


class HalfNormal(Distribution):
    """The absolute value of a normal number with mean 0 and standard deviation `scale`."""
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        self._base = Normal(0.0, scale, validate_args=False)
        self.scale = self._base.scale
        super().__init__(self.scale.shape, validate_args=validate_args)

    mode = property(lambda self: _C.zeros_like(self.scale))
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale ** 2 * (1 - 2 / math.pi))

    def rsample(self, sample_shape=()):
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value):
        self._validate_sample(value)
        return _C.where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def entropy(self):
        return self._base.entropy() - math.log(2)


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

    mode = property(lambda self: _C.full_like(self.high, float("nan")))
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
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)


class Exponential(Distribution):
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

    def entropy(self):
        return 1 - self.rate.log()


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
        u = _C.rand(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc - self.scale * u.sign() * _C.log1p(-2 * u.abs().clamp_max(0.5 - 1e-7))

    def log_prob(self, value):
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

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

    mode = property(lambda self: self.loc)

    def rsample(self, sample_shape=()):
        u = _C.rand(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * _C.tan(math.pi * (u - 0.5))

    def log_prob(self, value):
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - _C.log1p(((value - self.loc) / self.scale) ** 2)

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(Distribution):
    """The largest of many numbers, around `loc`, with width `scale`."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mode = property(lambda self: self.loc)

    def rsample(self, sample_shape=()):
        e = _C.empty(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device).exponential_()
        return self.loc - self.scale * e.log()

    def log_prob(self, value):
        self._validate_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()


def _standard_gamma(concentration):
    """Marsaglia and Tsang's method; gradients by their reparametrisation of an accepted draw."""
    boost = concentration < 1
    shape = _C.where(boost, concentration + 1, concentration)
    d = shape - 1.0 / 3
    c = 1 / (9 * d).sqrt()
    with no_grad():
        x = _C.randn_like(d)
        done = _C.zeros_like(d).bool()
        accepted = x.clone()
        while not bool(done.all()):
            x = _C.randn_like(d)
            v = (1 + c * x) ** 3
            u = _C.rand_like(d).clamp_min(1e-30)
            good = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp_min(1e-30).log())
            accepted = _C.where(good & ~done, x, accepted)
            done = done | good
        u = _C.rand_like(d).clamp_min(1e-30)
    sample = d * (1 + c * accepted) ** 3
    return _C.where(boost, sample * u ** (1 / concentration), sample)


class Gamma(Distribution):
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
        return _standard_gamma(self.concentration.expand(self._shape(sample_shape))) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return (self.concentration * self.rate.log() + (self.concentration - 1) * value.log() - self.rate * value
                - _C.lgamma(self.concentration))

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + _C.lgamma(a) + (1 - a) * _C.digamma(a)


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        df, = _broadcast(df)
        self.df = df
        super().__init__(df / 2, _C.full_like(df, 0.5), validate_args=validate_args)


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, scaled by `scale` and moved by `loc`."""
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = _broadcast(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    mode = property(lambda self: self.loc)

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


class Dirichlet(Distribution):
    """Probabilities that sum to 1 over the last dim, with weights `concentration`."""
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    def rsample(self, sample_shape=()):
        gammas = _standard_gamma(self.concentration.expand(self._shape(sample_shape)))
        return gammas / gammas.sum(-1, True)

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return ((a - 1) * value.log()).sum(-1) + _C.lgamma(a.sum(-1)) - _C.lgamma(a).sum(-1)

    def entropy(self):
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (_C.lgamma(a).sum(-1) - _C.lgamma(total) - (k - total) * _C.digamma(total)
                - ((a - 1) * _C.digamma(a)).sum(-1))


class Beta(Distribution):
    """Numbers from 0 to 1 with density x^(concentration1 - 1) (1 - x)^(concentration0 - 1), up to a factor."""
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = _broadcast(concentration1, concentration0)
        self._dirichlet = Dirichlet(_C.stack([self.concentration1, self.concentration0], -1), validate_args=False)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value):
        self._validate_sample(value)
        return self._dirichlet.log_prob(_C.stack([value, 1 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()


def _precision_to_scale_tril(P):
    """The Cholesky factor of the inverse of P."""
    flipped = _C.linalg.cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return _C.linalg.solve_triangular(flipped, _C.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors with mean `loc` and a covariance, its inverse, or its Cholesky factor."""
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if precision_matrix is not None:
            self._check_argument("precision_matrix", precision_matrix, validate_args)
            covariance_matrix = _C.linalg.inv(precision_matrix)
        if scale_tril is None:
            self._check_argument("covariance_matrix", covariance_matrix, validate_args)
        self.scale_tril = _C.linalg.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        self.loc = loc
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=validate_args)

    mode = property(lambda self: self.loc)
    mean = property(lambda self: self.loc)
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)

    def rsample(self, sample_shape=()):
        eps = _C.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        difference = (value - self.loc).unsqueeze(-1)
        tril = self.scale_tril.expand(tuple(difference.shape[:-2]) + tuple(self.scale_tril.shape[-2:]))
        z = _C.linalg.solve_triangular(tril, difference, upper=False)
        return (-0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + (z ** 2).sum((-2, -1)))) - self._half_log_det()

    def entropy(self):
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._half_log_det()
