"""The transforms that lead from all real numbers to a constraint."""
from . import constraints, transforms


class ConstraintRegistry:
    """Finds the transform of a constraint: registry(constraint)."""

    def __init__(self):
        self._makers = {}

    def register(self, constraint, factory=None):
        """Decorates the function that makes the transform of a class of constraints."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        self._makers[kind] = factory
        return factory

    def __call__(self, constraint):
        for kind in type(constraint).__mro__:
            if kind in self._makers:
                return self._makers[kind](constraint)
        raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(kind):
    def register(function):
        biject_to.register(kind, function)
        transform_to.register(kind, function)
        return function
    return register


@_both(constraints.real)
def _real(constraint):
    return transforms.identity_transform


@_both(constraints.positive)
def _greater(constraint):
    exp = transforms.ExpTransform()
    bound = constraint.lower_bound
    if isinstance(bound, (int, float)) and bound == 0:
        return exp
    return transforms.ComposeTransform([exp, transforms.AffineTransform(bound, 1)])


@_both(constraints.less_than)
def _less(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval)
def _interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.simplex)
def _simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _softmax(constraint):
    return transforms.SoftmaxTransform()


@_both(constraints.lower_cholesky)
def _lower(constraint):
    return transforms.LowerCholeskyTransform()


@_both(constraints.positive_definite)
def _definite(constraint):
    return transforms.PositiveDefiniteTransform()


@transform_to.register(constraints.positive_semidefinite)
def _semidefinite(constraint):
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _correlations(constraint):
    return transforms.CorrCholeskyTransform()


def _joined(registry):
    registry.register(constraints.cat, lambda constraint: transforms.CatTransform(
        [registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths))
    registry.register(constraints.stack, lambda constraint: transforms.StackTransform(
        [registry(c) for c in constraint.cseq], constraint.dim))


def _independent(registry):
    def make(constraint):
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)
    registry.register(constraints.independent, make)


for _registry in (biject_to, transform_to):
    _independent(_registry)
    _joined(_registry)
