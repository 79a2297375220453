"""Distributions that fewer programs use."""
import math

from .. import _C
from .._modes import no_grad
from . import constraints
from .discrete import Categorical, OneHotCategorical, Poisson, _logits_and_probs, _OfProbs
from .distribution import Distribution, ExponentialFamily, _broadcast
from .gamma import Gamma, _standard_gamma


class NegativeBinomial(_OfProbs):
    """Successes before `total_count` failures."""
    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "NegativeBinomial", True)
        self.total_count = _C.broadcast_tensors([_broadcast(total_count)[0], self.probs])[0].to(self.probs.dtype)
        self._computed = "logits" if logits is None else "probs"
        super().__init__(_C.broadcast_tensors([self.total_count, self.probs])[0].shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp_min(0))
    variance = property(lambda self: self.mean / _C.sigmoid(-self.logits))

    def sample(self, sample_shape=()):
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return Poisson(rate, validate_args=False).sample()

    def log_prob(self, value):
        self._validate_sample(value)
        unnormalized = self.total_count * _C.logsigmoid(-self.logits) + value * _C.logsigmoid(self.logits)
        norm = -_C.lgamma(self.total_count + value) + _C.lgamma(1 + value) + _C.lgamma(self.total_count)
        return unnormalized - _C.where(self.total_count + value == 0, 0.0, norm)


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 numbers, each divided by its degrees of freedom `df1` and `df2`."""
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = _broadcast(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    mean = property(lambda self: _C.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan))

    @property
    def mode(self):
        at = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _C.where(self.df1 > 2, at, math.nan)

    @property
    def variance(self):
        a, b = self.df1, self.df2
        return _C.where(b > 4, 2 * b ** 2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), math.nan)

    def rsample(self, sample_shape=()):
        upper = _standard_gamma((self.df1 / 2).expand(self._shape(sample_shape))) / self.df1
        lower = _standard_gamma((self.df2 / 2).expand(self._shape(sample_shape))) / self.df2
        return upper / lower.clamp_min(1.2e-38)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        t1 = _C.lgamma(a + b) - _C.lgamma(a) - _C.lgamma(b)
        return t1 + a * ratio.log() + (a - 1) * value.log() - (a + b) * _C.log1p(ratio * value)


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold `loc`, with `scale`; the tail is heavier, the larger `concentration` is."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = _broadcast(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def support(self):
        limited = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, _C.where(self.concentration < 0, limited, math.inf))

    mode = property(lambda self: self.loc)
    mean = property(lambda self: _C.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.nan))

    @property
    def variance(self):
        c = self.concentration
        return _C.where(c < 0.5, self.scale ** 2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def _by_shape(self, exponential, power):
        """The first where the concentration is 0, else the second, a function of the concentration."""
        none = self.concentration.abs() < 1e-8
        return _C.where(none, exponential, power(_C.where(none, 1.0, self.concentration)))

    def rsample(self, sample_shape=()):
        return self.icdf(_C.rand(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -self.scale.log() - self._by_shape(z, lambda c: (1 + 1 / c) * _C.log1p(c * z))

    def cdf(self, value):
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -_C.expm1(-self._by_shape(z, lambda c: _C.log1p(c * z) / c))

    def icdf(self, value):
        tail = -_C.log1p(-value)
        return self.loc + self.scale * self._by_shape(tail, lambda c: _C.expm1(c * tail) / c)

    def entropy(self):
        return self.scale.log() + self.concentration + 1


class ContinuousBernoulli(_OfProbs, ExponentialFamily):
    """A distribution over [0, 1] with density proportional to p^x (1 - p)^(1 - x)."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "ContinuousBernoulli", True)
        self.probs = self.probs.clamp(1.2e-7, 1 - 1.2e-7)
        self._lims, self._computed = lims, "logits" if logits is None else "probs"
        super().__init__(self.probs.shape, validate_args=validate_args)

    def _outside(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        return _C.where(self._outside(), self.probs, self._lims[0])

    def _log_norm(self):
        cut = self._cut()
        exact = ((_C.log1p(-cut) - cut.log()).abs()).log() - _C.where(
            cut <= 0.5, _C.log1p(-2 * _C.where(cut <= 0.5, cut, 0.0)), (2 * _C.where(cut >= 0.5, cut, 1.0) - 1).log())
        x = (self.probs - 0.5) ** 2
        return _C.where(self._outside(), exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self):
        cut, x = self._cut(), self.probs - 0.5
        exact = cut / (2 * cut - 1) + 1 / (_C.log1p(-cut) - cut.log())
        return _C.where(self._outside(), exact, 0.5 + (1 / 3 + 16 / 45 * x ** 2) * x)

    @property
    def variance(self):
        cut, x = self._cut(), (self.probs - 0.5) ** 2
        exact = cut * (cut - 1) / (1 - 2 * cut) ** 2 + 1 / (_C.log1p(-cut) - cut.log()) ** 2
        return _C.where(self._outside(), exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape=()):
        return self.icdf(_C.rand(self._shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def icdf(self, value):
        cut = self._cut()
        exact = (_C.log1p(-cut + value * (2 * cut - 1)) - _C.log1p(-cut)) / (cut.log() - _C.log1p(-cut))
        return _C.where(self._outside(), exact, value)

    def cdf(self, value):
        cut = self._cut()
        exact = (cut ** value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        inside = _C.where(self._outside(), exact, value)
        return _C.where(value <= 0, 0.0, _C.where(value >= 1, 1.0, inside))

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = _C.broadcast_tensors([self.logits, value])
        return -_C.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def entropy(self):
        log0, log1 = _C.log1p(-self.probs), self.probs.log()
        return self.mean * (log0 - log1) - self._log_norm() - log0


class VonMises(Distribution):
    """The normal distribution of angles."""
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = _broadcast(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        k = self.concentration
        return 1 - _C.special.i1e(k) / _C.special.i0e(k)

    def log_prob(self, value):
        self._validate_sample(value)
        k = self.concentration
        log_i0 = _C.special.i0e(k).log() + k
        return k * _C.cos(value - self.loc) - math.log(2 * math.pi) - log_i0

    def sample(self, sample_shape=()):
        """Best and Fisher's rejection sampling."""
        with no_grad():
            shape = self._shape(sample_shape)
            k = self.concentration.to(_C.float64).expand(shape)
            tau = 1 + (1 + 4 * k ** 2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = _C.where(k < 1e-5, 1 / k + k, (1 + rho ** 2) / (2 * rho))
            angle, done = _C.zeros_like(k), _C.zeros_like(k).bool()
            while not bool(done.all()):
                u = _C.rand((3,) + shape, dtype=_C.float64, device=k.device)
                z = _C.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                angle = _C.where(accept & ~done, (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
                done = done | accept
            return ((angle + math.pi + self.loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose rsample passes gradients to the probabilities."""
    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class MixtureSameFamily(Distribution):
    """A mixture: a Categorical over the last dim of the components' batch."""
    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        batch = tuple(component_distribution.batch_shape)
        if batch[-1] != mixture_distribution.probs.shape[-1]:
            raise ValueError(f"`mixture_distribution component` ({mixture_distribution.probs.shape[-1]}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({batch[-1]})")
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    support = property(lambda self: self.component_distribution.support)

    def _weights(self):
        return self.mixture_distribution.probs.reshape(
            tuple(self.mixture_distribution.probs.shape) + (1,) * len(self.event_shape))

    def _over(self, value):
        return value.sum(-1 - len(self.event_shape))

    mean = property(lambda self: self._over(self._weights() * self.component_distribution.mean))

    @property
    def variance(self):
        part = self.component_distribution
        apart = part.mean - self.mean.unsqueeze(-1 - len(self.event_shape))
        return self._over(self._weights() * part.variance) + self._over(self._weights() * apart ** 2)

    def _padded(self, value):
        return value.unsqueeze(-1 - len(self.event_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        chosen = _C.log_softmax(self.mixture_distribution.logits, -1)
        return (self.component_distribution.log_prob(self._padded(value)) + chosen).logsumexp(-1)

    def cdf(self, value):
        return (self.component_distribution.cdf(self._padded(value)) * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape=()):
        with no_grad():
            which = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            dim = len(tuple(sample_shape)) + len(self.batch_shape)
            index = which.reshape(tuple(which.shape) + (1,) * (len(self.event_shape) + 1))
            index = index.expand(tuple(which.shape) + (1,) + tuple(self.event_shape))
            return samples.gather(dim, index).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
