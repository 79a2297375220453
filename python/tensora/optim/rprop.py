"""Resilient backpropagation."""
from __future__ import annotations

from .. import _C
from .._C import Tensor
from .optimizer import _Params, _check_lr, _refuse_differentiable
from .per_parameter import _PerParameter


class Rprop(_PerParameter):
    """Steps by the signs of the gradients (Riedmiller, 1993): each element of `params` has a step, which begins as `lr`,
    shrinks and grows by the factors `etas` when its sign turns or stays, and keeps within `step_sizes`; `maximize` goes up
    instead of down."""
    _state_names = (("prev", "step_size"), ("step",))

    def __init__(self, params: _Params, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        _refuse_differentiable(differentiable)
        _check_lr(lr)
        if not lr >= 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, capturable=capturable))

    def _step(self, parameter, gradient, group):
        state = self.state[parameter]
        if not state:
            state.update(step=0, prev=_C.zeros_like(parameter),
                         step_size=_C.full_like(gradient, float(group["lr"])))
        state["step"] += 1
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        agreement = gradient * state["prev"]
        factor = _C.ones_like(gradient).masked_fill_(agreement > 0, grow).masked_fill_(agreement < 0, shrink)
        state["step_size"].mul_(factor).clamp_(least, most)
        gradient = gradient.masked_fill(agreement < 0, 0)  # where the sign turned, nothing moves this time
        parameter.sub_(gradient.sign() * state["step_size"])
        state["prev"].copy_(gradient)
