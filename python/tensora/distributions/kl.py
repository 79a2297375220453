"""Kullback-Leibler divergences."""
import math

from .. import _C
from .continuous import (Beta, Dirichlet, Exponential, Gamma, Gumbel, HalfNormal, Laplace, LogNormal, MultivariateNormal, Normal,
                         Uniform)
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Independent
from .transformed import TransformedDistribution


_divergences = {}


def register_kl(type_p, type_q):
    """Decorates the function that computes kl_divergence of two types."""
    def register(function):
        _divergences[type_p, type_q] = function
        return function
    return register


def kl_divergence(p, q):
    """The Kullback–Leibler divergence of two distributions."""
    fitting = [pair for pair in _divergences if isinstance(p, pair[0]) and isinstance(q, pair[1])]
    if fitting:  # the most special pair
        depth = lambda pair: (len(pair[0].__mro__), len(pair[1].__mro__))  # noqa: E731
        return _divergences[max(fitting, key=depth)](p, q)
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


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p, q):
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Exponential, Exponential)
def _exponentials(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplaces(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Poisson, Poisson)
def _poissons(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _geometrics(p, q):
    entropy = _C.binary_cross_entropy_with_logits(p.logits, p.probs, reduction="none") / p.probs
    return -entropy - _C.log1p(-q.probs) / p.probs - q.logits


@register_kl(Binomial, Binomial)
def _binomials(p, q):
    if bool((_C.tensor(p.total_count) if isinstance(p.total_count, int) else p.total_count).gt(q.total_count).any()):
        return _C.full_like(p.probs, math.inf)
    return p.total_count * (p.probs * (p.logits - q.logits) + _C.log1p(-p.probs) - _C.log1p(-q.probs))


@register_kl(Uniform, Uniform)
def _uniforms(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return _C.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = _C.lgamma(total) - _C.lgamma(b.sum(-1))
    second = (_C.lgamma(a) - _C.lgamma(b)).sum(-1)
    return first - second + ((a - b) * (_C.digamma(a) - _C.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _betas(p, q):
    return _dirichlets(p._dirichlet, q._dirichlet)


@register_kl(Gumbel, Gumbel)
def _gumbels(p, q):
    ratio, euler = p.scale / q.scale, 0.57721566490153286060
    p_loc, q_loc = p.loc / q.scale, q.loc / q.scale
    t1 = -ratio.log() + p_loc - q_loc
    return t1 + ratio * euler + (q_loc + _C.lgamma(1 + ratio) - p_loc).exp() - (1 + euler)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p, q):
    return _normals(p._base, q._base)


@register_kl(LogNormal, LogNormal)
def _log_normals(p, q):
    return _normals(p, q)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    n = p.event_shape[0]
    half = q._half_log_det() - p._half_log_det()
    shape = _C.broadcast_tensors([p.scale_tril, q.scale_tril])[0].shape
    p_tril, q_tril = p.scale_tril.expand(shape), q.scale_tril.expand(shape)
    trace = (_C.linalg.solve_triangular(q_tril, p_tril, upper=False) ** 2).sum((-2, -1))
    apart = (q.loc - p.loc).unsqueeze(-1)
    apart = apart.expand(tuple(shape[:-2]) + tuple(apart.shape[-2:]))
    distance = (_C.linalg.solve_triangular(q_tril, apart, upper=False) ** 2).sum((-2, -1))
    return half + 0.5 * (trace + distance - n)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the transforms of both distributions must be the same")
    result = kl_divergence(p.base_dist, q.base_dist)
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return result.sum(tuple(range(-extra, 0))) if extra > 0 else result


@register_kl(Uniform, Normal)
def _uniform_and_normal(p, q):
    width = p.high - p.low
    first = (math.sqrt(math.pi * 2) * q.scale / width).log()
    return first + 0.5 * (width ** 2 / 12 + ((p.high + p.low - 2 * q.loc) / 2) ** 2) / q.scale ** 2


@register_kl(Exponential, Gamma)
def _exponential_and_gamma(p, q):
    ratio, euler = q.rate / p.rate, 0.57721566490153286060
    return -q.concentration * ratio.log() + ratio + _C.lgamma(q.concentration) + q.concentration * euler - (1 + euler)
