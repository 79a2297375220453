"""Adam of the rows that were used."""
from __future__ import annotations

import math

from .. import _C
from .._C import Tensor
from .optimizer import _Params, _check_lr
from .per_parameter import _PerParameter


class SparseAdam(_PerParameter):
    """Adam (Kingma, 2015) of the entries that the sparse gradients of `params` have: the other elements, and their means of
    gradients and squares (`betas`), stay as they are. Of a dense gradient, the rows that are not zero count. `lr` is the
    learning rate, `eps` is added to the root of the mean square, and `maximize` goes up instead of down."""
    _state_names = (("exp_avg", "exp_avg_sq"), ("step",))

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, maximize: bool = False) -> None:
        _check_lr(lr)
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def _step(self, parameter, gradient, group):
        state = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=_C.zeros_like(parameter), exp_avg_sq=_C.zeros_like(parameter))
        state["step"] += 1
        rows, gradient, sparse_dims = _used(gradient)

        def by_rows(tensor):
            return tensor.view(math.prod(tensor.shape[:sparse_dims]), *tensor.shape[sparse_dims:]) if sparse_dims > 1 else tensor
        beta1, beta2 = group["betas"]
        means, squares = by_rows(state["exp_avg"]), by_rows(state["exp_avg_sq"])
        mean = means.index_select(0, rows).lerp_(gradient, 1 - beta1)
        square = squares.index_select(0, rows).lerp_(gradient.square(), 1 - beta2)
        means.index_copy_(0, rows, mean)
        squares.index_copy_(0, rows, square)
        rate = group["lr"] * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        by_rows(parameter).index_add_(0, rows, -rate * mean / (square.sqrt() + group["eps"]))


def _used(gradient):
    """The numbers of the rows that have a gradient, each once, the gradients, and how many dims number them."""
    if gradient.is_sparse:
        from ..sparse import _flat
        whole = gradient.coalesce()
        return _flat(whole.indices(), whole.shape), whole.values(), whole.sparse_dim()
    used = gradient != 0
    rows = (used.flatten(1).any(1) if used.dim() > 1 else used).nonzero().flatten()
    return rows, gradient.index_select(0, rows), 1
