"""Probability distributions: the common ones, over ops."""
from . import constraints  # noqa: F401
from .distribution import Distribution, Independent
from .continuous import (Beta, Cauchy, Chi2, Dirichlet, Exponential, Gamma, Gumbel, HalfNormal, Laplace, LogNormal,
                         MultivariateNormal, Normal, StudentT, Uniform)
from .discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, Poisson
from .kl import kl_divergence, register_kl

__all__ = ["Distribution", "Normal", "LogNormal", "Uniform", "Bernoulli", "Categorical", "OneHotCategorical",
           "Exponential", "Laplace", "Gamma", "Beta", "Dirichlet", "MultivariateNormal", "Independent", "Cauchy",
           "Geometric", "HalfNormal", "Poisson", "Binomial", "Multinomial", "StudentT", "Chi2", "Gumbel",
           "kl_divergence", "register_kl"]


def __getattr__(name):
    if name in {known.lower() for known in __all__} | {"multivariate_normal", "one_hot_categorical", "half_normal",
                                                       "log_normal"}:
        import sys
        return sys.modules[__name__]  # PyTorch has a file for each: distributions.normal.Normal
    raise AttributeError(f"module 'tensora.distributions' has no attribute '{name}'")
