"""Learning rates and momentums that go up and down."""
from __future__ import annotations

import math
from typing import Any, Callable

from .lr_scheduler import LRScheduler, _per_group
from .optimizer import Optimizer


def _set_momentum(group, value):
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    elif "momentum" in group:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The rate goes from `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`.

    `mode` "triangular" keeps the height, "triangular2" halves it in each cycle, "exp_range" multiplies it by `gamma` in each
    step; `scale_fn` is a height of one's own, of the cycle or the step as `scale_mode` "cycle" or "iterations" says. With
    `cycle_momentum` the momentum goes from `max_momentum` to `base_momentum` and back. `optimizer` and `last_epoch` as in LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
                 step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular",
                 gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: float | list[float] = 0.8,
                 max_momentum: float | list[float] = 0.9, last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.max_lrs = _per_group(max_lr, optimizer, "max_lr")
        base_lrs = _per_group(base_lr, optimizer, "base_lr")
        for group, lr in zip(optimizer.param_groups, base_lrs):
            if last_epoch == -1:
                group["lr"] = lr
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = step_size_up + down, step_size_up / (step_size_up + down)
        self.mode, self.gamma, self._scale_fn, self.cycle_momentum = mode, gamma, scale_fn, cycle_momentum
        self.scale_mode = scale_mode if scale_fn else ("iterations" if mode == "exp_range" else "cycle")
        if cycle_momentum and not any(k in optimizer.param_groups[0] for k in ("momentum", "betas")):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.base_momentums = _per_group(base_momentum, optimizer, "base_momentum")
        self.max_momentums = _per_group(max_momentum, optimizer, "max_momentum")
        if cycle_momentum and last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums):
                group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs  # another schedule may have left an initial rate of its own in the groups

    def _scale(self, x):
        if self._scale_fn is not None:
            return self._scale_fn(x)
        return {"triangular": 1.0, "triangular2": 1 / 2.0 ** (x - 1), "exp_range": self.gamma ** x}[self.mode]

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        factor = height * self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * factor)
        return [base + (high - base) * factor for base, high in zip(self.base_lrs, self.max_lrs)]


class OneCycleLR(LRScheduler):
    """The rate goes from `max_lr` / `div_factor` up to max_lr, then down to the first / `final_div_factor`.

    There are `total_steps` steps, or `epochs` times `steps_per_epoch`, of which the share `pct_start` goes up;
    `anneal_strategy` is "cos" or "linear"; `three_phase` first comes back to the first rate. With `cycle_momentum` the
    momentum goes from `max_momentum` to `base_momentum` and back. `optimizer` and `last_epoch` as in LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
                 epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
                 anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float | list[float] = 0.85,
                 max_momentum: float | list[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
                 three_phase: bool = False, last_epoch: int = -1, verbose: Any = "deprecated") -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        start = float(pct_start * total_steps) - 1
        if three_phase:
            self._phases = [(start, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                            (2 * start, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                            (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._phases = [(start, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                            (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        for group, high in zip(optimizer.param_groups, _per_group(max_lr, optimizer, "max_lr")):
            if last_epoch == -1:
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            if not any(k in optimizer.param_groups[0] for k in ("momentum", "betas")):
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            for group, low, high in zip(optimizer.param_groups, _per_group(base_momentum, optimizer, "base_momentum"),
                                        _per_group(max_momentum, optimizer, "max_momentum")):
                group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, share):
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ValueError(f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                             f"{self.total_steps}")
        result = []
        for group in self.optimizer.param_groups:
            begin = 0.0
            for i, (end, low, high, first, second) in enumerate(self._phases):
                if self.last_epoch <= end or i == len(self._phases) - 1:
                    share = (self.last_epoch - begin) / (end - begin)
                    result.append(self._between(group[low], group[high], share))
                    if self.cycle_momentum:
                        _set_momentum(group, self._between(group[first], group[second], share))
                    break
                begin = end
        return result
