"""Special functions, as torch.special."""
import math

from . import _C
from ._copies import into
from ._dtypes import result_type
from ._functions import as_tensor
from .autograd import Function

_SAME = ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "log_softmax", "logit", "logsumexp", "round",
         "sinc", "softmax", "xlogy", "polygamma")
globals().update({name: getattr(_C, name) for name in _SAME if hasattr(_C, name)})
globals().update({name: value for name, value in vars(_C.special).items() if not name.startswith("__")})
expit, gammaln, psi = _C.sigmoid, _C.lgamma, _C.digamma
multigammaln = getattr(_C, "mvlgamma", None)


def ndtr(input, *, out=None):
    """The standard normal distribution's cumulative function."""
    return into(out, 0.5 * _C.erfc(input * -math.sqrt(0.5)))


def _inexact(value, other):
    """A tensor of the dtype in which the two are computed; whole numbers are as floats."""
    dtype = result_type(value, other)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = _C.get_default_dtype()
    return as_tensor(value, dtype=dtype)


class _Xlog1py(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        # 0 times the logarithm of 1, where it would be an infinite one, or NaN.
        return x * _C.log1p(_C.where((x == 0) & ~_C.isnan(y), 0, y))

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return _C.where((x == 0) & (y <= -1), 0, _Xlog1py.apply(grad, y)), grad * x / (y + 1)


def xlog1py(input, other, *, out=None):
    """x log(1 + y), 0 where x is 0."""
    return into(out, _Xlog1py.apply(*_C.broadcast_tensors([_inexact(input, other), _inexact(other, input)])))
