"""Averages of weights."""
from __future__ import annotations

import copy
import math
from typing import Any, Callable, Iterable

from .. import _C
from .._C import Tensor
from .._modes import no_grad
from ..nn.modules.module import Module
from ..nn.common_types import Device
from .lr_scheduler import LRScheduler
from .optimizer import Optimizer


def get_swa_multi_avg_fn() -> Callable[..., Any]:
    """A function for AveragedModel that gives means of lists of tensors, in place."""
    def average(averaged: list[Tensor], current: list[Tensor], count: int | Tensor) -> None:
        for own, new in zip(averaged, current):
            own.lerp_(new.to(own.dtype), 1 / (int(count) + 1))
    return average


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function for AveragedModel that gives the mean of `count` + 1 tensors from that of `count`."""
    def average(averaged: Tensor, current: Tensor, count: int | Tensor) -> Tensor:
        return averaged + (current - averaged) / (int(count) + 1)
    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function for AveragedModel that gives exponential averages of lists of tensors, in place: `decay` times the average
    plus the rest of the weight."""
    def average(averaged: list[Tensor], current: list[Tensor], count: int) -> None:
        for own, new in zip(averaged, current):
            own.copy_(decay * own + (1 - decay) * new)
    return average


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, int], Tensor]:
    """A function for AveragedModel that gives exponential averages: `decay` times the average plus the rest of the weight."""
    def average(averaged, current, count):
        return decay * averaged + (1 - decay) * current
    return average


class AveragedModel(Module):
    """A copy of `model` on `device` whose parameters are averages of the model's over time.

    `avg_fn`(average, parameter, count) gives the next average, by default the plain one; `multi_avg_fn`(averages,
    parameters, count) writes the averages of a list of parameters. `use_buffers` averages floating buffers too; the others
    are copied.
    """

    def __init__(self, model: Module, device: Device = None, avg_fn: Callable[..., Tensor] | None = None,
                 multi_avg_fn: Callable[..., Any] | None = None, use_buffers: bool = False) -> None:
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: only one of avg_fn and multi_avg_fn can be given")
        super().__init__()
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Takes the model as it is now into the averages."""
        count = int(self.n_averaged)
        pairs = list(zip(self.module.parameters(), model.parameters()))
        for own, current in zip(self.module.buffers(), model.buffers()):
            if self.use_buffers and own.is_floating_point():
                pairs.append((own, current))
            else:
                own.copy_(current.detach())
        pairs = [(own, current.detach().to(own.device)) for own, current in pairs]
        if count and self.multi_avg_fn is not None:
            self.multi_avg_fn([own for own, _ in pairs], [current for _, current in pairs], count)
            pairs = []
        for own, current in pairs:
            if count == 0:
                own.copy_(current)
            elif self.avg_fn is None:
                own.add_((current - own) / (count + 1))
            else:
                own.copy_(self.avg_fn(own, current, count))
        self.n_averaged.add_(1)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Computes the running statistics of the batch norms of `model` anew, from the batches of `loader`, moved to `device`."""
    norms = [m for m in model.modules() if hasattr(m, "reset_running_stats")]
    for norm in norms:
        norm.reset_running_stats()
    kept = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch.to(device) if device is not None else batch)
    for norm, momentum in zip(norms, kept):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Leads each learning rate of `optimizer` to `swa_lr` within `anneal_epochs` epochs, and keeps it there. `anneal_strategy` is
    "cos" or "linear"; `last_epoch` as in LRScheduler.

    Another schedule may change the rate in between: what is left of the way starts where the rate is.
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"swa_lr must have {len(groups)} entries, one for each group, got {len(rates)}")
        for group, rate in zip(groups, rates):
            group["swa_lr"] = rate.item() if isinstance(rate, _C.Tensor) else rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _way(self, step):
        """Which part of the way is behind after `step` steps."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[float]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group, lr in zip(self.optimizer.param_groups, self._current()):
            target = group["swa_lr"]
            start = target if before == 1 else (lr - target * before) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
