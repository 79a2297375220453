"""Normal vectors, and matrices of covariances and correlations."""
import math

from .. import _C
from .._C import Tensor
from .._modes import no_grad
from . import constraints
from .distribution import Distribution, ExponentialFamily, _broadcast
from .gamma import Beta, Chi2


def _precision_to_scale_tril(P):
    """The Cholesky factor of the inverse of P."""
    flipped = _C.linalg.cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    return _C.linalg.solve_triangular(flipped, _C.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors with mean `loc` and a covariance, its inverse, or its Cholesky factor."""
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if precision_matrix is not None:
            self._check_argument("precision_matrix", precision_matrix, validate_args)
            scale_tril = _precision_to_scale_tril(precision_matrix)
        elif scale_tril is None:
            self._check_argument("covariance_matrix", covariance_matrix, validate_args)
            scale_tril = _C.linalg.cholesky(covariance_matrix)
        else:
            self._check_argument("scale_tril", scale_tril, validate_args)
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        shape = tuple(_C.broadcast_tensors([loc, scale_tril[..., 0]])[0].shape)
        self.loc = loc.expand(shape)
        self._unbroadcasted_scale_tril = scale_tril.expand(shape + shape[-1:])  # subclasses compute it when it is needed
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    mode = property(lambda self: self.loc)
    mean = property(lambda self: self.loc)
    variance = property(lambda self: self.scale_tril.square().sum(-1))
    scale_tril = property(lambda self: self._unbroadcasted_scale_tril.expand(self._shape(()) + tuple(self.event_shape)))
    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = property(lambda self: _C.cholesky_inverse(self.scale_tril))

    def rsample(self, sample_shape=()):
        eps = _C.randn(self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        difference, tril = (value - self.loc).unsqueeze(-1), self._unbroadcasted_scale_tril
        tril = tril.expand(tuple(difference.shape[:-2]) + tuple(tril.shape[-2:]))
        z = _C.linalg.solve_triangular(tril, difference, upper=False)
        return (-0.5 * (self.loc.shape[-1] * math.log(2 * math.pi) + (z ** 2).sum((-2, -1)))) - self._half_log_det()

    def entropy(self):
        return 0.5 * self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._half_log_det()


class LowRankMultivariateNormal(Distribution):
    """A normal distribution with covariance factor · factorᵀ + diagonal."""
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        self.loc, self.cov_factor, self.cov_diag = loc, cov_factor, cov_diag
        shape = _C.broadcast_tensors([loc, cov_diag, cov_factor[..., 0]])[0].shape
        super().__init__(shape[:-1], shape[-1:], validate_args)
        self.loc, self.cov_diag = loc.expand(shape), cov_diag.expand(shape)
        self.cov_factor = cov_factor.expand(tuple(shape) + (cov_factor.shape[-1],))
        self._full = MultivariateNormal(self.loc, self.covariance_matrix, validate_args=False)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: (self.cov_factor ** 2).sum(-1) + self.cov_diag)
    covariance_matrix = property(lambda self: self.cov_factor @ self.cov_factor.mT + _C.diag_embed(self.cov_diag))
    precision_matrix = property(lambda self: self._full.precision_matrix)
    scale_tril = property(lambda self: self._full.scale_tril)

    def rsample(self, sample_shape=()):
        shape = self._shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        low = _C.randn(shape[:-1] + (rank, 1), dtype=self.loc.dtype, device=self.loc.device)
        full = _C.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.cov_factor @ low).squeeze(-1) + self.cov_diag.sqrt() * full

    def log_prob(self, value):
        self._validate_sample(value)
        return self._full.log_prob(value)

    def entropy(self):
        return self._full.entropy()


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices."""
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration, = _broadcast(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape=()):
        """The onion method."""
        with no_grad():
            eta, n = self.concentration, self.dim
            marginal = eta + 0.5 * (n - 2)
            offset = _C.arange(n - 1, dtype=eta.dtype, device=eta.device)
            beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset, validate_args=False)
            y = beta.sample(sample_shape).unsqueeze(-1)
            y = _C.cat([_C.zeros_like(y[..., :1, :]), y], -2)
            u = _C.randn(self._shape(sample_shape), dtype=eta.dtype, device=eta.device).tril(-1)
            u = u / u.norm(2, -1, True).clamp_min(1.2e-38)
            w = y.sqrt() * u
            diagonal = (1 - (w ** 2).sum(-1)).clamp_min(1.2e-38).sqrt()
            return w + _C.diag_embed(diagonal)

    def log_prob(self, value):
        self._validate_sample(value)
        n, eta = self.dim, self.concentration
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        order = _C.arange(2, n + 1, device=eta.device)
        order = 2 * (eta - 1).unsqueeze(-1) + n - order
        unnormalized = (order * diagonal.log()).sum(-1)
        dm1 = n - 1
        alpha = eta + 0.5 * dm1
        denominator = _C.lgamma(alpha) * dm1
        numerator = _multigamma(alpha - 0.5, dm1)
        return unnormalized - (0.5 * dm1 * math.log(math.pi) + numerator - denominator)


def _multigamma(a, p):
    steps = _C.arange(p, dtype=a.dtype, device=a.device)
    return p * (p - 1) / 4 * math.log(math.pi) + _C.lgamma(a.unsqueeze(-1) - steps / 2).sum(-1)


class Wishart(ExponentialFamily):
    """Covariance matrices of normal samples."""
    arg_constraints = {"df": constraints.greater_than(0), "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support, has_rsample = constraints.positive_definite, True

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ValueError("Expected exactly one of covariance_matrix or precision_matrix or scale_tril to be specified.")
        if precision_matrix is not None:
            scale_tril = _precision_to_scale_tril(precision_matrix)
        elif scale_tril is None:
            scale_tril = _C.linalg.cholesky(covariance_matrix)
        n = scale_tril.shape[-1]
        df = df if isinstance(df, Tensor) else _C.tensor(float(df))
        df = df.to(dtype=scale_tril.dtype, device=scale_tril.device)
        self.df = _C.broadcast_tensors([df, scale_tril[..., 0, 0]])[0]
        self.scale_tril = scale_tril.expand(tuple(self.df.shape) + (n, n))
        super().__init__(self.df.shape, (n, n), validate_args)
        if self._validate_args and bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")

    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = property(lambda self: _C.cholesky_inverse(self.scale_tril))
    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.scale_tril.shape[-1] - 1
        return _C.where(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v ** 2 + d.unsqueeze(-1) * d.unsqueeze(-2))

    def _half_log_det(self):
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def rsample(self, sample_shape=()):
        n = self.scale_tril.shape[-1]
        shape = tuple(sample_shape) + tuple(self.batch_shape)
        df = self.df.unsqueeze(-1) - _C.arange(n, dtype=self.df.dtype, device=self.df.device)
        roots = Chi2(df, validate_args=False).rsample(sample_shape).sqrt()
        noise = _C.randn(shape + (n, n), dtype=self.df.dtype, device=self.df.device).tril(-1) + _C.diag_embed(roots)
        factor = self.scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value):
        self._validate_sample(value)
        n, nu = self.scale_tril.shape[-1], self.df
        tril = _C.broadcast_tensors([self.scale_tril, value])[0]
        trace = _C.cholesky_solve(value.expand(tril.shape), tril).diagonal(0, -2, -1).sum(-1)
        return (-nu * (n * math.log(2) / 2 + self._half_log_det()) - _multigamma(nu / 2, n)
                + (nu - n - 1) / 2 * _C.linalg.slogdet(value)[1] - trace / 2)

    def entropy(self):
        n, nu = self.scale_tril.shape[-1], self.df
        return ((n + 1) * (n * math.log(2) / 2 + self._half_log_det()) + _multigamma(nu / 2, n)
                - (nu - n - 1) / 2 * self._digammas() + n * nu / 2)

    def _digammas(self):
        steps = _C.arange(self.scale_tril.shape[-1], dtype=self.df.dtype, device=self.df.device)
        return _C.digamma((self.df / 2).unsqueeze(-1) - steps / 2).sum(-1)
