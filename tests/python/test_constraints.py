"""Constraints and transforms of distributions."""
import math

import pytest

import tensora
from tensora.distributions import (
    CatTransform, CorrCholeskyTransform, CumulativeDistributionTransform, ExpTransform, Normal, StackTransform, biject_to,
    constraints, transform_to, utils)
from tensora.distributions.transforms import identity_transform, tril_matrix_to_vec, vec_to_tril_matrix


@pytest.mark.parametrize("name, good, bad", [
    ("lower_triangular", [[1., 0.], [2., -1.]], [[1., 1.], [2., 1.]]),
    ("corr_cholesky", [[1., 0.], [0.6, 0.8]], [[1., 0.], [0.6, 0.9]]),
    ("symmetric", [[1., 2.], [2., 5.]], [[1., 2.], [3., 5.]]),
    ("positive_semidefinite", [[1., 1.], [1., 1.]], [[1., 2.], [2., 1.]]),
    ("positive_definite", [[2., 1.], [1., 2.]], [[1., 1.], [1., 1.]])])
def test_matrices(name, good, bad):
    constraint = getattr(constraints, name)
    assert constraint.event_dim == 2
    assert constraint.check(tensora.tensor(good)).tolist() is True and constraint.check(tensora.tensor(bad)).tolist() is False
    both = tensora.tensor([good, good])
    assert constraint.check(both).tolist() == [True, True]


def test_square_half_open_and_names():
    assert constraints.square.check(tensora.ones(3, 2, 2)).tolist() == [True] * 3
    assert constraints.square.check(tensora.ones(2, 3)).tolist() is False
    assert constraints.symmetric.check(tensora.ones(2, 3)).tolist() is False
    found = constraints.half_open_interval(0.0, 1.0).check(tensora.tensor([0.0, 0.5, 1.0]))
    assert found.tolist() == [True, True, False]
    assert all(hasattr(constraints, name) for name in constraints.__all__)


def test_dependent_constraints():
    class Made:
        @constraints.dependent_property(is_discrete=False, event_dim=1)
        def support(self):
            return constraints.simplex
    assert Made().support is constraints.simplex and constraints.is_dependent(Made.support) and Made.support.event_dim == 1
    assert not constraints.is_dependent(constraints.real) and constraints.dependent(event_dim=2).event_dim == 2
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined"):
        constraints.dependent.event_dim
    with pytest.raises(ValueError, match="dependent"):
        constraints.dependent.check(tensora.ones(1))


def test_joined_constraints_and_transforms():
    x = tensora.tensor([[-1.0, 2.0, -3.0], [1.0, 0.5, 4.0]])
    cat = constraints.cat([constraints.real, constraints.positive], -1, [1, 2])
    assert cat.check(x).tolist() == [[True, True, False], [True, True, True]]
    transform = biject_to(cat)
    assert isinstance(transform, CatTransform)
    y = transform(x)
    assert cat.check(y).all() and y[:, :1].equal(x[:, :1]) and y[:, 1:].allclose(x[:, 1:].exp())
    tensora.testing.assert_close(transform.inv(y), x, rtol=1e-5, atol=1e-6)
    assert transform.log_abs_det_jacobian(x, y).allclose(tensora.cat([tensora.zeros(2, 1), x[:, 1:]], 1))
    stack = transform_to(constraints.stack([constraints.real, constraints.positive], 0))
    assert isinstance(stack, StackTransform) and stack(x)[1].allclose(x[1].exp()) and stack(x)[0].equal(x[0])
    assert stack.log_abs_det_jacobian(x, stack(x)).allclose(tensora.stack([tensora.zeros(3), x[1]]))
    assert stack.codomain.check(stack(x)).all() and not stack.codomain.check(-stack(x))[1].any()
    with pytest.raises(ValueError, match="expected 2 parts along dim 0, got 3"):
        stack(tensora.ones(3, 2))
    with pytest.raises(AssertionError, match="as many lengths"):
        CatTransform([identity_transform, ExpTransform()], 0, [1])


def test_correlations():
    x = tensora.tensor([[0.3, -0.5, 1.2, 0.1, -0.7, 0.4], [0.0, 0.2, 0.4, -0.9, 2.0, -1.0]], dtype=tensora.float64)
    transform = transform_to(constraints.corr_cholesky)
    assert isinstance(transform, CorrCholeskyTransform)
    y = transform(x)
    assert y.shape == (2, 4, 4) and constraints.corr_cholesky.check(y).all() and transform.forward_shape((2, 6)) == (2, 4, 4)
    tensora.testing.assert_close(transform.inv(y), x, rtol=1e-9, atol=1e-9)
    # The determinant of the map from x to the elements below the diagonal.
    jacobian = tensora.func.jacrev(lambda v: tril_matrix_to_vec(transform(v), -1))(x[0])
    tensora.testing.assert_close(transform.log_abs_det_jacobian(x, y)[0], jacobian.det().abs().log(), rtol=1e-8, atol=1e-8)
    with pytest.raises(ValueError, match="flattened lower-diagonal"):
        transform.forward_shape((5,))
    with pytest.raises(ValueError, match="square matrices"):
        transform.inverse_shape((4, 5))


def test_triangles_as_vectors():
    vector = tensora.arange(1.0, 7.0)
    matrix = vec_to_tril_matrix(vector)
    assert matrix.tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]] and tril_matrix_to_vec(matrix).equal(vector)
    assert vec_to_tril_matrix(vector[:3], -1).tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]
    with pytest.raises(ValueError, match="last dimension is 4"):
        vec_to_tril_matrix(vector[:4])
    with pytest.raises(ValueError, match="outside"):
        tril_matrix_to_vec(matrix, 3)


def test_cumulative_functions():
    normal = Normal(tensora.tensor(1.0), tensora.tensor(2.0))
    transform, x = CumulativeDistributionTransform(normal), tensora.tensor([0.0, 1.0, 3.0])
    y = transform(x)
    assert y[1].item() == pytest.approx(0.5)
    tensora.testing.assert_close(transform.inv(y), x, rtol=1e-4, atol=1e-5)
    assert transform.log_abs_det_jacobian(x, y).allclose(normal.log_prob(x))


def test_expand_of_distributions_of_a_program():
    class Scaled(Normal):
        """Adds a field."""
        extra = 0

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Scaled, _instance)
            new.extra = 3
            return super().expand(batch_shape, _instance=new)

    class Narrow(Scaled):
        def __init__(self):
            super().__init__(0.0, 0.1)
    wide = Scaled(tensora.zeros(2), tensora.ones(2)).expand((3, 2))
    assert type(wide) is Scaled and wide.extra == 3 and wide.batch_shape == (3, 2) and wide.sample().shape == (3, 2)
    with pytest.raises(NotImplementedError, match="Subclass Narrow of Scaled"):
        Narrow().expand((2,))
    assert all(vars(tensora.distributions)[name].__doc__ for name in tensora.distributions.__all__)


def test_modes():  # PyTorch 2.15's
    from tensora import distributions as d
    t = tensora.tensor
    wanted = [(d.LogNormal(t(0.5), t(0.7)), math.exp(0.01)), (d.HalfNormal(t(2.0)), 0), (d.Exponential(t(2.0)), 0),
              (d.Laplace(t(1.0), t(2.0)), 1), (d.Cauchy(t(1.0), t(2.0)), 1), (d.Gumbel(t(1.0), t(2.0)), 1),
              (d.Gamma(t([0.5, 3.0]), t(2.0)), [0, 1]), (d.StudentT(t(3.0), t(1.0)), 1), (d.Geometric(t(0.3)), 0),
              (d.MultivariateNormal(t([1.0, 2.0]), tensora.eye(2)), [1, 2]), (d.Poisson(t([2.7, 3.0])), [2, 3]),
              (d.OneHotCategorical(t([0.2, 0.5, 0.3])), [0, 1, 0])]
    for distribution, mode in wanted:
        assert distribution.mode.tolist() == pytest.approx(mode, rel=1e-5)
    assert d.Uniform(t(0.0), t(1.0)).mode.isnan()


def test_all_values():
    from tensora.distributions import Bernoulli, Binomial, Categorical, Independent, OneHotCategorical, Poisson
    probs = tensora.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    categorical = Categorical(probs)
    assert categorical.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert categorical.enumerate_support(expand=False).tolist() == [[0], [1], [2]]
    tensora.testing.assert_close(categorical.log_prob(categorical.enumerate_support(False)).exp(), probs.t())
    assert OneHotCategorical(probs).enumerate_support().shape == (3, 2, 3)
    assert OneHotCategorical(probs).enumerate_support(False)[:, 0].equal(tensora.eye(3))
    assert Bernoulli(probs).enumerate_support().shape == (2, 2, 3) and Binomial(4, probs[0]).enumerate_support()[:, 1].tolist() == [
        0, 1, 2, 3, 4]
    assert Independent(categorical, 0).enumerate_support().shape == (3, 2) and categorical.has_enumerate_support
    assert not Poisson(1.0).has_enumerate_support and not Independent(categorical, 1).has_enumerate_support
    for refused, message in ((Independent(categorical, 1), "cartesian"), (Poisson(1.0), "no enumerate_support"),
                             (Binomial(tensora.tensor([1, 2]), probs[0, :2]), "Inhomogeneous")):
        with pytest.raises(NotImplementedError, match=message):
            refused.enumerate_support()


def test_the_factor_of_an_inverse():
    from tensora.distributions.multivariate import _precision_to_scale_tril
    a = tensora.randn(3, 4, 4, dtype=tensora.float64)
    precision = a @ a.mT + tensora.eye(4, dtype=tensora.float64)
    factor = _precision_to_scale_tril(precision)
    assert constraints.lower_cholesky.check(factor).all()
    tensora.testing.assert_close(factor @ factor.mT, precision.inverse(), rtol=1e-8, atol=1e-10)


def test_helpers():
    a, b = utils.broadcast_all(1.0, tensora.zeros(2))
    assert a.tolist() == [1, 1] and b.tolist() == [0, 0]
    with pytest.raises(ValueError, match="Number"):
        utils.broadcast_all("a", 1)
    p = tensora.tensor([0.25, 0.75])
    assert utils.logits_to_probs(utils.probs_to_logits(p)).allclose(p)
    assert utils.probs_to_logits(p, True)[1].item() == pytest.approx(math.log(3), rel=1e-5)
    assert utils.clamp_probs(tensora.tensor([0.0, 1.0])).tolist() == [pytest.approx(1.2e-7, rel=0.1), pytest.approx(1.0)]

    class Lazy:
        calls = 0

        @utils.lazy_property
        def value(self):
            self.calls += 1
            return tensora.ones(1)
    lazy = Lazy()
    assert lazy.value is lazy.value and lazy.calls == 1 and isinstance(Lazy.value, property)
