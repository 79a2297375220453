"""Learning rates that change from step to step.

They act on `optimizer.param_groups`, the dicts that programs see, so that they serve optimizers written in Python
as well; the next step gives the rates to the C++ optimizer.
"""
from __future__ import annotations

import bisect
import functools
import math
import types
import warnings
import weakref
from collections import Counter
from typing import Any, Callable, Iterable

from .. import _C
from .optimizer import Optimizer

__all__ = ["LRScheduler", "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR",
           "ExponentialLR", "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
           "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"]


class LRScheduler:
    """The base of all schedulers: a subclass writes get_lr, the rates of the groups of `optimizer`. A run that resumes gives
    its `last_epoch`; `verbose` has no effect."""
    optimizer: Optimizer
    last_epoch: int
    base_lrs: list[float]
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.last_epoch, self._step_count = optimizer, last_epoch, 0
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", _number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError("param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer")
        self.base_lrs = [_number(group["initial_lr"]) for group in optimizer.param_groups]
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rate of each group for the epoch `last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group since the last step."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Moves on by one epoch, or to the one named."""
        _C._note_host_work(_IN_BODY)
        if self._step_count == 1:
            _warn_of_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(_EPOCH_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, values):
            group["lr"] = lr
        self._last_lr = self._current()

    def _current(self):
        return [_number(group["lr"]) for group in self.optimizer.param_groups]

    def _scaled(self, factor):
        return [lr * factor for lr in self._current()]

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


_IN_BODY = "a learning-rate scheduler steps in the body; step it after the call"
_EPOCH_WARNING = ("The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please "
                  "use `scheduler.step()` to step the scheduler.")
_ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _number(value):
    return value.item() if hasattr(value, "item") else value


def _per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """A value for each group of the optimizer."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(values)} values, "
                         f"param_groups has {count}.")
    return [_number(v) for v in values]


def _watch_steps(optimizer: Optimizer) -> None:
    """Lets the optimizer's step leave a mark, so that a schedule that moves on first can say so."""
    step = getattr(optimizer, "step", None)
    if getattr(step, "_wrapped_by_lr_sched", False) or not hasattr(step, "__func__"):
        return
    function, owner = step.__func__, weakref.ref(optimizer)

    @functools.wraps(function)
    def marked(*args, **kwargs):
        here = owner()
        here._opt_called = True
        return function(here, *args, **kwargs)
    marked._wrapped_by_lr_sched = True
    optimizer.step = marked


def _warn_of_order(optimizer: Optimizer) -> None:
    if not getattr(getattr(optimizer, "step", None), "_wrapped_by_lr_sched", False):
        warnings.warn("Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, "
                      f"make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_ORDER}", UserWarning, stacklevel=3)
    elif not getattr(optimizer, "_opt_called", False):
        warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should "
                      "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this "
                      f"will result in PyTorch skipping the first value of the learning rate schedule. {_ORDER}", UserWarning,
                      stacklevel=3)


class LambdaLR(LRScheduler):
    """The base rate times `lr_lambda`(epoch), a function or one for each group; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
                 last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        if not all(map(callable, self.lr_lambdas)):
            raise TypeError("lr_lambda should be a function")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [None if isinstance(f, types.FunctionType) or not hasattr(f, "__dict__") else dict(f.__dict__)
                               for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ())):
            if state is not None:
                function.__dict__.update(state)


class MultiplicativeLR(LambdaLR):
    """The rate before times `lr_lambda`(epoch), a function or one for each group of `optimizer`; `last_epoch` as in
    LRScheduler."""

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        return [lr * f(self.last_epoch) for lr, f in zip(self._current(), self.lr_lambdas)]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` epochs; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the epochs `milestones`; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect.bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times `factor` until `total_iters` epochs have passed; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1 / self.factor) if self.last_epoch == self.total_iters else self._current()

    def _get_closed_form_lr(self):
        return [base * (1 if self.last_epoch >= self.total_iters else self.factor) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes linearly from `start_factor` to `end_factor` in `total_iters` epochs; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch):
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch, self.total_iters) / self.total_iters

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self._current()
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))

    def _get_closed_form_lr(self):
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every epoch; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._current() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to 0 as (1 - epoch / `total_iters`) to the power `power`; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        return self._scaled(left ** self.power)

    def _get_closed_form_lr(self):
        left = 1.0 - min(self.last_epoch, self.total_iters) / self.total_iters
        return [base * left ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate to `eta_min` in `T_max` epochs, and back; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        t, low = self.last_epoch, self.eta_min
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:
            return [lr + (base - low) * (1 - math.cos(math.pi / self.T_max)) / 2
                    for base, lr in zip(self.base_lrs, self._current())]
        ratio = (1 + math.cos(math.pi * t / self.T_max)) / (1 + math.cos(math.pi * (t - 1) / self.T_max))
        return [ratio * (lr - low) + low for lr in self._current()]

    def _get_closed_form_lr(self):
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
                for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines from the base rate to `eta_min` that begin anew, the first `T_0` epochs long and each `T_mult` times as long as
    the one before; `optimizer` and `last_epoch` as in LRScheduler."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
                for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        _C._note_host_work(_IN_BODY)
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        elif epoch >= self.T_0:
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult ** n
        else:
            self.T_i, self.T_cur = self.T_0, epoch
        self.last_epoch = math.floor(epoch)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr
        self._last_lr = self._current()


class ReduceLROnPlateau(LRScheduler):
    """The rates of `optimizer` times `factor` when a measure has not become better for `patience` epochs.

    `mode` "min" or "max" says what is better, by more than `threshold`, a share or a difference as `threshold_mode` "rel" or
    "abs" says. `cooldown` epochs pass before counting begins again; rates are at least `min_lr`, and changes up to `eps` are
    left out; `verbose` has no effect.
    """

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
                 threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
                 min_lr: float | list[float] = 0, eps: float = 1e-8, verbose: Any = "deprecated") -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs, self.default_min_lr = _per_group(min_lr, optimizer, "min_lr"), None
        if not isinstance(min_lr, (list, tuple)):
            self.default_min_lr = _number(min_lr)
        self.last_epoch, self._last_lr = 0, self._current()
        self._reset()

    def _reset(self):
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    def _cover_new_groups(self):
        """Groups that were added since the schedule was made get its one lowest rate."""
        count = len(self.optimizer.param_groups)
        if len(self.min_lrs) == count:
            return
        if self.default_min_lr is None:
            raise RuntimeError(f"The number of param groups in the `optimizer` ({count}) differs from when `ReduceLROnPlateau` was "
                               f"initialized ({len(self.min_lrs)}), usually due to a new param group being added to the "
                               "optimizer. Please modify the `min_lrs` field to match the length of the `optimizer` param "
                               "groups.")
        self.min_lrs = [self.default_min_lr] * count

    def is_better(self, a: float, best: float) -> bool:
        if self.threshold_mode == "rel":
            return a < best * (1 - self.threshold) if self.mode == "min" else a > best * (1 + self.threshold)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Takes the measure of an epoch."""
        _C._note_host_work(_IN_BODY)
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._cover_new_groups()
            for group, low in zip(self.optimizer.param_groups, self.min_lrs):
                lr = max(group["lr"] * self.factor, low)
                if group["lr"] - lr > self.eps:
                    group["lr"] = lr
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()


def _check_together(name: str, schedulers: list[Any], optimizer: Optimizer) -> None:
    """Refuses schedules that cannot be stepped as one of this optimizer."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name}: expected schedulers, got a {type(scheduler).__name__} at index {i}")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(f"{name} does not support ReduceLROnPlateau: its step needs a metric, got one at index {i}")
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name} expects all schedulers to belong to the same optimizer, but got the scheduler at index "
                             f"{i} of another one")


class SequentialLR(LRScheduler):
    """The `schedulers` of `optimizer` one after the other, which change at the epochs `milestones`; `last_epoch` as in
    LRScheduler."""

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1,
                 verbose: Any = "deprecated") -> None:
        _check_together("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the "
                             f"number of milestone points, but got number of schedulers {len(schedulers)} and the "
                             f"number of milestones to be equal to {len(milestones)}")
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:
        _C._note_host_work(_IN_BODY)
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class ChainedScheduler(SequentialLR):
    """Steps several `schedulers` of `optimizer` at once."""

    def __init__(self, schedulers: Iterable[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ValueError("ChainedScheduler: expected at least one scheduler, got none")
        self.optimizer = optimizer or self._schedulers[0].optimizer
        _check_together("ChainedScheduler", self._schedulers, self.optimizer)
        self._last_lr = self._current()

    def step(self) -> None:
        _C._note_host_work(_IN_BODY)
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


from ._cycles import CyclicLR as CyclicLR, OneCycleLR as OneCycleLR  # noqa: E402  (they derive from LRScheduler)
