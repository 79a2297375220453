"""Distributions: densities integrate to one, samples have the moments, transforms invert, divergences are right."""
import math

import pytest

import tensora
from tensora import distributions as D

t = tensora.tensor
F64 = tensora.float64


def f64(*values):
    return [tensora.tensor(v, dtype=F64) for v in values]


# (distribution, the range that holds nearly all of it)
DENSITIES = [
    (lambda: D.Weibull(*f64(1.5, 2.0)), (1e-6, 10)), (lambda: D.Pareto(*f64(1.0, 3.0)), (1, 400)),
    (lambda: D.Kumaraswamy(*f64(2.0, 3.0)), (1e-7, 1 - 1e-7)), (lambda: D.InverseGamma(*f64(4.0, 2.0)), (1e-3, 60)),
    (lambda: D.HalfCauchy(*f64(1.0)), (0, 1e5)), (lambda: D.FisherSnedecor(*f64(5.0, 12.0)), (1e-6, 200)),
    (lambda: D.ContinuousBernoulli(*f64(0.3)), (0, 1)), (lambda: D.VonMises(*f64(0.5, 2.0)), (-math.pi, math.pi)),
    (lambda: D.MixtureSameFamily(D.Categorical(t([0.3, 0.7], dtype=F64)), D.Normal(t([-1.0, 2.0], dtype=F64), 0.5)), (-8, 9)),
    (lambda: D.TransformedDistribution(D.Normal(*f64(0.0, 0.5)), [D.ExpTransform(), D.AffineTransform(1.0, 2.0)]), (1, 60)),
    (lambda: D.RelaxedBernoulli(t(0.7, dtype=F64), probs=t(0.4, dtype=F64)), (1e-9, 1 - 1e-9)),
]


@pytest.mark.parametrize("make, limits", DENSITIES)
def test_densities_integrate_to_one(make, limits):
    distribution = make()
    low, high = limits
    grid = tensora.linspace(0, 1, 200_001, dtype=F64)
    steep = grid ** 6 if high > 50 else grid  # finer where the density is
    x = low + (high - low) * steep
    density = distribution.log_prob(x).exp()
    total = tensora.trapezoid(density.nan_to_num(0.0, 0.0, 0.0), x).item()
    assert total == pytest.approx(1, abs=5e-3)
    if type(distribution).__name__ not in ("HalfCauchy", "RelaxedBernoulli", "VonMises", "TransformedDistribution"):
        mean = tensora.trapezoid((density * x).nan_to_num(0.0, 0.0, 0.0), x).item()
        assert distribution.mean.item() == pytest.approx(mean, abs=2e-2, rel=2e-2)
        samples = distribution.sample((20_000,))
        spread = distribution.variance.sqrt().item() if math.isfinite(distribution.variance.item()) else 1.0
        assert samples.mean().item() == pytest.approx(mean, abs=8 * spread / math.sqrt(20_000) + 0.02)


def test_counts_and_their_moments():
    d = D.NegativeBinomial(*f64(5.0, 0.4))
    k = tensora.arange(200, dtype=F64)
    p = d.log_prob(k).exp()
    assert p.sum().item() == pytest.approx(1) and (p * k).sum().item() == pytest.approx(d.mean.item())
    assert ((p * k * k).sum() - (p * k).sum() ** 2).item() == pytest.approx(d.variance.item())
    assert d.sample((4000,)).mean().item() == pytest.approx(d.mean.item(), rel=0.1)


def test_matrices():
    tril = t([[1.0, 0.0], [0.5, 2.0]], dtype=F64)
    w = D.Wishart(t(5.0, dtype=F64), scale_tril=tril)
    samples = w.sample((4000,))
    assert tensora.allclose(samples.mean(0), w.mean, 0.1, 0.3) and w.log_prob(samples[:3]).shape == (3,)
    # Of one row and column it is the distribution of a scaled chi-squared variable.
    one = D.Wishart(t(3.0, dtype=F64), covariance_matrix=t([[2.0]], dtype=F64))
    expected = D.Gamma(t(1.5, dtype=F64), t(0.25, dtype=F64)).log_prob(t(1.7, dtype=F64))
    assert one.log_prob(t([[1.7]], dtype=F64)).item() == pytest.approx(expected.item())
    lkj = D.LKJCholesky(3, t(1.5, dtype=F64))
    factors = lkj.sample((10,))
    assert tensora.allclose((factors @ factors.mT).diagonal(0, -2, -1), tensora.ones(10, 3, dtype=F64))
    assert lkj.log_prob(factors).isfinite().all()
    low = D.LowRankMultivariateNormal(tensora.zeros(3, dtype=F64), tensora.ones(3, 1, dtype=F64), tensora.ones(3, dtype=F64))
    full = D.MultivariateNormal(tensora.zeros(3, dtype=F64), low.covariance_matrix)
    x = tensora.randn(4, 3, dtype=F64)
    assert tensora.allclose(low.log_prob(x), full.log_prob(x)) and low.rsample((2,)).shape == (2, 3)


def test_relaxed_and_straight_through_samples_pass_gradients():
    logits = tensora.zeros(4, requires_grad=True)
    for d in (D.RelaxedOneHotCategorical(0.5, logits=logits), D.OneHotCategoricalStraightThrough(logits=logits)):
        (tensora.autograd.grad((d.rsample((3,)) * tensora.arange(4.0)).sum(), logits))[0].isfinite().all()
    sample = D.RelaxedOneHotCategorical(0.5, logits=logits).sample()
    assert sample.sum().item() == pytest.approx(1, abs=1e-5)
    assert D.LogisticNormal(tensora.zeros(3), tensora.ones(3)).sample((2,)).sum(-1).allclose(tensora.ones(2), 1e-4, 1e-5)


TRANSFORMS = [D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform(), D.SoftplusTransform(), D.AffineTransform(1.0, -2.0),
              D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.ExpTransform()])]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_invert_and_know_their_derivatives(transform):
    x = tensora.linspace(-2, 2, 9, dtype=F64).requires_grad_()
    y = transform(x)
    slope, = tensora.autograd.grad(y.sum(), x)
    assert tensora.allclose(transform.inv(y), x, 1e-6, 1e-8)
    assert tensora.allclose(transform.log_abs_det_jacobian(x, y), slope.abs().log(), 1e-6, 1e-8)
    assert tensora.allclose(transform.inv.log_abs_det_jacobian(y, x), -slope.abs().log(), 1e-6, 1e-8)


def test_vector_transforms():
    stick = D.StickBreakingTransform()
    x = tensora.randn(3, dtype=F64)
    y = stick(x)
    assert y.sum().item() == pytest.approx(1) and tensora.allclose(stick.inv(y), x, 1e-6, 1e-8)
    jacobian = tensora.func.jacrev(lambda v: stick(v)[:-1])(x)
    assert stick.log_abs_det_jacobian(x, y).item() == pytest.approx(tensora.linalg.slogdet(jacobian)[1].item())
    for constraint in (D.constraints.positive, D.constraints.unit_interval, D.constraints.simplex, D.constraints.interval(2, 5),
                       D.constraints.lower_cholesky, D.constraints.positive_definite, D.constraints.greater_than(3.0)):
        value = tensora.randn(4, 4, dtype=F64)
        assert bool(constraint.check(D.transform_to(constraint)(value)).all()), constraint
    reshaped = D.ReshapeTransform((2, 3), (6,))
    assert reshaped(tensora.ones(5, 2, 3)).shape == (5, 6) and reshaped.inv(tensora.ones(5, 6)).shape == (5, 2, 3)


PAIRS = [(lambda a: D.Exponential(t(a, dtype=F64)), (1e-9, 60)), (lambda a: D.Laplace(*f64(a, a + 1)), (-60, 60)),
         (lambda a: D.Beta(*f64(a + 1, 2.0)), (1e-9, 1 - 1e-9)), (lambda a: D.Gumbel(*f64(a, a + 0.5)), (-15, 90)),
         (lambda a: D.LogNormal(*f64(a / 4, 0.5)), (1e-6, 60)), (lambda a: D.HalfNormal(*f64(a + 1)), (0, 40)),
         (lambda a: D.Gamma(*f64(a + 1, 2.0)), (1e-9, 60))]


@pytest.mark.parametrize("make, limits", PAIRS)
def test_divergences(make, limits):
    p, q = make(0.5), make(1.5)
    x = tensora.linspace(*limits, 400_001, dtype=F64)
    terms = p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))
    assert D.kl_divergence(p, q).item() == pytest.approx(tensora.trapezoid(terms.nan_to_num(0.0), x).item(), abs=2e-3)


def test_more_divergences():
    a, b = D.Poisson(t(2.0)), D.Poisson(t(3.0))
    k = tensora.arange(60.0)
    expected = (a.log_prob(k).exp() * (a.log_prob(k) - b.log_prob(k))).sum()
    assert D.kl_divergence(a, b).item() == pytest.approx(expected.item(), abs=1e-4)
    p = D.MultivariateNormal(tensora.zeros(2), tensora.eye(2))
    q = D.MultivariateNormal(tensora.ones(2), 2 * tensora.eye(2))
    assert D.kl_divergence(p, q).item() == pytest.approx(0.5 * (1 + 1 - 2 + 2 * math.log(2)), abs=1e-5)
    assert D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)).item() == math.inf
    first, second = D.Dirichlet(t([1.0, 2.0, 3.0])), D.Dirichlet(t([2.0, 2.0, 2.0]))
    assert D.kl_divergence(first, first).abs().item() < 1e-6 and D.kl_divergence(first, second).item() > 0
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.Poisson(t(1.0)), D.Normal(0.0, 1.0))


def test_expanding_and_validation():
    d = D.Normal(t([0.0, 1.0]), 1.0).expand((3, 2))
    assert d.batch_shape == (3, 2) and d.sample((4,)).shape == (4, 3, 2)
    assert D.Independent(D.Normal(tensora.zeros(2, 3), 1.0), 1).expand((5, 2)).log_prob(tensora.zeros(5, 2, 3)).shape == (5, 2)
    for wrong in (lambda: D.Normal(math.nan, 1.0), lambda: D.Weibull(-1.0, 1.0), lambda: D.VonMises(0.0, -1.0),
                  lambda: D.Pareto(1.0, 3.0).log_prob(t(0.5)), lambda: D.LKJCholesky(1),
                  lambda: D.MixtureSameFamily(D.Categorical(t([1.0])), D.Normal(tensora.zeros(2), 1.0)),
                  lambda: D.NegativeBinomial(3.0, probs=0.5, logits=0.0), lambda: D.Wishart(t(0.5), tensora.eye(2))):
        with pytest.raises(ValueError):
            wrong()
    D.Weibull(-1.0, 1.0, validate_args=False)


def test_gamma_samples_have_the_gradient_of_their_distribution_function():
    """-(dF/da) / density, here by finite differences of F; a gradient through accepted draws alone misses by a tenth."""
    from tensora.special import gammainc
    a = t([0.2, 0.7, 1.0, 2.5, 8.0, 60.0, 900.0, 3000.0], dtype=F64).expand(64, 8).clone().requires_grad_()
    x = D.Gamma(a, tensora.ones_like(a)).rsample()
    slope, = tensora.autograd.grad(x.sum(), a)
    with tensora.no_grad():
        h = a * 1e-6
        expected = -(gammainc(a + h, x) - gammainc(a - h, x)) / (2 * h) / D.Gamma(a, 1.0).log_prob(x).exp()
    assert tensora.allclose(slope, expected, 1e-3, 1e-4)
    b = t([0.5, 2.0], dtype=F64).requires_grad_()
    draws = D.Beta(b.expand(20_000, 2), t(1.5, dtype=F64)).rsample()
    assert tensora.allclose(tensora.autograd.grad(draws.mean(0).sum(), b)[0], 1.5 / (b + 1.5) ** 2, 0.05)


@pytest.mark.parametrize("make, most", [(lambda: D.Poisson(t([0.0, 0.3, 4.0, 12.0, 900.0, 1e7], dtype=F64)), None),
                                        (lambda: D.Binomial(t([0, 7, 40, 500, 10 ** 9, 10 ** 9]),
                                                            t([0.5, 0.3, 0.9, 0.4, 1e-9, 0.7], dtype=F64)), True)])
def test_counts_of_any_size_are_drawn(make, most):
    d = make()
    draws = d.sample((20_000,))
    error = (d.variance / 20_000).sqrt()
    assert bool(((draws.mean(0) - d.mean).abs() <= 5 * error).all()) and bool((draws == draws.floor()).all())
    assert tensora.allclose(draws.var(0), d.variance, 0.08, 1e-6)
    assert bool((draws >= 0).all()) and (most is None or bool((draws <= d.total_count).all()))
    small = D.Poisson(t(15.0, dtype=F64)) if most is None else D.Binomial(60, t(0.35, dtype=F64))
    k = tensora.arange(40, dtype=F64)
    share = (small.sample((50_000, 1)) == k).to(F64).mean(0)
    assert (share - small.log_prob(k).exp()).abs().max().item() < 0.006


CUMULATIVE = [lambda: D.Exponential(*f64(0.7)), lambda: D.Laplace(*f64(0.5, 1.5)), lambda: D.Cauchy(*f64(0.5, 1.5)),
              lambda: D.Gumbel(*f64(0.5, 1.5)), lambda: D.Uniform(*f64(-1.0, 2.0)), lambda: D.HalfNormal(*f64(1.5)),
              lambda: D.HalfCauchy(*f64(1.5)), lambda: D.LogNormal(*f64(0.5, 0.8)), lambda: D.Weibull(*f64(2.0, 1.5)),
              lambda: D.GeneralizedPareto(*f64(0.5, 1.5, 0.3)), lambda: D.GeneralizedPareto(*f64(0.5, 1.5, 0.0)),
              lambda: D.GeneralizedPareto(*f64(0.5, 1.5, -0.4))]


@pytest.mark.parametrize("make", CUMULATIVE)
def test_cumulative_functions_and_moments(make):
    d, p = make(), tensora.linspace(0.01, 0.99, 98, dtype=F64)
    x = d.icdf(p).requires_grad_()
    assert tensora.allclose(d.cdf(x), p, 1e-7, 1e-9)
    assert tensora.allclose(tensora.autograd.grad(d.cdf(x).sum(), x)[0], d.log_prob(x).exp(), 1e-6, 1e-9)
    draws = d.sample((40_000,))
    if bool(d.variance.isfinite()):
        assert abs(draws.mean().item() - d.mean.item()) < 6 * d.stddev.item() / 200
        assert d.expand((3, 2)).mean.shape == (3, 2) and type(d.expand((3,))) is type(d)
    assert abs((draws <= d.icdf(t(0.5, dtype=F64))).to(F64).mean().item() - 0.5) < 0.015


def test_entropies_are_expected_log_probs():
    for d in (D.StudentT(*f64(3.0, 0.5, 2.0)), D.Gumbel(*f64(0.5, 1.5)), D.Cauchy(*f64(0.0, 2.0)),
              D.Wishart(t(5.0, dtype=F64), tensora.eye(2, dtype=F64)), D.GeneralizedPareto(*f64(0.0, 1.0, 0.2))):
        sampled = -d.log_prob(d.sample((40_000,))).mean()
        assert d.entropy().item() == pytest.approx(sampled.item(), abs=0.05)
    for d in (D.Geometric(t(0.3, dtype=F64)), D.Binomial(6, t(0.3, dtype=F64))):
        log_probs = d.log_prob(tensora.arange(7 if isinstance(d, D.Binomial) else 200, dtype=F64))
        assert d.entropy().item() == pytest.approx(-(log_probs.exp() * log_probs).sum().item())
    d = D.Multinomial(3, t([0.2, 0.8], dtype=F64))
    log_probs = d.log_prob(t([[i, 3 - i] for i in range(4)], dtype=F64))
    assert d.entropy().item() == pytest.approx(-(log_probs.exp() * log_probs).sum().item())


def test_what_is_not_there_says_so():
    for name, d in (("mean", D.RelaxedBernoulli(t(0.5), probs=t(0.5))), ("variance", D.LKJCholesky(3))):
        with pytest.raises(NotImplementedError, match=f"has no {name}"):
            getattr(d, name)
    assert D.Categorical(t([0.5, 0.5])).mean.isnan() and D.Cauchy(0.0, 1.0).mean.isnan()
    assert D.Poisson(t(0.0)).log_prob(t(0.0)).item() == 0 and D.Gamma(1.0, 1.0).log_prob(t(0.0)).item() == 0
    assert D.MultivariateNormal(tensora.zeros(2), tensora.eye(2).expand(4, 2, 2)).sample((3,)).shape == (3, 4, 2)


class Rate(D.ExponentialFamily):
    """An exponential distribution that tells its natural parameters only."""
    arg_constraints = {}

    def __init__(self, rate):
        self.rate = rate
        super().__init__(rate.shape)
    _natural_params = property(lambda self: (-self.rate,))
    _mean_carrier_measure = 0

    def _log_normalizer(self, x):
        return -(-x).log()


def test_families_of_a_program():
    p, q = t([0.5, 2.0], dtype=F64), t([1.5, 0.7], dtype=F64)
    assert tensora.allclose(Rate(p).entropy(), D.Exponential(p).entropy())
    assert tensora.allclose(D.kl_divergence(Rate(p), Rate(q)), D.kl_divergence(D.Exponential(p), D.Exponential(q)))


UNLIKE = [(D.Beta(*f64(2.0, 3.0)), (D.Normal(*f64(0.3, 0.7)), D.Exponential(*f64(1.3)), D.Gamma(*f64(1.3, 2.0)),
                                    D.Uniform(*f64(-1.0, 2.0)), D.ContinuousBernoulli(*f64(0.3)))),
          (D.Uniform(*f64(0.2, 0.9)), (D.Normal(*f64(0.3, 0.7)), D.Exponential(*f64(1.3)), D.Gamma(*f64(1.3, 2.0)),
                                       D.Gumbel(*f64(0.1, 0.8)), D.Pareto(*f64(0.1, 1.3)), D.Beta(*f64(2.0, 3.0)),
                                       D.ContinuousBernoulli(*f64(0.3)))),
          (D.Normal(*f64(0.4, 1.2)), (D.Laplace(*f64(-0.5, 0.8)), D.Gumbel(*f64(0.1, 0.8)))),
          (D.Exponential(*f64(1.5)), (D.Normal(*f64(0.3, 0.7)), D.Gamma(*f64(1.3, 2.0)), D.Gumbel(*f64(0.1, 0.8)))),
          (D.Gamma(*f64(2.5, 1.5)), (D.Normal(*f64(0.3, 0.7)), D.Exponential(*f64(1.3)), D.Gumbel(*f64(0.1, 0.8)))),
          (D.Gumbel(*f64(0.4, 0.6)), (D.Normal(*f64(0.3, 0.7)),)), (D.Laplace(*f64(0.4, 0.6)), (D.Normal(*f64(0.3, 0.7)),)),
          (D.Pareto(*f64(0.5, 5.0)), (D.Normal(*f64(0.3, 0.7)), D.Exponential(*f64(1.3)), D.Gamma(*f64(1.3, 2.0)),
                                      D.Pareto(*f64(0.3, 2.0)))),
          (D.Cauchy(*f64(0.4, 0.6)), (D.Cauchy(*f64(-0.2, 1.5)),)),
          (D.ContinuousBernoulli(*f64(0.7)), (D.Normal(*f64(0.3, 0.7)), D.Exponential(*f64(1.3)),
                                              D.ContinuousBernoulli(*f64(0.2)), D.Uniform(*f64(0.0, 1.0))))]


@pytest.mark.parametrize("p, others", UNLIKE)
def test_divergences_of_two_types(p, others):
    """Against the mean of log p - log q at the quantiles of a large sample."""
    tensora.manual_seed(3)
    x = p.sample((400_000,))
    for q in others:
        terms = p.log_prob(x) - q.log_prob(x)
        error = terms.std().item() / math.sqrt(400_000)
        assert D.kl_divergence(p, q).item() == pytest.approx(terms.mean().item(), abs=6 * error + 1e-6), type(q).__name__
    assert D.kl_divergence(D.Normal(0.0, 1.0), D.Beta(t(2.0), t(2.0))).item() == math.inf
    assert D.kl_divergence(D.Categorical(t([0.5, 0.5])), D.Categorical(t([1.0, 0.0]))).item() == math.inf
    assert D.kl_divergence(D.Bernoulli(t(1.0)), D.Bernoulli(t(0.5))).item() == pytest.approx(math.log(2))
    w, v = (D.Wishart(t(df, dtype=F64), s * tensora.eye(2, dtype=F64)) for df, s in ((5.0, 1.0), (6.0, 1.5)))
    y = w.sample((100_000,))
    assert D.kl_divergence(w, v).item() == pytest.approx((w.log_prob(y) - v.log_prob(y)).mean().item(), abs=0.02)


def test_a_subclass_may_compute_the_factor_itself():
    class Lazy(D.MultivariateNormal):
        def __init__(self):
            self.loc = tensora.zeros(2)
            super(D.MultivariateNormal, self).__init__((), (2,), validate_args=False)

        @property
        def _unbroadcasted_scale_tril(self):
            return 2 * tensora.eye(2)
    d = Lazy()
    assert d.log_prob(tensora.ones(2)).item() == pytest.approx(-math.log(2 * math.pi) - 2 * math.log(2) - 0.25)
    assert d.sample((3,)).shape == (3, 2) and d.variance.tolist() == [4, 4] and d.scale_tril.shape == (2, 2)


def test_parameters_of_another_kind_are_refused():
    """What PyTorch 2.15 refuses, by a fuzzer of constructors."""
    d, half = D, t([0.5, 0.5])
    for make in (lambda: d.Normal([0.0, 1.0], 1.0), lambda: d.Gamma(1.0, (1.0, 2.0)), lambda: d.Poisson([1.0]), lambda: d.Uniform("a", 1.0),
                 lambda: d.NegativeBinomial(3, probs=t(1.0)), lambda: d.Binomial(1j, half), lambda: d.Multinomial(-1, half)):
        with pytest.raises(ValueError):
            make()
    for count in (1.5, None, "foo", t(2)):
        with pytest.raises(NotImplementedError, match="total_count"):
            d.Multinomial(count, half)
    assert d.NegativeBinomial(3, logits=t(90.0)).probs == 1
