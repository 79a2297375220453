"""The base of all distributions."""
from numbers import Number

from .. import _C
from .._C import Tensor
from .._modes import enable_grad, no_grad


def _broadcast(*values):
    """Parameters as tensors of one shape and dtype."""
    for value in values:
        if not isinstance(value, (Tensor, Number)) and not hasattr(type(value), "__torch_function__"):
            raise ValueError("distributions: parameters must be numbers or tensors, got a " + type(value).__name__)
    dtype = next((v.dtype for v in values if isinstance(v, Tensor) and v.is_floating_point()), _C.get_default_dtype())
    device = next((v.device for v in values if isinstance(v, Tensor)), None)
    tensors = [v if isinstance(v, Tensor) else _C.tensor(v, dtype=dtype, device=device) for v in values]
    return _C.broadcast_tensors(tensors)


class Distribution:
    """The base: a subclass writes log_prob, and sample or rsample."""
    has_rsample = False
    has_enumerate_support = False
    arg_constraints = {}
    support = None
    _validate_args = True
    _computed = None  # a parameter that follows from another one, and is not checked
    _common = ()  # tensors that have no dims of the batch

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check their parameters and samples if nothing else is said."""
        if value not in (True, False):
            raise ValueError(f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = _C.Size(batch_shape), _C.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        for name in self.arg_constraints:
            if name in self.__dict__ and name != self._computed:
                self._check_argument(name, self.__dict__[name], validate_args)

    def _check_argument(self, name, value, validate_args):
        """Raises unless the parameter satisfies its constraint."""
        if not (self._validate_args if validate_args is None else validate_args):
            return
        value = value if isinstance(value, Tensor) else _C.tensor(value)
        constraint = self.arg_constraints[name]
        if not bool(constraint.check(value.detach()).all()):
            raise ValueError(f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution "
                             f"{type(self).__name__} to satisfy the constraint {constraint!r}, but found invalid "
                             f"values:\n{value}")

    def _validate_sample(self, value):
        """Raises unless the argument of log_prob is one of the values that the distribution has."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        if self.support is not None and not bool(self.support.check(value.detach()).all()):
            raise ValueError(f"Expected value argument (Tensor of shape {tuple(value.shape)}) to be within the support "
                             f"({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}")

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

    def _extended_shape(self, sample_shape=()):
        """PyTorch's name, which distributions of programs use."""
        return _C.Size(self._shape(sample_shape))

    def sample_n(self, n):
        return self.sample((n,))

    def log_prob(self, value):
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self):
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    @property
    def mean(self):
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self):
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self):
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self):
        return self.variance.sqrt()

    def perplexity(self):
        return self.entropy().exp()

    def cdf(self, value):
        """The probability of values up to this one."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value):
        """The value up to which the probability is this."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def _get_checked_instance(self, cls, _instance=None):
        """What the expand of a program's own distribution fills: `_instance`, or an empty object of its type."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                                      "must also define a custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def expand(self, batch_shape, _instance=None):
        """The distribution with a larger batch, of which the parameters are views."""
        batch, result = tuple(batch_shape), self.__new__(type(self)) if _instance is None else _instance
        for name, value in self.__dict__.items():
            result.__dict__.setdefault(name, value)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and value.dim() >= len(self._batch_shape) and name not in self._common:
                rest = tuple(value.shape)[len(self._batch_shape):]
                result.__dict__[name] = value.expand(batch + rest)
            elif isinstance(value, Distribution):
                extra = tuple(value.batch_shape)[len(self._batch_shape):]
                result.__dict__[name] = value.expand(batch + extra)
        result._batch_shape = _C.Size(batch)
        return result

    def enumerate_support(self, expand=True):
        """All values of a distribution over few."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__ and name != self._computed]
        values = ((name, self.__dict__[name]) for name in names)
        shown = [f"{k}: {v if not isinstance(v, Tensor) or v.numel() == 1 else v.shape}" for k, v in values]
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions of an exponential family. One of a program's own gets its entropy and its divergences from
    `_natural_params`, `_log_normalizer(*params)` and `_mean_carrier_measure`."""

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__} has no _natural_params")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__} has no _log_normalizer")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self).__name__} has no _mean_carrier_measure")

    def _normalized(self):
        """The natural parameters, the logarithm of the normalizer, and its gradients by the parameters."""
        from ..autograd import grad
        with enable_grad():
            parameters = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            return parameters, normalizer, grad(normalizer.sum(), parameters, create_graph=True)

    def entropy(self):
        parameters, normalizer, slopes = self._normalized()
        result = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(parameters, slopes):
            result = result - (parameter * slope).reshape(tuple(self._batch_shape) + (-1,)).sum(-1)
        return result


class Independent(Distribution):
    """The last dims of the batch as one event."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        shape = tuple(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > len(shape):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                             f"actual {reinterpreted_batch_ndims} vs {len(shape)}")
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = self._dims = reinterpreted_batch_ndims
        cut = len(shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:] + tuple(base_distribution.event_shape), validate_args)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist!r}, {self._dims})"

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)
    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def support(self):
        from . import constraints
        inner = self.base_dist.support
        return constraints.independent(inner, self._dims) if inner is not None and self._dims else inner

    def expand(self, batch_shape, _instance=None):
        inner = tuple(self.base_dist.batch_shape)
        shape = tuple(batch_shape) + inner[len(inner) - self._dims:]
        return Independent(self.base_dist.expand(shape), self._dims, validate_args=self._validate_args)

    has_enumerate_support = property(lambda self: not self._dims and self.base_dist.has_enumerate_support)

    def enumerate_support(self, expand=True):
        if self._dims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

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
