"""Distributions of transformed samples, and those that are defined by a transform."""
import math

from .. import _C
from .._C import Tensor
from .._dtypes import finfo
from .._modes import no_grad
from . import constraints
from .continuous import EULER, Cauchy, Exponential, Normal, Uniform
from .distribution import Distribution, Independent, _broadcast
from .gamma import Gamma
from .transforms import (AbsTransform, AffineTransform, ComposeTransform, ExpTransform, PowerTransform, SigmoidTransform,
                         StickBreakingTransform, Transform, sum_rightmost)
from .utils import clamp_probs


class TransformedDistribution(Distribution):
    """Samples of a base distribution, transformed.

    >>> base = tensora.distributions.Normal(0., 1.)
    >>> tensora.distributions.TransformedDistribution(base, [tensora.distributions.ExpTransform()]).event_shape
    tensora.Size([])
    """

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        whole = ComposeTransform(self.transforms)
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        forward = tuple(whole.forward_shape(shape))
        expanded = tuple(whole.inverse_shape(forward))
        if expanded != shape:  # parameters of a transform have a batch: each of its elements has a sample of its own
            base_distribution = base_distribution.expand(expanded[:len(expanded) - len(base_distribution.event_shape)])
        lacking = whole.domain.event_dim - len(base_distribution.event_shape)
        if lacking > 0:
            base_distribution = Independent(base_distribution, lacking)
        self.base_dist = base_distribution
        dims = whole.codomain.event_dim + max(len(base_distribution.event_shape) - whole.domain.event_dim, 0)
        cut = len(forward) - dims
        super().__init__(forward[:cut], forward[cut:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        extra = len(self.event_shape) - last.event_dim
        return constraints.independent(last, extra) if extra > 0 else last

    def _transformed(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape=()):
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        dims, total = len(self.event_shape), 0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, value), dims - transform.domain.event_dim)
            value = x
        return total + sum_rightmost(self.base_dist.log_prob(value), dims - len(self.base_dist.event_shape))

    def _oriented(self, value):
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign * (value - 0.5) + 0.5

    def cdf(self, value):
        self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._oriented(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._transformed(self.base_dist.icdf(self._oriented(value)))

    def expand(self, batch_shape, _instance=None):
        base = self.base_dist.expand(tuple(batch_shape) + tuple(self.base_dist.batch_shape)[len(self.batch_shape):])
        return TransformedDistribution(base, self.transforms, validate_args=self._validate_args)

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Transformed(TransformedDistribution):
    """A base with parameters of its own: those are what it shows, and what it expands."""
    __repr__, expand = Distribution.__repr__, Distribution.expand


class LogNormal(_Transformed):
    """exp of a normal number with mean `loc` and standard deviation `scale`."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=False)
        self.loc, self.scale = base.loc, base.scale
        super().__init__(base, ExpTransform(), validate_args)

    mode = property(lambda self: (self.loc - self.scale ** 2).exp())
    mean = property(lambda self: (self.loc + self.scale ** 2 / 2).exp())
    variance = property(lambda self: (self.scale ** 2).expm1() * (2 * self.loc + self.scale ** 2).exp())

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class Gumbel(_Transformed):
    """The largest of many numbers, around `loc`, with width `scale`."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        limits = finfo(self.loc.dtype)
        base = Uniform(_C.full_like(self.loc, limits.tiny), _C.full_like(self.loc, 1 - limits.eps), validate_args=False)
        log = ExpTransform().inv
        super().__init__(base, [log, AffineTransform(0, -_C.ones_like(self.scale)), log, AffineTransform(self.loc, -self.scale)],
                         validate_args)

    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev ** 2)

    def log_prob(self, value):
        self._validate_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    def entropy(self):
        return self.scale.log() + (1 + EULER)


class _Half(_Transformed):
    """The absolute value of a number that is as often positive as negative."""
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, base, validate_args):
        self.scale = base.scale
        super().__init__(base, AbsTransform(), validate_args)

    mode = property(lambda self: _C.zeros_like(self.scale))

    def log_prob(self, value):
        self._validate_sample(value)
        return _C.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal number with mean 0 and standard deviation `scale`."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Normal(0.0, scale, validate_args=False), validate_args)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale ** 2 * (1 - 2 / math.pi))


class HalfCauchy(_Half):
    """The absolute value of a Cauchy number with `scale`."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0.0, scale, validate_args=False), validate_args)

    mean = property(lambda self: _C.full_like(self.scale, math.inf))
    variance = property(lambda self: self.base_dist.variance)


class Weibull(_Transformed):
    """Weibull numbers with `scale` and shape `concentration`."""
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = _broadcast(scale, concentration)
        base = Exponential(_C.ones_like(self.scale), validate_args=False)
        super().__init__(base, [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)], validate_args)

    mean = property(lambda self: self.scale * _C.lgamma(1 + 1 / self.concentration).exp())
    mode = property(lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** (1 / self.concentration))

    @property
    def variance(self):
        k = 1 / self.concentration
        return self.scale ** 2 * (_C.lgamma(1 + 2 * k).exp() - (2 * _C.lgamma(1 + k)).exp())

    def entropy(self):
        k = 1 / self.concentration
        return EULER * (1 - k) + (self.scale * k).log() + 1


class Pareto(_Transformed):
    """Numbers above `scale` whose density falls with the power `alpha` + 1."""
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    support = property(lambda self: constraints.greater_than_eq(self.scale))

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = _broadcast(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=False), [ExpTransform(), AffineTransform(0, self.scale)],
                         validate_args)

    mean = property(lambda self: self.alpha.clamp_min(1) * self.scale / (self.alpha.clamp_min(1) - 1))
    mode = property(lambda self: self.scale)

    @property
    def variance(self):
        a = self.alpha.clamp_min(2)
        return self.scale ** 2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha

    def _log_moment(self):
        return self.scale.log() + 1 / self.alpha


class Kumaraswamy(_Transformed):
    """Numbers from 0 to 1 like those of Beta, with a simple cumulative function."""
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = _broadcast(concentration1, concentration0)
        base = Uniform(_C.zeros_like(self.concentration0), _C.ones_like(self.concentration0), validate_args=False)
        steps = [PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0), PowerTransform(1 / self.concentration1)]
        super().__init__(base, steps, validate_args)

    def _moment(self, n):
        b, value = self.concentration0, 1 + n / self.concentration1
        return (b.log() + _C.lgamma(value) + _C.lgamma(b) - _C.lgamma(value + b)).exp()

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        inside = (_C.log1p(a - 2) - _C.log1p(a * b - 2)) / a
        return _C.where((a < 1) | (b < 1), math.nan, inside.exp())

    def entropy(self):
        t1, t0 = 1 - 1 / self.concentration1, 1 - 1 / self.concentration0
        harmonic = _C.digamma(self.concentration0 + 1) + EULER
        return t0 + t1 * harmonic - self.concentration1.log() - self.concentration0.log()


class InverseGamma(_Transformed):
    """The reciprocal of a Gamma number."""
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=False)
        self.concentration, self.rate = base.concentration, base.rate
        super().__init__(base, [PowerTransform(-1.0)], validate_args)

    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self):
        return _C.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self):
        a = self.concentration
        return _C.where(a > 2, self.rate ** 2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + _C.lgamma(a) - (1 + a) * _C.digamma(a)


class LogisticNormal(_Transformed):
    """Probabilities: normal numbers through the stick-breaking transform."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=False)
        if not base.batch_shape:
            base = Normal(base.loc.reshape(1), base.scale.reshape(1), validate_args=False)
        self.loc, self.scale = base.loc, base.scale
        super().__init__(base, StickBreakingTransform(), validate_args)


class _LogitRelaxed(Distribution):
    """The logits of a relaxed Bernoulli variable."""
    support, has_rsample, _common = constraints.real, True, ("temperature",)

    def __init__(self, temperature, probs, logits):
        self.temperature, self.probs, self.logits = temperature, probs, logits
        super().__init__(logits.shape, validate_args=False)

    def rsample(self, sample_shape=()):
        u = _C.rand(self._shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device)
        u, probs = clamp_probs(u), clamp_probs(self.probs)
        return (u.log() - _C.log1p(-u) + probs.log() - _C.log1p(-probs)) / self.temperature

    def log_prob(self, value):
        difference = self.logits - value * self.temperature
        return _log(self.temperature) + difference - 2 * _C.log1p(difference.exp())


def _log(value):
    return value.log() if isinstance(value, Tensor) else math.log(value)


class RelaxedBernoulli(_Transformed):
    """A continuous form of the Bernoulli distribution, through which gradients flow."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, _common = constraints.unit_interval, ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        from .discrete import _logits_and_probs
        self.probs, self.logits = _logits_and_probs(probs, logits, "RelaxedBernoulli", True)
        self._computed = "logits" if logits is None else "probs"
        self.temperature = temperature
        super().__init__(_LogitRelaxed(temperature, self.probs, self.logits), SigmoidTransform(), validate_args)


class _ExpRelaxedCategorical(Distribution):
    """The logarithm of a relaxed one-hot variable."""
    support, has_rsample, _common = constraints.real_vector, True, ("temperature",)

    def __init__(self, temperature, logits):
        self.temperature, self.logits = temperature, logits
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def rsample(self, sample_shape=()):
        u = clamp_probs(_C.rand(self._shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value):
        count = self.logits.shape[-1]
        logits, value = _C.broadcast_tensors([self.logits, value])
        scale = math.lgamma(count) + (count - 1) * _log(self.temperature)
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, True)).sum(-1) + scale


class RelaxedOneHotCategorical(_Transformed):
    """A continuous form of OneHotCategorical, through which gradients flow."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, _common = constraints.simplex, ("temperature",)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        from .discrete import Categorical
        base = Categorical(probs, logits, validate_args=False)
        self.probs, self.logits, self.temperature = base.probs, base.logits, temperature
        self._computed = "logits" if logits is None else "probs"
        super().__init__(_ExpRelaxedCategorical(temperature, self.logits), ExpTransform(), validate_args)
