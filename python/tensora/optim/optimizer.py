"""Optimizer: groups of parameters as dicts, and the C++ optimizer that steps them.

`foreach`, `fused` and `capturable` choose between implementations in PyTorch and change no result here;
`differentiable` is refused.
"""
from __future__ import annotations

import functools
from collections import defaultdict
from numbers import Integral, Real
from typing import Any, Callable, Dict, Iterable, Tuple, Union

from .. import _C
from .._C import Tensor
from ._hooks import (
    Hooked, register_optimizer_step_post_hook as register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook)

# Parameters, pairs of names and parameters, or groups: dicts with "params" and options of their own.
_Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
# Options that choose between PyTorch's implementations of one thing, and one that is refused: groups name them, as
# PyTorch's do, and the C++ optimizer does not get them.
_IGNORED = {"foreach", "fused", "differentiable"}


ParamsT = Union[Iterable[Tensor], Iterable[Dict[str, Any]], Iterable[Tuple[str, Tensor]]]


class _RequiredParameter:
    """The default of an option that has none; programs compare with `required`."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _noted(function, reason):
    """The function, which notes that it works on the host."""
    @functools.wraps(function)
    def noted(*args, **kwargs):
        _C._note_host_work(reason)
        return function(*args, **kwargs)
    return noted


def _refuse_differentiable(differentiable):
    if differentiable:
        raise NotImplementedError("optimizers: differentiable=True is not supported, a step records no graph")


def _as_value_error(call):
    """What `call` returns; an option that is out of range is a ValueError."""
    try:
        return call()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


class Optimizer(Hooked):
    """The base of all optimizers: `params` in groups, whose options begin as `defaults`. One of your own writes `step`.

    >>> w = nn.Parameter(tensora.ones(2))
    >>> optimizer = tensora.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.data
    tensor([0., 0.])
    """
    _kind: str | None = None
    _optimizer: Any = None
    _state_names: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    defaults: dict[str, Any]
    param_groups: list[dict[str, Any]]

    def __init__(self, params: _Params, defaults: dict[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups = []
        self._own_state = defaultdict(dict)
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{type(params).__name__}")
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:  # what it does on the host, a replayed function would not do again
            cls.step = _noted(cls.step, "an optimizer with a step of its own steps in the body")

    def _options(self, group):
        return {k: v for k, v in group.items() if k == "params" or (k in self.defaults and k not in _IGNORED)}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if names:
            group["param_names"] = names
        if any(("param_names" in group) != ("param_names" in other) for other in self.param_groups):
            raise ValueError("all optimizer param groups should be with/without names. cannot add param group "
                             f"{'with' if 'param_names' in group else 'without'} names to the optimizer")
        group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for parameter in group["params"]:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}")
            if not parameter.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(parameter) in known:
                raise ValueError("some parameters appear in more than one parameter group")
            known.add(id(parameter))
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        if self._optimizer is not None:
            _as_value_error(lambda: self._optimizer.add_param_group(self._options(group)))
        self.param_groups.append(group)
        if self._optimizer is None and self._kind and group["params"]:
            self._make()

    def _make(self):
        self._optimizer = _as_value_error(
            lambda: _C._make_optimizer(self._kind, [self._options(g) for g in self.param_groups]))

    def _push(self):
        """Gives the options, which programs change in the dicts, to the C++ optimizer."""
        for i, group in enumerate(self.param_groups):
            self._optimizer.set_options(i, group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes the parameters that have a gradient; `closure` computes the loss anew and is what the result comes from."""
        if _C._is_deferring():
            return self._deferred_step(closure)
        return self._whole_step(closure)

    def _whole_step(self, closure):
        args = self._before_step((self,) if closure is None else (self, closure))
        result = self._update(*(args[1:] or (None,)))
        self._after_step(args)
        return result

    def _deferred_step(self, closure):
        """A replayed function does it again in each call: it counts steps, and looks up learning rates."""
        if closure is not None or self._has_step_hooks():
            _C._note_host_work("an optimizer steps with a closure or has hooks")
            return self._whole_step(closure)
        _C._host_step(lambda: self._update(None), lambda: repr([self._settings(group) for group in self.param_groups]))

    @staticmethod
    def _settings(group):
        return [(name, value) for name, value in group.items() if name != "params"]

    def _update(self, closure):
        if self._optimizer is None:
            raise NotImplementedError
        self._push()
        return self._optimizer.step() if closure is None else self._optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients, or sets them to zero."""
        if self._optimizer is not None:
            return self._optimizer.zero_grad(set_to_none)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad = None if set_to_none else _C.zeros_like(parameter.grad)

    @property
    def state(self) -> Any:
        """What is remembered of each parameter."""
        if self._optimizer is None:
            return self._own_state
        return _State(self)

    def state_dict(self) -> dict[str, Any]:
        """Options and states, in the shape of PyTorch's."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers, groups = {}, []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers.setdefault(id(p), len(numbers)) for p in group["params"]]
            groups.append(packed)
        state = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter in self.state:
                    state[numbers[id(parameter)]] = self.state[parameter]
        return self._changed_by(self._optimizer_state_dict_post_hooks, {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes options and states over."""
        state_dict = self._changed_by(self._optimizer_load_state_dict_pre_hooks, dict(state_dict))
        saved, states = state_dict["param_groups"], state_dict["state"]
        if not isinstance(states, dict) or not all(isinstance(g, dict) for g in saved):
            raise TypeError(f"{type(self).__name__}: load_state_dict: 'state' must be a dict and 'param_groups' a list of "
                            f"dicts, got a {type(states).__name__} and {[type(g).__name__ for g in saved]}")
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of "
                             "optimizer's group")
        for group in saved:
            self._check_options(group)
        own = self._own_states(states, saved) if self._optimizer is None else None
        if self._optimizer is not None:
            known = self._optimizer.state_dict()["param_groups"][0]
            groups = [{k: v for k, v in {**known, **g}.items() if k in known} for g in saved]
            self._optimizer.load_state_dict({"state": states, "param_groups": groups})
        for group, loaded in zip(self.param_groups, saved):
            group.update({k: tuple(v) if isinstance(group.get(k), tuple) else v
                          for k, v in loaded.items() if k != "params"})
        if own is not None:
            self._own_state = defaultdict(dict, own)
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def _check_options(self, group: dict[str, Any]) -> None:
        """Refuses what cannot be an option, before anything is taken over."""
        for name in group:
            if not isinstance(name, str):
                raise TypeError(f"{type(self).__name__}: load_state_dict: expected names of options, got {name!r}")
        for name in _IGNORED:
            if not isinstance(group.get(name), (bool, type(None))):
                raise TypeError(f"{type(self).__name__}: load_state_dict: the option '{name}' must be a bool or None, "
                                f"got {group[name]!r}")
        for name, known in self.defaults.items():
            if name in group and not _is_like(known, group[name]):
                raise TypeError(f"{type(self).__name__}: load_state_dict: the option '{name}' must be of the kind of "
                                f"{known}, got {group[name]!r}")

    def _own_states(self, states: dict[Any, Any], saved: list[dict[str, Any]]) -> dict[Tensor, dict[str, Any]]:
        """The states of an optimizer that is written in Python, by parameter."""
        numbers = [i for g in saved for i in g["params"]]
        order = dict(zip(numbers, (p for g in self.param_groups for p in g["params"])))
        own = {}
        for number, state in states.items():
            if number not in order or not isinstance(state, dict):
                raise ValueError(f"{type(self).__name__}: load_state_dict: expected a dict for a parameter of 'param_groups', "
                                 f"got a {type(state).__name__} for parameter {number!r}")
            own[order[number]] = dict(state) if self._state_names is None else self._checked(order[number], state)
        return own

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {v}\n" for k, v in sorted(group.items()) if k != "params")
        return text + ")"

    def __getstate__(self) -> dict[str, Any]:
        return {"class_state": self.state_dict(), "defaults": self.defaults,
                "params": [g["params"] for g in self.param_groups]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state["class_state"]
        groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": p}
                  for g, p in zip(saved["param_groups"], state["params"])]
        Optimizer.__init__(self, groups, state["defaults"])
        self.load_state_dict(saved)


class _State:
    """The C++ optimizer's states by parameter, as a dict would show them."""

    def __init__(self, owner) -> None:
        self._owner = owner

    def __getitem__(self, parameter: Tensor) -> dict[str, Any]:
        return self._owner._optimizer.state(parameter) or {}

    def __setitem__(self, parameter, state) -> None:
        self._owner._optimizer.set_state(parameter, state)

    def __contains__(self, parameter) -> bool:
        return self._owner._optimizer.has_state(parameter)

    def __iter__(self):
        return (p for g in self._owner.param_groups for p in g["params"] if p in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get(self, parameter, default=None):
        return self[parameter] if parameter in self else default

    def keys(self):
        return list(self)

    def items(self):
        return [(p, self[p]) for p in self]

    def values(self):
        return [self[p] for p in self]


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, Real) and not (isinstance(value, int) and abs(value) >= 2 ** 63)


def _is_like(known: Any, value: Any, within: bool = False) -> bool:
    """Whether a value may replace an option that is a number, or numbers; others are not looked at."""
    if isinstance(known, tuple):
        return (isinstance(value, (tuple, list)) and len(value) == len(known)
                and all(_is_like(k, v, True) for k, v in zip(known, value)))
    if isinstance(known, bool):
        return isinstance(value, int) and value in (0, 1)
    if isinstance(known, int) and not within:
        return isinstance(value, Integral) and abs(value) < 2 ** 63
    return not isinstance(known, (int, float)) or _is_number(value)


def _check_lr(lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def _given(arguments):
    """The options among a constructor's arguments."""
    _refuse_differentiable(arguments.get("differentiable"))
    _check_lr(arguments["lr"])
    return {k: v.item() if isinstance(v, Tensor) else v for k, v in arguments.items()
            if k not in ("self", "params", "__class__")}


class SGD(Optimizer):
    """Stochastic gradient descent: `params` move against the gradient times `lr`, or against its running sum.

    The sum is `momentum` times the sum before plus 1 - `dampening` times the gradient; `nesterov` looks one step ahead.
    `weight_decay` times the parameter is added to the gradient; `maximize` goes up instead of down.
    """
    _kind = "SGD"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Adam(Optimizer):
    """Adam (Kingma, 2014): `params` move by `lr` times the mean of the gradients over the root of the mean of their squares.

    `betas` are the decays of the two means, `eps` is added to the root. `weight_decay` times the parameter is added to the
    gradient, or with `decoupled_weight_decay` subtracted from the parameter as in AdamW. `amsgrad` keeps the largest mean
    of squares; `maximize` goes up instead of down.
    """
    _kind = "Adam"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
                 capturable: bool = False, decoupled_weight_decay: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class AdamW(Optimizer):
    """Adam whose `weight_decay` shrinks the parameters themselves (Loshchilov, 2017): each step takes lr · weight_decay times
    the parameter. `params`, `lr`, `betas`, `eps`, `amsgrad` and `maximize` as in Adam."""
    _kind = "AdamW"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, {**_given(locals()), "decoupled_weight_decay": True})

    def _options(self, group):
        return {k: v for k, v in super()._options(group).items() if k != "decoupled_weight_decay"}


class Adamax(Optimizer):
    """Adam with the largest decayed gradient in place of the root of the mean square (Kingma, 2014). `params`, `lr`, `betas`,
    `eps`, `weight_decay` and `maximize` as in Adam."""
    _kind = "Adamax"

    def __init__(self, params: _Params, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, *, maximize: bool = False, capturable: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Adagrad(Optimizer):
    """Adagrad (Duchi, 2011): `params` move by `lr` times the gradient over the root of the sum of all squares plus `eps`.

    The sums begin as `initial_accumulator_value`; lr falls as 1 / (1 + step · `lr_decay`); `weight_decay` times the
    parameter is added to the gradient; `maximize` goes up instead of down.
    """
    _kind = "Adagrad"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
                 initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012): `params` move by `lr` times the gradient, over the root of the mean of its squares and times
    that of the steps before. `rho` is the decay of both means, `eps` is added to them; `weight_decay` times the parameter
    is added to the gradient; `maximize` goes up instead of down."""
    _kind = "Adadelta"

    def __init__(self, params: _Params, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0.0, *, maximize: bool = False, capturable: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat, 2016), which grows with the steps as `momentum_decay` says. `params`, `lr`,
    `betas`, `eps`, `weight_decay`, `decoupled_weight_decay` and `maximize` as in Adam."""
    _kind = "NAdam"

    def __init__(self, params: _Params, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, maximize: bool = False, capturable: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class RAdam(Optimizer):
    """Adam that waits with its division until the mean of squares is reliable (Liu, 2019). `params`, `lr`, `betas`, `eps`,
    `weight_decay`, `decoupled_weight_decay` and `maximize` as in Adam."""
    _kind = "RAdam"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *,
                 maximize: bool = False, capturable: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class RMSprop(Optimizer):
    """RMSprop: `params` move by `lr` times the gradient over the root of the mean of its squares.

    `alpha` is the decay of the mean, `eps` is added to the root; `centered` divides by the standard deviation instead.
    `momentum` sums steps up; `weight_decay` times the parameter is added to the gradient; `maximize` goes up.
    """
    _kind = "RMSprop"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *, maximize: bool = False,
                 capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Lion(Optimizer):
    """Lion (Chen, 2023): `params` move by `lr` times the sign of a mean of gradients. `betas` are the decays in the step and
    in the state; `weight_decay` shrinks the parameters as in AdamW; `maximize` goes up instead of down."""
    _kind = "Lion"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Muon(Optimizer):
    """Muon (Jordan, 2024), for matrices: `params` move by `lr` times the momentum made orthogonal by Newton and Schulz.

    `momentum` is the decay of the sum of gradients, `nesterov` looks one step ahead; `ns_steps` iterations with
    `ns_coefficients` start from the sum over its norm plus `eps`. `adjust_lr_fn` "original" or "match_rms_adamw" scales lr
    by the shape; `weight_decay` shrinks the parameters as in AdamW.
    """
    _kind = "Muon"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = (3.4445,
                 -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = "original", *,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class Adafactor(Optimizer):
    """Adafactor (Shazeer, 2018): mean squares of matrices kept as row and column means.

    `params` move by at most `lr` times their own size; `beta2_decay` is the exponent of the mean's decay, `eps` has the
    regularizers of squares and of sizes, `d` limits the size of a step, `weight_decay` shrinks the parameters, `maximize`
    goes up.
    """
    _kind = "Adafactor"

    def __init__(self, params: _Params, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, _given(locals()))


class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method; its step needs a closure that computes the loss anew.

    A step has up to `max_iter` iterations of size `lr` and `max_eval` evaluations for `params`, and ends when no gradient is
    above `tolerance_grad` or nothing changes by `tolerance_change`. `history_size` updates approximate the Hessian;
    `line_search_fn` is "strong_wolfe" or None. `maximize` goes up instead of down.
    """
    _kind = "LBFGS"

    def __init__(self, params: _Params, lr: float | Tensor = 1.0, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None, *, maximize: bool = False) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, _given(locals()))
