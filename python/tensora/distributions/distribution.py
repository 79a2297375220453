"""The base of all distributions."""
from .. import _C
from .._C import Tensor
from .._modes import no_grad


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
