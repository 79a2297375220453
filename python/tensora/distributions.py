"""Probability distributions: the common ones, over ops."""
import math

from . import _C
from ._C import Tensor
from ._modes import no_grad

__all__ = ["Distribution", "Normal", "LogNormal", "Uniform", "Bernoulli", "Categorical", "OneHotCategorical",
           "Exponential", "Laplace", "Gamma", "Beta", "Dirichlet", "MultivariateNormal", "Independent", "Cauchy",
           "Geometric", "HalfNormal", "Poisson", "Binomial", "Multinomial", "StudentT", "Chi2", "Gumbel",
           "kl_divergence", "register_kl"]


def _broadcast(*values):
    """Parameters as tensors of one shape and dtype."""
    dtype = next((v.dtype for v in values if isinstance(v, Tensor) and v.is_floating_point()), _C.get_default_dtype())
    device = next((v.device for v in values if isinstance(v, Tensor)), None)
    tensors = [v if isinstance(v, Tensor) else _C.tensor(v, dtype=dtype, device=device) for v in values]
    return _C.broadcast_tensors(tensors)


class Distribution:
    """The base: a subclass writes log_prob, and sample or rsample."""
    has_rsample = False
    has_enumerate_support = False
    arg_constraints = {}

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = _C.Size(batch_shape), _C.Size(event_shape)

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    def _shape(self, sample_shape):
        return tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape)

    def sample(self, sample_shape=()):
        """A sample, outside of the graph."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """A sample through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def sample_n(self, n):
        return self.sample((n,))

    def log_prob(self, value):
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def perplexity(self):
        return self.entropy().exp()

    def __repr__(self):
        shown = [f"{k}: {v if isinstance(v, Tensor) and v.numel() == 1 else getattr(v, 'shape', v)}"
                 for k, v in self.__dict__.items() if not k.startswith("_")]
        return f"{type(self).__name__}({', '.join(shown)})"


class Normal(Distribution):
    """The normal distribution.

    >>> tensora.distributions.Normal(0., 1.).log_prob(tensora.tensor(0.))
    tensor(-0.9189)
    """
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        if validate_args is not False and not bool((self.scale > 0).all()):
            raise ValueError("Normal: expected a scale greater than 0")
        super().__init__(self.loc.shape)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale ** 2)

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * _C.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value):
        return -((value - self.loc) ** 2) / (2 * self.scale ** 2) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    def cdf(self, value):
        return 0.5 * (1 + _C.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value):
        return self.loc + self.scale * _C.erfinv(2 * value - 1) * math.sqrt(2)


class LogNormal(Distribution):
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self._base = Normal(loc, scale)
        self.loc, self.scale = self._base.loc, self._base.scale
        super().__init__(self.loc.shape)

    mean = property(lambda self: (self.loc + self.scale ** 2 / 2).exp())
    variance = property(lambda self: (self.scale ** 2).expm1() * (2 * self.loc + self.scale ** 2).exp())

    def rsample(self, sample_shape=()):
        return self._base.rsample(sample_shape).exp()

    def log_prob(self, value):
        return self._base.log_prob(value.log()) - value.log()

    def entropy(self):
        return self._base.entropy() + self.loc


class HalfNormal(Distribution):
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        self._base = Normal(0.0, scale)
        self.scale = self._base.scale
        super().__init__(self.scale.shape)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale ** 2 * (1 - 2 / math.pi))

    def rsample(self, sample_shape=()):
        return self._base.rsample(sample_shape).abs()

    def log_prob(self, value):
        return _C.where(value >= 0, self._base.log_prob(value) + math.log(2), -math.inf)

    def entropy(self):
        return self._base.entropy() - math.log(2)


class Uniform(Distribution):
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = _broadcast(low, high)
        if validate_args is not False and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low >= high")
        super().__init__(self.low.shape)

    mean = property(lambda self: (self.low + self.high) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape=()):
        return self.low + (self.high - self.low) * _C.rand(self._shape(sample_shape), dtype=self.low.dtype,
                                                           device=self.low.device)

    def log_prob(self, value):
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self):
        return (self.high - self.low).log()

    def cdf(self, value):
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)


class Exponential(Distribution):
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        self.rate, = _broadcast(rate)
        super().__init__(self.rate.shape)

    mean = property(lambda self: 1 / self.rate)
    variance = property(lambda self: self.rate ** -2)

    def rsample(self, sample_shape=()):
        return _C.empty(self._shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value):
        return self.rate.log() - self.rate * value

    def entropy(self):
        return 1 - self.rate.log()


class Laplace(Distribution):
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape)

    mean = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale ** 2)

    def rsample(self, sample_shape=()):
        u = _C.rand(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc - self.scale * u.sign() * _C.log1p(-2 * u.abs().clamp_max(0.5 - 1e-7))

    def log_prob(self, value):
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self):
        return 1 + (2 * self.scale).log()


class Cauchy(Distribution):
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape)

    def rsample(self, sample_shape=()):
        u = _C.rand(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * _C.tan(math.pi * (u - 0.5))

    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - _C.log1p(((value - self.loc) / self.scale) ** 2)

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(Distribution):
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = _broadcast(loc, scale)
        super().__init__(self.loc.shape)

    def rsample(self, sample_shape=()):
        e = _C.empty(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device).exponential_()
        return self.loc - self.scale * e.log()

    def log_prob(self, value):
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()


def _logits_and_probs(probs, logits, who, binary):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    if binary:
        if probs is not None:
            probs, = _broadcast(probs)
            eps = 1.2e-7 if probs.dtype is not _C.float64 else 2.3e-16
            inside = probs.clamp(eps, 1 - eps)
            return probs, inside.log() - _C.log1p(-inside)
        logits, = _broadcast(logits)
        return _C.sigmoid(logits), logits
    if probs is not None:
        if probs.dim() < 1:
            raise ValueError("`probs` parameter must be at least one-dimensional.")
        if not bool((probs >= 0).all()):
            raise ValueError(f"{who}: expected probs that are not negative")
        probs = probs / probs.sum(-1, True)
        eps = 1.2e-7 if probs.dtype is not _C.float64 else 2.3e-16
        return probs, probs.clamp(eps, 1 - eps).log()
    if logits.dim() < 1:
        raise ValueError("`logits` parameter must be at least one-dimensional.")
    logits = logits - logits.logsumexp(-1, True)
    return logits.exp(), logits


class Bernoulli(Distribution):
    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Bernoulli", True)
        super().__init__(self.probs.shape)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        with no_grad():
            return _C.bernoulli(self.probs.expand(self._shape(sample_shape)).contiguous())

    def log_prob(self, value):
        logits, value = _C.broadcast_tensors([self.logits, value.to(self.logits.dtype)])
        return -_C.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return _C.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Geometric(Distribution):
    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Geometric", True)
        super().__init__(self.probs.shape)

    mean = property(lambda self: 1 / self.probs - 1)
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    def sample(self, sample_shape=()):
        with no_grad():
            u = _C.rand(self._shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device).clamp_min(1e-30)
            return (u.log() / _C.log1p(-self.probs)).floor()

    def log_prob(self, value):
        return value * _C.log1p(-self.probs) + self.probs.log()


class Categorical(Distribution):
    """Numbers 0, 1, … with given probabilities.

    >>> tensora.distributions.Categorical(tensora.tensor([0.25, 0.75])).log_prob(tensora.tensor(1))
    tensor(-0.2877)
    """

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Categorical", False)
        self._num_events = self.probs.shape[-1]
        super().__init__(self.probs.shape[:-1])

    def sample(self, sample_shape=()):
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            count = _C.Size(sample_shape).numel() if sample_shape else 1
            return _C.multinomial(rows, count, True).t().reshape(self._shape(sample_shape))

    def log_prob(self, value):
        value = value.to(_C.int64).unsqueeze(-1)
        shape = _C.broadcast_tensors([value[..., 0], self.logits[..., 0]])[0].shape
        return self.logits.expand(tuple(shape) + (self._num_events,)).gather(
            -1, value.expand(tuple(shape) + (1,))).squeeze(-1)

    def entropy(self):
        return -(self.logits.clamp_min(_lowest(self.logits.dtype)) * self.probs).sum(-1)

    mode = property(lambda self: self.probs.argmax(-1))


def _lowest(dtype):
    from ._dtypes import finfo
    return finfo(dtype).min


class OneHotCategorical(Distribution):
    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:])

    mean = property(lambda self: self.probs)

    def sample(self, sample_shape=()):
        return _C.one_hot(self._categorical.sample(sample_shape), self.probs.shape[-1]).to(self.probs.dtype)

    def log_prob(self, value):
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()


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
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = _broadcast(concentration, rate)
        super().__init__(self.rate.shape)

    mean = property(lambda self: self.concentration / self.rate)
    variance = property(lambda self: self.concentration / self.rate ** 2)

    def rsample(self, sample_shape=()):
        return _standard_gamma(self.concentration.expand(self._shape(sample_shape))) / self.rate

    def log_prob(self, value):
        return (self.concentration * self.rate.log() + (self.concentration - 1) * value.log() - self.rate * value
                - _C.lgamma(self.concentration))

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + _C.lgamma(a) + (1 - a) * _C.digamma(a)


class Chi2(Gamma):
    def __init__(self, df, validate_args=None):
        df, = _broadcast(df)
        self.df = df
        super().__init__(df / 2, _C.full_like(df, 0.5))


class StudentT(Distribution):
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = _broadcast(df, loc, scale)
        super().__init__(self.df.shape)

    def rsample(self, sample_shape=()):
        x = _C.randn(self._shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        z = Chi2(self.df).rsample(sample_shape)
        return self.loc + self.scale * x * (self.df / z).sqrt()

    def log_prob(self, value):
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + _C.lgamma(0.5 * self.df) \
            - _C.lgamma(0.5 * (self.df + 1))
        return -0.5 * (self.df + 1) * _C.log1p(y ** 2 / self.df) - z


class Dirichlet(Distribution):
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:])

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    def rsample(self, sample_shape=()):
        gammas = _standard_gamma(self.concentration.expand(self._shape(sample_shape)))
        return gammas / gammas.sum(-1, True)

    def log_prob(self, value):
        a = self.concentration
        return ((a - 1) * value.log()).sum(-1) + _C.lgamma(a.sum(-1)) - _C.lgamma(a).sum(-1)

    def entropy(self):
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (_C.lgamma(a).sum(-1) - _C.lgamma(total) - (k - total) * _C.digamma(total)
                - ((a - 1) * _C.digamma(a)).sum(-1))


class Beta(Distribution):
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = _broadcast(concentration1, concentration0)
        self._dirichlet = Dirichlet(_C.stack([self.concentration1, self.concentration0], -1))
        super().__init__(self.concentration1.shape)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value):
        return self._dirichlet.log_prob(_C.stack([value, 1 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()


class Poisson(Distribution):
    def __init__(self, rate, validate_args=None):
        self.rate, = _broadcast(rate)
        super().__init__(self.rate.shape)

    mean = variance = property(lambda self: self.rate)

    def sample(self, sample_shape=()):
        with no_grad():  # counts exponential waiting times that fit into 1
            rate = self.rate.expand(self._shape(sample_shape))
            count, time = _C.zeros_like(rate), _C.empty(rate.shape, dtype=rate.dtype).exponential_() / rate
            while bool((time < 1).any()):
                count = count + (time < 1).to(rate.dtype)
                time = time + _C.empty(rate.shape, dtype=rate.dtype).exponential_() / rate
            return count

    def log_prob(self, value):
        return value * self.rate.log() - self.rate - _C.lgamma(value + 1)


class Binomial(Distribution):
    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Binomial", True)
        self.total_count = total_count
        super().__init__(self.probs.shape)

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        most = int(self.total_count.max()) if isinstance(self.total_count, Tensor) else self.total_count
        with no_grad():
            draws = _C.rand((most,) + self._shape(sample_shape), dtype=self.probs.dtype) < self.probs
            if isinstance(self.total_count, Tensor):
                steps = _C.arange(most).reshape([most] + [1] * (draws.dim() - 1))
                draws = draws & (steps < self.total_count)
            return draws.to(self.probs.dtype).sum(0)

    def log_prob(self, value):
        n = self.total_count if isinstance(self.total_count, Tensor) else _C.tensor(float(self.total_count))
        n = n.to(self.probs.dtype)
        norm = _C.lgamma(n + 1) - _C.lgamma(value + 1) - _C.lgamma(n - value + 1)
        return norm + value * self.logits - n * _C.softplus(self.logits)


class Multinomial(Distribution):
    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.total_count, self.probs, self.logits = total_count, self._categorical.probs, self._categorical.logits
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:])

    def sample(self, sample_shape=()):
        draws = self._categorical.sample((self.total_count,) + tuple(sample_shape))
        return _C.one_hot(draws, self.probs.shape[-1]).sum(0).to(self.probs.dtype)

    def log_prob(self, value):
        return _C.lgamma(value.sum(-1) + 1) - _C.lgamma(value + 1).sum(-1) + (self.logits * value).sum(-1)


class MultivariateNormal(Distribution):
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if precision_matrix is not None:
            covariance_matrix = _C.linalg.inv(precision_matrix)
        self.scale_tril = _C.linalg.cholesky(covariance_matrix) if scale_tril is None else scale_tril
        self.loc = loc
        super().__init__(loc.shape[:-1], loc.shape[-1:])

    mean = property(lambda self: self.loc)
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)

    def rsample(self, sample_shape=()):
        eps = _C.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        difference = (value - self.loc).unsqueeze(-1)
        tril = self.scale_tril.expand(tuple(difference.shape[:-2]) + tuple(self.scale_tril.shape[-2:]))
        z = _C.linalg.solve_triangular(tril, difference, upper=False)
        return (-0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + (z ** 2).sum((-2, -1)))) - self._half_log_det()

    def entropy(self):
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class Independent(Distribution):
    """The last dims of the batch as one event."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        self.base_dist, self._dims = base_distribution, reinterpreted_batch_ndims
        shape = tuple(base_distribution.batch_shape)
        cut = len(shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:] + tuple(base_distribution.event_shape))

    mean = property(lambda self: self.base_dist.mean)
    variance = property(lambda self: self.base_dist.variance)

    def _summed(self, value):
        return value.sum(tuple(range(-self._dims, 0))) if self._dims else value

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self):
        return self._summed(self.base_dist.entropy())


_divergences = {}


def register_kl(type_p, type_q):
    """Decorates the function that computes kl_divergence of two types."""
    def register(function):
        _divergences[type_p, type_q] = function
        return function
    return register


def kl_divergence(p, q):
    """The Kullback–Leibler divergence of two distributions."""
    for (first, second), function in _divergences.items():
        if isinstance(p, first) and isinstance(q, second):
            return function(p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")


@register_kl(Normal, Normal)
def _normals(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categoricals(p, q):
    return (p.probs * (p.logits - q.logits)).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p, q):
    return p.probs * (p.logits - q.logits) + _C.softplus(q.logits) - _C.softplus(p.logits)


@register_kl(Independent, Independent)
def _independents(p, q):
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(Gamma, Gamma)
def _gammas(p, q):
    a, b = p.concentration, q.concentration
    return (b * (p.rate / q.rate).log() + _C.lgamma(b) - _C.lgamma(a) + (a - b) * _C.digamma(a)
            + (q.rate - p.rate) * (a / p.rate))
