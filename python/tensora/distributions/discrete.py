"""Distributions over classes and counts."""
import math

from .. import _C
from .._C import Tensor
from .._modes import no_grad
from .._dtypes import finfo
from . import constraints, counts
from .distribution import Distribution, ExponentialFamily, _broadcast


def _logits_and_probs(probs, logits, who, binary):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    if binary:
        if probs is not None:
            probs, = _broadcast(probs)
            eps = finfo(probs.dtype).eps
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
        eps = finfo(probs.dtype).eps
        return probs, probs.clamp(eps, 1 - eps).log()
    if logits.dim() < 1:
        raise ValueError("`logits` parameter must be at least one-dimensional.")
    logits = logits - logits.logsumexp(-1, True)
    return logits.exp(), logits


class _OfProbs(Distribution):
    """A distribution with probabilities."""
    param_shape = property(lambda self: self.probs.shape)


class _Enumerable(_OfProbs):
    """A distribution over few values."""
    has_enumerate_support = True

    def _values(self):
        """All values, along the first dim."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values, along a new first dim; the dims of the batch have their size with `expand`, and 1 without."""
        values = self._values()
        event = tuple(self._event_shape)
        values = values.reshape((values.shape[0],) + (1,) * len(self._batch_shape) + event)
        return values.expand((values.shape[0],) + tuple(self._batch_shape) + event) if expand else values


class Bernoulli(_Enumerable, ExponentialFamily):
    """0 or 1, which has probability `probs`; or its logit."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Bernoulli", True)
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape, validate_args=validate_args)

    mean = property(lambda self: self.probs)
    mode = property(lambda self: _C.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype)))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _values(self):
        return _C.arange(2, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape=()):
        with no_grad():
            return _C.bernoulli(self.probs.expand(self._shape(sample_shape)).contiguous())

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = _C.broadcast_tensors([self.logits, value.to(self.logits.dtype)])
        return -_C.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return _C.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Geometric(Distribution):
    """How often a trial with probability `probs` fails before it succeeds."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Geometric", True)
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape, validate_args=validate_args)
        if self._validate_args and self._computed == "logits" and not bool((self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution Geometric "
                             f"to be positive but found invalid values:\n{self.probs}")

    mode = property(lambda self: _C.zeros_like(self.probs))
    mean = property(lambda self: 1 / self.probs - 1)
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)

    def sample(self, sample_shape=()):
        with no_grad():
            u = _C.empty(self._shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            u.uniform_(finfo(u.dtype).tiny, 1)
            return (u.log() / _C.log1p(-self.probs)).floor()

    def log_prob(self, value):
        self._validate_sample(value)
        fails = _C.log1p(-_C.where((self.probs == 1) & (value == 0), 0.0, self.probs))
        return value * fails + self.probs.log()

    def entropy(self):
        return _C.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Categorical(_Enumerable, ExponentialFamily):
    """Numbers 0, 1, … with given probabilities.

    >>> tensora.distributions.Categorical(tensora.tensor([0.25, 0.75])).log_prob(tensora.tensor(1))
    tensor(-0.2877)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = property(lambda self: constraints.integer_interval(0, self._num_events - 1))

    def __init__(self, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Categorical", False)
        self._num_events = self.probs.shape[-1]
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape[:-1], validate_args=validate_args)

    def _values(self):
        return _C.arange(self._num_events, device=self.probs.device)

    def sample(self, sample_shape=()):
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            count = _C.Size(sample_shape).numel() if sample_shape else 1
            return _C.multinomial(rows, count, True).t().reshape(self._shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        value = value.to(_C.int64).unsqueeze(-1)
        shape = _C.broadcast_tensors([value[..., 0], self.logits[..., 0]])[0].shape
        return self.logits.expand(tuple(shape) + (self._num_events,)).gather(
            -1, value.expand(tuple(shape) + (1,))).squeeze(-1)

    def entropy(self):
        return -(self.logits.clamp_min(_lowest(self.logits.dtype)) * self.probs).sum(-1)

    mode = property(lambda self: self.probs.argmax(-1))
    mean = variance = property(lambda self: _C.full_like(self.probs[..., 0], math.nan))


def _lowest(dtype):
    return finfo(dtype).min


class OneHotCategorical(_Enumerable):
    """One-hot vectors, with probabilities along the last dim."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args=False)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:], validate_args=validate_args)

    mode = property(lambda self: _C.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype))
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _values(self):
        return _C.eye(self.probs.shape[-1], dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape=()):
        return _C.one_hot(self._categorical.sample(sample_shape), self.probs.shape[-1]).to(self.probs.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()


class Poisson(ExponentialFamily):
    """How many events happen where `rate` are expected."""
    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self.rate, = _broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)

    mode = property(lambda self: self.rate.floor())

    def sample(self, sample_shape=()):
        return counts.poisson(self.rate.expand(self._shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        rate, value = _broadcast(self.rate, value)
        return _C.xlogy(value, rate) - rate - _C.lgamma(value + 1)


class Binomial(_Enumerable):
    """How many of `total_count` trials with probability `probs` succeed."""
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    support = property(lambda self: constraints.integer_interval(0, self.total_count))

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.probs, self.logits = _logits_and_probs(probs, logits, "Binomial", True)
        if isinstance(total_count, complex):
            raise ValueError(f"Binomial: total_count must be a number of trials, got {total_count}")
        total_count = total_count if isinstance(total_count, Tensor) else _C.tensor(total_count, device=self.probs.device)
        self.total_count, self.probs = _C.broadcast_tensors([total_count.to(self.probs.dtype), self.probs])
        self.logits = self.logits.expand(self.probs.shape)
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape, validate_args=validate_args)

    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().minimum(self.total_count))
    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def _values(self):
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support` and `entropy`.")
        return _C.arange(most + 1, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape=()):
        shape = self._shape(sample_shape)
        return counts.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        norm = _C.lgamma(n + 1) - _C.lgamma(value + 1) - _C.lgamma(n - value + 1)
        return norm + value * self.logits - n * _C.softplus(self.logits)

    def entropy(self):
        log_probs = self.log_prob(self.enumerate_support(False))
        return -(log_probs.exp() * log_probs).sum(0)


class Multinomial(_OfProbs):
    """How often each class is drawn in `total_count` draws."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = property(lambda self: constraints.multinomial(self.total_count))

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError(f"Multinomial: total_count must be one int, got {total_count!r}")
        if total_count < 0:
            raise ValueError(f"Multinomial: total_count must not be negative, got {total_count}")
        self._categorical = Categorical(probs, logits, validate_args=False)
        self.total_count, self.probs, self.logits = total_count, self._categorical.probs, self._categorical.logits
        self._computed = "logits" if logits is None else "probs"
        super().__init__(self.probs.shape[:-1], self.probs.shape[-1:], validate_args=validate_args)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=()):
        draws = self._categorical.sample((self.total_count,) + tuple(sample_shape))
        return _C.one_hot(draws, self.probs.shape[-1]).sum(0).to(self.probs.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        logits = _C.where((value == 0) & (self.logits == -math.inf), 0.0, self.logits)
        return _C.lgamma(value.sum(-1) + 1) - _C.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self):
        n = self.total_count
        parts = Binomial(n, probs=self.probs, validate_args=False)
        counted = parts.enumerate_support(False)[1:]
        repeated = (parts.log_prob(counted).exp() * _C.lgamma(counted + 1)).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + repeated
