"""Probability distributions: the common ones, over ops."""
from . import constraints, multivariate, transforms  # noqa: F401
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution, ExponentialFamily, Independent
from .continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from .gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from .discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, Poisson
from .more import (ContinuousBernoulli, FisherSnedecor, GeneralizedPareto, MixtureSameFamily, NegativeBinomial,
                   OneHotCategoricalStraightThrough, VonMises)
from .multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from .transformed import (Gumbel, HalfCauchy, HalfNormal, InverseGamma, Kumaraswamy, LogisticNormal, LogNormal, Pareto,
                          RelaxedBernoulli, RelaxedOneHotCategorical, TransformedDistribution, Weibull)
from .kl import kl_divergence, register_kl
from .transforms import *  # noqa: F401,F403

__all__ = ["Distribution", "Normal", "LogNormal", "Uniform", "Bernoulli", "Categorical", "OneHotCategorical",
           "Exponential", "Laplace", "Gamma", "Beta", "Dirichlet", "MultivariateNormal", "Independent", "Cauchy",
           "Geometric", "HalfNormal", "Poisson", "Binomial", "Multinomial", "StudentT", "Chi2", "Gumbel",
           "ContinuousBernoulli", "ExponentialFamily", "FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "InverseGamma", "Kumaraswamy",
           "LKJCholesky", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "NegativeBinomial",
           "OneHotCategoricalStraightThrough", "Pareto", "RelaxedBernoulli", "RelaxedOneHotCategorical",
           "TransformedDistribution", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl",
           "transform_to", *transforms.__all__]
_FILES = {known.lower() for known in __all__} | {
    "multivariate_normal", "one_hot_categorical", "half_normal", "log_normal", "continuous_bernoulli", "exp_family",
    "half_cauchy", "inverse_gamma", "lkj_cholesky", "logistic_normal", "lowrank_multivariate_normal", "mixture_same_family",
    "negative_binomial", "relaxed_bernoulli", "relaxed_categorical", "transformed_distribution", "von_mises", "studentT",
    "fishersnedecor", "generalized_pareto"}


def __getattr__(name):
    if name in _FILES:
        import sys
        return sys.modules[__name__]  # PyTorch has a file for each: distributions.normal.Normal
    if name == "_precision_to_scale_tril":
        return multivariate._precision_to_scale_tril
    if name == "utils":
        import importlib
        return importlib.import_module("tensora.distributions.utils")
    raise AttributeError(f"module 'tensora.distributions' has no attribute '{name}'")
