"""Resilient backpropagation."""
from .. import _C
from .optimizer import _PerParameter, _check_lr, _refuse_differentiable


class Rprop(_PerParameter):
    """Steps by the signs of the gradients: an element's step grows while its sign stays, and shrinks when it turns."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        _refuse_differentiable(differentiable)
        _check_lr(lr)
        if not lr >= 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, maximize=maximize))

    def _step(self, parameter, gradient, group):
        state = self.state[parameter]
        if not state:
            state.update(step=_C.tensor(0.0), prev=_C.zeros_like(parameter),
                         step_size=_C.full_like(gradient, float(group["lr"])))
        state["step"] += 1
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        agreement = gradient * state["prev"]
        factor = _C.ones_like(gradient).masked_fill_(agreement > 0, grow).masked_fill_(agreement < 0, shrink)
        state["step_size"].mul_(factor).clamp_(least, most)
        gradient = gradient.masked_fill(agreement < 0, 0)  # where the sign turned, nothing moves this time
        parameter.sub_(gradient.sign() * state["step_size"])
        state["prev"].copy_(gradient)
