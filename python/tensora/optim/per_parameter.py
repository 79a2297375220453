"""Optimizers that are written in Python, parameter by parameter."""
from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._C import Tensor
from .._modes import enable_grad, no_grad
from .optimizer import Optimizer, _Params, _check_lr, _is_number, _refuse_differentiable


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).split('.')[-1]} tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"


class _PerParameter(Optimizer):
    """What is written in Python: `_step(parameter, gradient, group)` changes one parameter. `_state_names` are the
    tensors and the numbers of a parameter's state."""
    _state_names = ((), ())

    def _checked(self, parameter: Tensor, state: dict[str, Any]) -> dict[str, Any]:
        tensors, numbers = self._state_names
        kept, where = {}, f"{type(self).__name__}: load_state_dict: "
        if state and set(state) != {*tensors, *numbers}:
            raise ValueError(f"{where}expected a state of {', '.join([*numbers, *tensors])}, got {list(state)}")
        for name in state:
            value = state[name]
            if name in tensors:
                if (not isinstance(value, Tensor) or value.shape != parameter.shape
                        or not (value.is_complex() if parameter.is_complex() else value.is_floating_point())):
                    raise ValueError(f"{where}'{name}' must be a floating-point tensor of shape {list(parameter.shape)}, got "
                                     f"{_described(value)}")
                kept[name] = value.detach().to(parameter.device, parameter.dtype).clone()
            elif not _is_number(value) or not math.isfinite(float(value)) or name == "step" and float(value) < 0:
                raise ValueError(f"{where}'{name}' must be one number, got {_described(value)}")
            else:
                kept[name] = int(value) if name == "step" else float(value)
        return kept

    def _update(self, closure):
        with enable_grad():
            loss = None if closure is None else closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._step(p, -p.grad if group["maximize"] else p.grad, group)
        return loss


class ASGD(_PerParameter):
    """Averaged stochastic gradient descent (Polyak, 1992): `params` move as in SGD with a rate that falls from `lr` as `lambd`
    and the power `alpha` say, and their mean after step `t0` is kept in the state `ax`. `weight_decay` times the parameter
    is added to the gradient; `maximize` goes up instead of down."""
    _state_names = (("ax",), ("step", "eta", "mu"))

    def __init__(self, params: _Params, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0.0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        _refuse_differentiable(differentiable)
        _check_lr(lr)
        for name, value in (("learning rate", lr), ("lambd", lambd), ("alpha", alpha), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"Invalid {name} value: {value}")
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def _step(self, p, grad, group):
        state = self.state[p]
        if not state:
            state.update(step=0, eta=group["lr"], mu=1.0, ax=_C.zeros_like(p))
        state["step"] += 1
        grad = grad + group["weight_decay"] * p
        p.mul_(1 - group["lambd"] * state["eta"]).add_(grad, alpha=-state["eta"])
        if state["mu"] != 1:
            state["ax"].add_((p - state["ax"]) * state["mu"])
        else:
            state["ax"].copy_(p)
        state["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * state["step"]) ** group["alpha"]
        state["mu"] = 1 / max(1, state["step"] - group["t0"])
