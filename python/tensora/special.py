"""Special functions, as torch.special."""
import math

from . import _C

_SAME = ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "log_softmax", "logit", "logsumexp", "round",
         "sinc", "softmax", "xlogy", "polygamma")
globals().update({name: getattr(_C, name) for name in _SAME if hasattr(_C, name)})
expit, gammaln, psi = _C.sigmoid, _C.lgamma, _C.digamma
multigammaln = getattr(_C, "mvlgamma", None)


def ndtr(input):
    """The standard normal distribution's cumulative function."""
    return 0.5 * _C.erfc(input * -math.sqrt(0.5))


def ndtri(input):
    """Its inverse."""
    return math.sqrt(2) * _C.erfinv(2 * input - 1)


def entr(input):
    """-x log x, 0 at 0, and minus infinity below."""
    inside = -_C.xlogy(input, input)
    return _C.where(input < 0, _C.full_like(inside, -math.inf), inside)


def xlog1py(input, other):
    """x log(1 + y), 0 where x is 0."""
    return _C.where(_C.eq(input, 0) & ~_C.isnan(other), _C.zeros_like(other), input * _C.log1p(other))
