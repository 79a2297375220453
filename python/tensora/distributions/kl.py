"""Kullback-Leibler divergences."""
import math

from .. import _C
from .continuous import EULER, Cauchy, Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import ExponentialFamily, Independent
from .gamma import Beta, Dirichlet, Gamma
from .more import ContinuousBernoulli
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, Wishart, _multigamma
from .transformed import Gumbel, HalfNormal, LogNormal, Pareto, TransformedDistribution


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
    terms = p.probs * (p.logits - q.logits)
    terms = _C.where(q.probs == 0, math.inf, terms)
    return _C.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p, q):
    one = p.probs * (_C.softplus(-q.logits) - _C.softplus(-p.logits))
    one = _C.where(p.probs == 0, 0.0, _C.where(q.probs == 0, math.inf, one))
    zero = (1 - p.probs) * (_C.softplus(q.logits) - _C.softplus(p.logits))
    return one + _C.where(p.probs == 1, 0.0, _C.where(q.probs == 1, math.inf, zero))


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
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    apart = p.total_count * (p.probs * (p.logits - q.logits) + _C.log1p(-p.probs) - _C.log1p(-q.probs))
    return _C.where(p.total_count > q.total_count, math.inf, apart)


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
    ratio, euler = p.scale / q.scale, EULER
    p_loc, q_loc = p.loc / q.scale, q.loc / q.scale
    t1 = -ratio.log() + p_loc - q_loc
    return t1 + ratio * euler + (q_loc + _C.lgamma(1 + ratio) - p_loc).exp() - (1 + euler)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p, q):
    return _normals(p.base_dist, q.base_dist)


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


@register_kl(Cauchy, Cauchy)
def _cauchys(p, q):
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _paretos(p, q):
    ratio = q.alpha / p.alpha
    return _C.where(p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p, q):
    return -p.entropy() - p.mean * q.logits - _C.log1p(-q.probs) - q._log_norm()


def _full(p, q):
    return _multivariate_normals(getattr(p, "_full", p), getattr(q, "_full", q))


for _pair in ((LowRankMultivariateNormal, MultivariateNormal), (MultivariateNormal, LowRankMultivariateNormal),
              (LowRankMultivariateNormal, LowRankMultivariateNormal)):
    register_kl(*_pair)(_full)


@register_kl(Wishart, Wishart)
def _wisharts(p, q):
    n = p.event_shape[0]
    shape = _C.broadcast_tensors([p.scale_tril, q.scale_tril])[0].shape
    trace = (_C.linalg.solve_triangular(q.scale_tril.expand(shape), p.scale_tril.expand(shape), upper=False) ** 2).sum((-2, -1))
    return (q.df * (q._half_log_det() - p._half_log_det()) + 0.5 * p.df * (trace - n) + _multigamma(q.df / 2, n)
            - _multigamma(p.df / 2, n) + 0.5 * (p.df - q.df) * p._digammas())


@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p, q):
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed")
    parameters, normalizer, slopes = p._normalized()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for mine, other, slope in zip(parameters, others, slopes):
        result = result - ((other - mine) * slope).reshape(tuple(q.batch_shape) + (-1,)).sum(-1)
    return result


# ---- of two different types: -entropy of p, minus what log_prob of q is expected to be ---------------------

def _for(kinds, q_kind):
    def register(function):
        for kind in kinds:
            register_kl(kind, q_kind)(function)
        return function
    return register


@_for((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform), Normal)
def _to_normal(p, q):
    apart = (p.variance + (p.mean - q.loc) ** 2) / q.scale ** 2
    return 0.5 * apart + q.scale.log() + 0.5 * math.log(2 * math.pi) - p.entropy()


@_for((Beta, ContinuousBernoulli, Gamma, Pareto, Uniform), Exponential)
def _to_exponential(p, q):
    apart = q.rate * p.mean - q.rate.log() - p.entropy()
    return _C.where(p.low < 0, math.inf, apart) if isinstance(p, Uniform) else apart


@_for((Beta, Exponential, Pareto, Uniform), Gamma)
def _to_gamma(p, q):
    a, b = q.concentration, q.rate
    apart = _C.lgamma(a) - a * b.log() - (a - 1) * p._log_moment() + b * p.mean - p.entropy()
    return _C.where(p.low < 0, math.inf, apart) if isinstance(p, Uniform) else apart


def _mean_of_exp(p, t):
    """The mean of exp(t x), for t < 0."""
    if isinstance(p, Gamma):
        return (p.rate / (p.rate - t)) ** p.concentration
    if isinstance(p, Exponential):
        return p.rate / (p.rate - t)
    if isinstance(p, Normal):
        return (p.loc * t + 0.5 * (p.scale * t) ** 2).exp()
    return ((t * p.high).exp() - (t * p.low).exp()) / (t * (p.high - p.low))


@_for((Exponential, Gamma, Normal, Uniform), Gumbel)
def _to_gumbel(p, q):
    tail = (q.loc / q.scale).exp() * _mean_of_exp(p, -1 / q.scale)
    return (p.mean - q.loc) / q.scale + tail + q.scale.log() - p.entropy()


@register_kl(Normal, Laplace)
def _normal_and_laplace(p, q):
    apart = p.loc - q.loc
    distance = (math.sqrt(2 / math.pi) * p.scale * (-0.5 * (apart / p.scale) ** 2).exp()
                + apart * _C.erf(apart / (math.sqrt(2) * p.scale)))
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


@_for((Beta, ContinuousBernoulli), Uniform)
def _to_uniform(p, q):
    return _C.where((q.low > 0) | (q.high < 1), math.inf, (q.high - q.low).log() - p.entropy())


@register_kl(Uniform, Pareto)
def _uniform_and_pareto(p, q):
    apart = (q.alpha + 1) * p._log_moment() - (q.alpha * q.scale ** q.alpha).log() - p.entropy()
    return _C.where(p.low < q.scale, math.inf, apart)


@register_kl(Uniform, Beta)
def _uniform_and_beta(p, q):
    a, b = q.concentration1, q.concentration0
    rest = Uniform(1 - p.high, 1 - p.low, validate_args=False)._log_moment()
    apart = (_C.lgamma(a) + _C.lgamma(b) - _C.lgamma(a + b) - (a - 1) * p._log_moment() - (b - 1) * rest - p.entropy())
    return _C.where((p.low < 0) | (p.high > 1), math.inf, apart)


@_for((Beta, Uniform), ContinuousBernoulli)
def _to_continuous_bernoulli(p, q):
    apart = -p.entropy() - p.mean * q.logits - _C.log1p(-q.probs) - q._log_norm()
    return _C.where((p.low < 0) | (p.high > 1), math.inf, apart) if isinstance(p, Uniform) else apart


@register_kl(Bernoulli, Poisson)
def _bernoulli_and_poisson(p, q):
    return q.rate - p.probs * q.rate.log() - p.entropy()


# Where p has values that q has not.

def _infinite(p, q):
    shape = _C.broadcast_tensors([_C.empty(p.batch_shape, device="meta"), _C.empty(q.batch_shape, device="meta")])[0].shape
    parameter = next(value for value in p.__dict__.values() if isinstance(value, _C.Tensor))
    return _C.full(shape, math.inf, dtype=parameter.dtype, device=parameter.device)


for _narrow, _wider in ((Beta, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
                        (ContinuousBernoulli, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
                        (Uniform, (Exponential, Gamma, Gumbel, Laplace, Normal, Pareto)),
                        (Pareto, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Normal)),
                        (Exponential, (Gumbel, Laplace, Normal)), (Gamma, (Gumbel, Laplace, Normal)),
                        (Bernoulli, (Poisson,)), (Binomial, (Poisson,))):
    _for(_wider, _narrow)(_infinite)
