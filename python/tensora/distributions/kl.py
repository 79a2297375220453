"""Kullback-Leibler divergences."""
from .. import _C
from .continuous import Gamma, Normal
from .discrete import Bernoulli, Categorical
from .distribution import Independent


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
