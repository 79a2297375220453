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
