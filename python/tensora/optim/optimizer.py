"""Optimizer: groups of parameters as dicts, and the C++ optimizer that steps them."""
from collections import OrderedDict, defaultdict

from .. import _C
from .._C import Tensor
from .._modes import enable_grad, no_grad
from ..nn.modules.module import RemovableHandle

# Options that choose between PyTorch's implementations of one thing, and one that is refused.
_IGNORED = {"foreach", "fused", "differentiable"}


def _refuse_differentiable(differentiable):
    if differentiable:
        raise NotImplementedError("optimizers: differentiable=True is not supported, a step records no graph")


def _as_value_error(call):
    """What `call` returns; an option that is out of range is a ValueError."""
    try:
        return call()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


class Optimizer:
    """The base of all optimizers. One of your own writes `step`.

    >>> w = nn.Parameter(tensora.ones(2))
    >>> optimizer = tensora.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.data
    tensor([0., 0.])
    """
    _kind = None
    _optimizer = None

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self.param_groups = []
        self._own_state = defaultdict(dict)
        self._pre_hooks, self._post_hooks = OrderedDict(), OrderedDict()
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

    def _options(self, group):
        return {k: v for k, v in group.items() if k == "params" or (k in self.defaults and k not in _IGNORED)}

    def add_param_group(self, param_group):
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

    def step(self, closure=None):
        """Changes the parameters that have a gradient."""
        for hook in self._pre_hooks.values():
            hook(self, (), {})
        result = self._update(closure)
        for hook in self._post_hooks.values():
            hook(self, (), {})
        return result

    def _update(self, closure):
        if self._optimizer is None:
            raise NotImplementedError
        self._push()
        return self._optimizer.step() if closure is None else self._optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        """Forgets all gradients, or sets them to zero."""
        if self._optimizer is not None:
            return self._optimizer.zero_grad(set_to_none)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad = None if set_to_none else _C.zeros_like(parameter.grad)

    @property
    def state(self):
        """What is remembered of each parameter."""
        if self._optimizer is None:
            return self._own_state
        return _State(self)

    def state_dict(self):
        """Options and states, in the shape of PyTorch's."""
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
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes options and states over."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of "
                             "optimizer's group")
        if self._optimizer is not None:
            known = self._optimizer.state_dict()["param_groups"][0]
            groups = [{k: v for k, v in {**known, **g}.items() if k in known} for g in saved]
            self._optimizer.load_state_dict({"state": state_dict["state"], "param_groups": groups})
        for group, loaded in zip(self.param_groups, saved):
            group.update({k: tuple(v) if isinstance(group.get(k), tuple) else v
                          for k, v in loaded.items() if k != "params"})
        if self._optimizer is None:
            order = [p for g in self.param_groups for p in g["params"]]
            self._own_state = defaultdict(dict, {order[i]: dict(s) for i, s in state_dict["state"].items()})

    def register_step_pre_hook(self, hook):
        handle = RemovableHandle(self._pre_hooks)
        self._pre_hooks[handle.id] = hook
        return handle

    def register_step_post_hook(self, hook):
        handle = RemovableHandle(self._post_hooks)
        self._post_hooks[handle.id] = hook
        return handle

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {v}\n" for k, v in sorted(group.items()) if k != "params")
        return text + ")"

    def __getstate__(self):
        return {"class_state": self.state_dict(), "defaults": self.defaults,
                "params": [g["params"] for g in self.param_groups]}

    def __setstate__(self, state):
        saved = state["class_state"]
        groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": p}
                  for g, p in zip(saved["param_groups"], state["params"])]
        Optimizer.__init__(self, groups, state["defaults"])
        self.load_state_dict(saved)


class _State:
    """The C++ optimizer's states by parameter, as a dict would show them."""

    def __init__(self, owner):
        self._owner = owner

    def __getitem__(self, parameter):
        return self._owner._optimizer.state(parameter) or {}

    def __setitem__(self, parameter, state):
        self._owner._optimizer.set_state(parameter, state)

    def __contains__(self, parameter):
        return self._owner._optimizer.has_state(parameter)

    def __iter__(self):
        return (p for g in self._owner.param_groups for p in g["params"] if p in self)

    def __len__(self):
        return sum(1 for _ in self)

    def get(self, parameter, default=None):
        return self[parameter] if parameter in self else default

    def keys(self):
        return list(self)

    def items(self):
        return [(p, self[p]) for p in self]

    def values(self):
        return [self[p] for p in self]


def _check_lr(lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def _given(arguments):
    """The options among a constructor's arguments."""
    _refuse_differentiable(arguments.get("differentiable"))
    _check_lr(arguments["lr"])
    return {k: v.item() if isinstance(v, Tensor) else v for k, v in arguments.items()
            if k not in _IGNORED and k not in ("self", "params", "__class__")}


class SGD(Optimizer):
    """Stochastic gradient descent."""
    _kind = "SGD"

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Adam(Optimizer):
    """Adam."""
    _kind = "Adam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *,
                 maximize=False, capturable=False, decoupled_weight_decay=False, foreach=None,
                 differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class AdamW(Optimizer):
    """Adam whose weight decay acts on the parameters."""
    _kind = "AdamW"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False, capturable=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Adamax(Optimizer):
    """Adam with the infinity norm."""
    _kind = "Adamax"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, maximize=False,
                 capturable=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Adagrad(Optimizer):
    """Adagrad."""
    _kind = "Adagrad"

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0,
                 eps=1e-10, *, maximize=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Adadelta(Optimizer):
    """Adadelta."""
    _kind = "Adadelta"

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, *, maximize=False, capturable=False,
                 foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum."""
    _kind = "NAdam"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, maximize=False, capturable=False, foreach=None,
                 differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class RAdam(Optimizer):
    """Rectified Adam."""
    _kind = "RAdam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 decoupled_weight_decay=False, *, maximize=False, capturable=False, foreach=None,
                 differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class RMSprop(Optimizer):
    """RMSprop."""
    _kind = "RMSprop"

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, *,
                 maximize=False, capturable=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Lion(Optimizer):
    """Lion."""
    _kind = "Lion"

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False, foreach=None,
                 differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Muon(Optimizer):
    """Muon, for matrices."""
    _kind = "Muon"

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445,
                 -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn="original", *, foreach=None,
                 differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class Adafactor(Optimizer):
    """Adafactor."""
    _kind = "Adafactor"

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, _given(locals()))


class LBFGS(Optimizer):
    """L-BFGS; its step needs a closure."""
    _kind = "LBFGS"

    def __init__(self, params, lr=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, _given(locals()))


class _PerParameter(Optimizer):
    """What is written in Python: `_step(parameter, gradient, group)` changes one parameter."""

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
    """Averaged stochastic gradient descent."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _refuse_differentiable(differentiable)
        _check_lr(lr)
        for name, value in (("learning rate", lr), ("lambd", lambd), ("alpha", alpha), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"Invalid {name} value: {value}")
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      maximize=maximize))

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
